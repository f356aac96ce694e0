//! From a fleet file to what the simulator plays.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use forebay_config::{FleetFile, FleetFileChange, FleetGroup, Hardware, parse_fleet};
use forebay_core::Time;
use forebay_sim::engine::Profile;
use forebay_sim::fleet::{EndpointSpec, Fleet, FleetChange, FleetEvent};

use super::table::rounded;
use crate::cli::Failure;

/// A fleet with the words that describe it.
#[derive(Clone, Debug)]
pub(super) struct NamedFleet {
    pub(super) fleet: Fleet,
    /// Pools that it is split into.
    pub(super) pools: usize,
    /// Such as `16 × h100-8b`.
    pub(super) title: String,
    /// What is unusual about it, a phrase each.
    pub(super) facts: Vec<String>,
    /// What happens, and at which second.
    pub(super) events: Vec<(f64, String)>,
}

/// Endpoints when no file says otherwise.
const USUAL: usize = 16;
const USUAL_CLASS: &str = "h100-8b";

/// A larger file is none that describes a fleet.
const MOST_BYTES: u64 = 16 << 20;

/// All of a file that has an end.
fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MOST_BYTES {
        return Err(io::Error::other("it has more than 16 MiB, which is no fleet"));
    }
    Ok(text)
}

/// Reads the file, or takes the usual fleet.
pub(super) fn read(path: Option<&Path>) -> Result<NamedFleet, Failure> {
    let classes: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name).collect();
    let (name, text) = match path {
        None => {
            let text = format!("version: 1\nendpoints: [{{class: {USUAL_CLASS}, count: {USUAL}}}]\n");
            ("usual".to_owned(), text)
        }
        Some(path) => {
            let name = path.display().to_string();
            let text = text(path)
                .map_err(|error| Failure::Usage(format!("cannot read the fleet {name}: {error}")))?;
            (name, text)
        }
    };
    let file = parse_fleet(&name, &text, &classes, &|name| std::env::var(name).ok())
        .map_err(|errors| Failure::Usage(errors.to_string().trim_end().to_owned()))?;
    let fleet = convert(&file)?;
    fleet.validate().map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    let pools = file.pools as usize;
    let is_there = |pool: usize| fleet.endpoints.iter().skip(pool).step_by(pools).any(|end| end.is_member);
    if let Some(pool) = (0..pools).find(|pool| !is_there(*pool)) {
        let whose = if pools > 1 { format!(" of pool {}", pool + 1) } else { String::new() };
        return Err(Failure::Usage(format!(
            "{name}: every endpoint{whose} joins later; none is there at the start"
        )));
    }
    Ok(NamedFleet { title: title(&file), facts: facts(&file), events: events(&file), pools, fleet })
}

fn convert(file: &FleetFile) -> Result<Fleet, Failure> {
    let mut endpoints = Vec::new();
    let mut firsts = Vec::new();
    for (at, group) in file.groups.iter().enumerate() {
        firsts.push(endpoints.len());
        let spec = endpoint(group)?;
        endpoints.extend((0..group.count).filter_map(|member| {
            let name = file.endpoint_name(at, member)?;
            Some(EndpointSpec { name, ..spec.clone() })
        }));
    }
    let mut events = Vec::new();
    for event in &file.events {
        let Some(first) = firsts.get(event.group).copied() else { continue };
        let count = file.groups[event.group].count;
        let members = event.member.map_or(0..count, |member| member..member + 1);
        let change = match event.change {
            FleetFileChange::Speed(speed) => FleetChange::Slow { slowness: 1.0 / speed },
            FleetFileChange::Crash { back_after, keep_cache } => {
                FleetChange::Crash { back_after, keep_cache }
            }
            FleetFileChange::Join => FleetChange::Join,
            FleetFileChange::Leave => FleetChange::Leave,
        };
        let at = Time::from_nanos(u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX));
        events.extend(members.map(|member| FleetEvent { at, endpoint: first + member, change }));
    }
    // In the order of time; of one time, in the file's.
    events.sort_by_key(|event| event.at);
    for event in events.iter().rev() {
        match event.change {
            // Who joins was not there before.
            FleetChange::Join => endpoints[event.endpoint].is_member = false,
            FleetChange::Leave => endpoints[event.endpoint].is_member = true,
            FleetChange::Slow { .. } | FleetChange::Crash { .. } => {}
        }
    }
    let mut fleet = Fleet::uniform(0, crate::engine::profile(USUAL_CLASS)?);
    fleet.endpoints = endpoints;
    fleet.gateways = file.gateways as usize;
    fleet.gateway_shares.clone_from(&file.gateway_shares);
    fleet.share_every = file.share_interval;
    fleet.scrape_every = file.scrape_interval;
    fleet.kv_events = file.kv_events_delay;
    fleet.gateway_overhead = file.gateway_overhead;
    fleet.events = events;
    Ok(fleet)
}

fn endpoint(group: &FleetGroup) -> Result<EndpointSpec, Failure> {
    let mut profile = match &group.hardware {
        Hardware::Class(class) => *crate::engine::profile(class)?,
        Hardware::Step(step) => {
            let usual = crate::engine::profile(USUAL_CLASS)?;
            Profile {
                name: "own",
                a: step.base_ms,
                b: step.token_ms,
                c: step.pair_ms,
                d: step.context_ms,
                e: step.stream_ms,
                ..*usual
            }
        }
    };
    profile.kv_tokens = group.kv_tokens.unwrap_or(profile.kv_tokens);
    profile.max_num_seqs = group.max_num_seqs.unwrap_or(profile.max_num_seqs);
    profile.max_batched_tokens = group.max_batched_tokens.unwrap_or(profile.max_batched_tokens);
    let usual = EndpointSpec::new(group.name.clone(), &profile);
    let class = match &group.hardware {
        Hardware::Class(class) => Some(class.clone()),
        Hardware::Step(_) => None,
    };
    Ok(EndpointSpec {
        slowness: 1.0 / group.speed,
        round_trip: group.round_trip,
        accelerator: group.accelerator.clone().or(class),
        weight: group.weight,
        host_tokens: group.host_tokens,
        host_ms_per_token: group.host_ms_per_token.unwrap_or(usual.host_ms_per_token),
        adapter_slots: group.adapter_slots.unwrap_or(usual.adapter_slots),
        adapter_load_ms: group.adapter_load.map_or(usual.adapter_load_ms, |load| load.as_secs_f64() * 1e3),
        ..usual
    })
}

fn title(file: &FleetFile) -> String {
    let groups: Vec<String> = file
        .groups
        .iter()
        .map(|group| {
            let name = match &group.hardware {
                Hardware::Class(class) if *class == group.name => class.clone(),
                Hardware::Class(class) => format!("{} ({class})", group.name),
                Hardware::Step(_) => group.name.clone(),
            };
            let speed =
                if group.speed == 1.0 { String::new() } else { format!(" at {} × its speed", group.speed) };
            format!("{} × {name}{speed}", group.count)
        })
        .collect();
    groups.join(" + ")
}

fn facts(file: &FleetFile) -> Vec<String> {
    let mut facts = Vec::new();
    if file.pools > 1 {
        facts.push(format!("{} pools, each with traffic and gateways of its own", file.pools));
    }
    facts.push(match (file.gateways, file.share_interval) {
        (1, _) => "one gateway".to_owned(),
        (many, None) => format!("{many} gateways that tell each other nothing"),
        (many, Some(every)) => {
            format!("{many} gateways that tell each other their load every {}", span(every))
        }
    });
    facts.push(format!("load reports every {}", span(file.scrape_interval)));
    if let Some(late) = file.kv_events_delay {
        facts.push(format!("KV events {} late", span(late)));
    }
    if let Some(far) = file.groups.iter().map(|group| group.round_trip).max().filter(|far| !far.is_zero()) {
        facts.push(format!("round trips up to {}", span(far)));
    }
    facts
}

fn span(time: std::time::Duration) -> String {
    rounded(Some(time.as_secs_f64() * 1e3))
}

fn events(file: &FleetFile) -> Vec<(f64, String)> {
    let mut events: Vec<(f64, String)> = file
        .events
        .iter()
        .map(|event| {
            let whose = event.member.and_then(|member| file.endpoint_name(event.group, member));
            let whose = whose.unwrap_or_else(|| format!("all of {}", file.groups[event.group].name));
            let what = match event.change {
                FleetFileChange::Speed(speed) => format!("at {speed} × its speed"),
                FleetFileChange::Crash { back_after: None, .. } => "crashes for good".to_owned(),
                FleetFileChange::Crash { back_after: Some(after), keep_cache } => {
                    let cache = if keep_cache { ", its cache kept" } else { "" };
                    format!("crashes, back after {}{cache}", span(after))
                }
                FleetFileChange::Join => "joins".to_owned(),
                FleetFileChange::Leave => "leaves".to_owned(),
            };
            (event.at.as_secs_f64(), format!("{whose} {what}"))
        })
        .collect();
    events.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(text: &str) -> Fleet {
        convert(&parse_fleet("f", text, &["h100-8b", "a100-8b"], &|_| None).unwrap()).unwrap()
    }

    #[test]
    fn who_joins_first_is_not_there_at_the_start() {
        let fleet = fleet(
            "version: 1
endpoints: [{name: a, class: h100-8b, count: 4}]
events:
  - {at: 9s, endpoint: a-4, change: leave}
  - {at: 5s, endpoint: a-3, change: join}
  - {at: 1s, endpoint: a-4, change: join}
  - {at: 1s, endpoint: a-2, change: leave}
  - {at: 2s, endpoint: a-2, change: join}
",
        );
        let there: Vec<bool> = fleet.endpoints.iter().map(|endpoint| endpoint.is_member).collect();
        assert_eq!(there, [true, true, false, false]);
        assert!(fleet.events.is_sorted_by_key(|event| event.at));
    }

    #[test]
    fn own_numbers_replace_those_of_the_class() {
        let fleet = fleet(
            "version: 1
endpoints:
  - {class: a100-8b, count: 1, speed: 0.5, kv_tokens: 4096}
  - {name: mine, count: 1, kv_tokens: 999, step: {base_ms: 3, token_ms: 0.5}}
",
        );
        let (first, own) = (&fleet.endpoints[0], &fleet.endpoints[1]);
        assert_eq!((first.slowness, first.profile.kv_tokens, first.profile.a), (2.0, 4096, 11.5));
        assert_eq!(first.accelerator.as_deref(), Some("a100-8b"));
        assert_eq!((own.profile.a, own.profile.b, own.profile.c), (3.0, 0.5, 0.0));
        assert_eq!((own.name.as_str(), own.accelerator.as_deref()), ("mine-1", None));
    }
}
