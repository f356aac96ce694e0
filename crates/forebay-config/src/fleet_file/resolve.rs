//! From what the user wrote to the fleet, with every error of meaning.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kinds::Change;
use super::raw::{RawEvent, RawFleet, RawGroup, RawMemory, RawStep, RawZone};
use super::{FleetFile, FleetFileChange, FleetFileEvent, FleetGroup, Hardware, MOST_ENDPOINTS, StepTimes};
use crate::error::{Errors, quote};
use crate::resolve::Resolver;
use crate::scalar::nearest;

/// Tokens of one KV block; less than one block holds nothing.
const BLOCK: u64 = 16;

/// Most that a group or an event may be faster than the class: more is a percentage.
const MOST_SPEED: f64 = 4.0;

type Zones = BTreeMap<String, Duration>;

pub(super) fn resolve(raw: &RawFleet, mut to: Resolver<'_>, classes: &[&str]) -> Result<FleetFile, Errors> {
    to.required(&raw.version, "", "version");
    let zones = zones(raw.zones.as_deref().unwrap_or_default(), &mut to);
    let groups = groups(raw.endpoints.as_deref(), &zones, classes, &mut to);
    let gateways = to.count(&raw.gateways, "", "gateways", 1);
    let share_interval = to.optional(&raw.share_interval, "", "share_interval");
    if share_interval.is_some() && gateways == 1 {
        to.error("share_interval", "has no meaning with one gateway; add gateways: 2 or more".to_owned());
    }
    let pools = to.count(&raw.pools, "", "pools", 1);
    let endpoints: usize = groups.iter().map(|group| group.count).sum();
    if pools as usize > endpoints.max(1) {
        to.error("pools", format!("{pools} pools for {endpoints} endpoints; each pool needs one"));
    }
    let fleet = FleetFile {
        pools,
        gateways,
        gateway_shares: gateway_shares(raw, gateways, &mut to),
        share_interval,
        scrape_interval: to.field(&raw.scrape_interval, "", "scrape_interval", Duration::from_secs(1)),
        kv_events_delay: to.optional(&raw.kv_events_delay, "", "kv_events_delay"),
        gateway_overhead: to.field(&raw.gateway_overhead, "", "gateway_overhead", Duration::ZERO),
        events: events(raw.events.as_deref().unwrap_or_default(), &groups, &mut to),
        groups,
    };
    to.finish(fleet)
}

fn gateway_shares(raw: &RawFleet, gateways: u32, to: &mut Resolver<'_>) -> Vec<f64> {
    let Some(written) = &raw.gateway_shares else { return Vec::new() };
    let mut shares = Vec::with_capacity(written.len());
    for (at, share) in written.iter().enumerate() {
        shares.push(to.scalar(share, &format!("gateway_shares[{at}]")).unwrap_or(1.0));
    }
    if shares.len() != gateways as usize {
        to.error("gateway_shares", format!("has {} shares for gateways: {gateways}", shares.len()));
    } else if shares.iter().sum::<f64>() <= 0.0 {
        to.error("gateway_shares", "are all 0: no gateway would get a request".to_owned());
    }
    shares
}

fn zones(raw: &[RawZone], to: &mut Resolver<'_>) -> Zones {
    let mut zones = Zones::new();
    for (at, zone) in raw.iter().enumerate() {
        let path = format!("zones[{at}]");
        let name = to.required(&zone.name, &path, "name");
        let round_trip = to.required(&zone.round_trip, &path, "round_trip").unwrap_or_default();
        if let Some(name) = name
            && zones.insert(name.clone(), round_trip).is_some()
        {
            to.error(&format!("{path}.name"), format!("the zone {} is there twice", quote(&name)));
        }
    }
    zones
}

fn groups(
    raw: Option<&[RawGroup]>,
    zones: &Zones,
    classes: &[&str],
    to: &mut Resolver<'_>,
) -> Vec<FleetGroup> {
    let raw = raw.unwrap_or_default();
    if raw.is_empty() {
        to.error("endpoints", "needs at least one, such as {class: h100-8b, count: 8}".to_owned());
    }
    let mut groups: Vec<FleetGroup> = Vec::with_capacity(raw.len());
    for (at, written) in raw.iter().enumerate() {
        let path = format!("endpoints[{at}]");
        let group = group(written, &path, zones, classes, to);
        if let Some(first) = groups.iter().position(|other| other.name == group.name) {
            let message =
                format!("another group is named {}, too; give each a name of its own", quote(&group.name));
            to.error_with(&path, message, &[(&format!("endpoints[{first}]"), "the other")]);
        }
        groups.push(group);
    }
    let all: usize = groups.iter().map(|group| group.count).sum();
    if all > MOST_ENDPOINTS {
        to.error("endpoints", format!("{all} in all; at most {MOST_ENDPOINTS}"));
    }
    groups
}

fn group(raw: &RawGroup, path: &str, zones: &Zones, classes: &[&str], to: &mut Resolver<'_>) -> FleetGroup {
    let class = to.optional(&raw.class, path, "class");
    let step = raw.step.as_ref().map(|step| step_times(step, &format!("{path}.step"), to));
    if let Some(class) = class.as_deref().filter(|class| !classes.contains(class)) {
        let near = nearest(class, classes.iter().copied())
            .map_or_else(String::new, |near| format!("; did you mean {}?", quote(near)));
        let message = format!(
            "unknown class {}{near} (one of: {}; or give your own times as step)",
            quote(class),
            classes.join(", ")
        );
        to.error(&format!("{path}.class"), message);
    }
    match (&raw.class, &raw.step) {
        (None, None) => to.error(path, "needs either class or step".to_owned()),
        (Some(_), Some(_)) => to.error(path, "has both class and step; write one of them".to_owned()),
        _ => {}
    }
    let mut kv_tokens = to.optional(&raw.kv_tokens, path, "kv_tokens").map(narrow);
    match (&raw.memory, &raw.kv_tokens) {
        (Some(_), Some(_)) => {
            to.error(path, "has both kv_tokens and memory; write one of them".to_owned());
        }
        (Some(memory), None) => kv_tokens = memory_tokens(memory, &format!("{path}.memory"), to),
        (None, None) if raw.step.is_some() => {
            to.error(path, "needs kv_tokens or memory beside step".to_owned());
        }
        _ => {}
    }
    let zone = to.optional(&raw.zone, path, "zone");
    let own_way = to.optional(&raw.round_trip, path, "round_trip");
    let zone_way = zone.as_ref().and_then(|zone| zones.get(zone)).copied();
    if let Some(zone) = zone.filter(|zone| own_way.is_none() && !zones.contains_key(zone)) {
        let known: Vec<&str> = zones.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        let message = format!("no zone is named {} (zones: {known})", quote(&zone));
        to.error(&format!("{path}.zone"), message);
    }
    let host = raw.host_tier.as_ref();
    let host_path = format!("{path}.host_tier");
    let adapters = raw.adapters.as_ref();
    let adapters_path = format!("{path}.adapters");
    let name = to.optional(&raw.name, path, "name");
    let speed = to.optional(&raw.speed, path, "speed");
    if let Some(speed) = speed.filter(|speed| *speed > MOST_SPEED) {
        let message = format!(
            "{speed} is {speed} times as fast as its class, and a group may be {MOST_SPEED} times as fast at most; a \
             share is meant, 0.8 for 80 %, or other hardware, which `step` describes"
        );
        to.error(&format!("{path}.speed"), message);
    }
    FleetGroup {
        name: name.or_else(|| class.clone()).unwrap_or_else(|| "own".to_owned()),
        hardware: match (class, step) {
            (Some(class), _) => Hardware::Class(class),
            (None, step) => Hardware::Step(step.unwrap_or_default()),
        },
        count: to.required(&raw.count, path, "count").map_or(1, |count| narrow(count) as usize),
        speed: speed.unwrap_or(1.0),
        weight: to.field(&raw.weight, path, "weight", 1.0),
        accelerator: to.optional(&raw.accelerator, path, "accelerator"),
        round_trip: own_way.or(zone_way).unwrap_or_default(),
        kv_tokens,
        max_num_seqs: to.optional(&raw.max_num_seqs, path, "max_num_seqs").map(narrow),
        max_batched_tokens: to.optional(&raw.max_batched_tokens, path, "max_batched_tokens").map(narrow),
        host_tokens: host.and_then(|host| to.required(&host.tokens, &host_path, "tokens")).unwrap_or(0),
        host_ms_per_token: host.and_then(|host| to.optional(&host.ms_per_token, &host_path, "ms_per_token")),
        adapter_slots: adapters
            .and_then(|adapters| to.optional(&adapters.slots, &adapters_path, "slots"))
            .map(narrow),
        adapter_load: adapters.and_then(|adapters| to.optional(&adapters.load, &adapters_path, "load")),
    }
}

fn step_times(raw: &RawStep, path: &str, to: &mut Resolver<'_>) -> StepTimes {
    let times = StepTimes {
        base_ms: to.required(&raw.base_ms, path, "base_ms").unwrap_or(1.0),
        token_ms: to.required(&raw.token_ms, path, "token_ms").unwrap_or(1.0),
        pair_ms: to.field(&raw.pair_ms, path, "pair_ms", 0.0),
        context_ms: to.field(&raw.context_ms, path, "context_ms", 0.0),
        stream_ms: to.field(&raw.stream_ms, path, "stream_ms", 0.0),
    };
    if times.base_ms + times.token_ms <= 0.0 {
        to.error(path, "base_ms and token_ms are both 0: steps would take no time".to_owned());
    }
    times
}

/// Tokens that fit into what the weights leave.
fn memory_tokens(raw: &RawMemory, path: &str, to: &mut Resolver<'_>) -> Option<u32> {
    let total = to.required(&raw.total, path, "total");
    let weights = to.required(&raw.weights, path, "weights");
    let per_token = to.required(&raw.per_token, path, "per_token");
    let usable = to.field(&raw.usable, path, "usable", 0.9);
    let (total, weights, per_token) = (total?, weights?, per_token?);
    let share = total as f64 * usable;
    let tokens = (share - weights as f64) / per_token as f64;
    if tokens < BLOCK as f64 {
        let gib = |bytes: f64| format!("{:.1} GiB", bytes / f64::from(1 << 30));
        let left = share - weights as f64;
        let message = format!(
            "cannot hold the model: {usable} of {} is {}, less {} of weights is {}, and one block of \
             {BLOCK} tokens takes {:.3} MiB",
            gib(total as f64),
            gib(share),
            gib(weights as f64),
            gib(left),
            (per_token * BLOCK) as f64 / f64::from(1 << 20),
        );
        to.error(path, message);
        return None;
    }
    if tokens > 1e9 {
        to.error(path, format!("leaves room for {tokens:.0} tokens; at most 1000000000 are believed"));
        return None;
    }
    Some(tokens as u32)
}

fn events(raw: &[RawEvent], groups: &[FleetGroup], to: &mut Resolver<'_>) -> Vec<FleetFileEvent> {
    let mut events = Vec::with_capacity(raw.len());
    for (at, written) in raw.iter().enumerate() {
        let path = format!("events[{at}]");
        let when = to.required(&written.at, &path, "at");
        let change = to.required(&written.change, &path, "change");
        let speed = to.optional(&written.speed, &path, "speed");
        let back_after = to.optional(&written.back_after, &path, "back_after");
        let keep_cache = to.optional(&written.keep_cache, &path, "keep_cache");
        let whose = to.required(&written.endpoint, &path, "endpoint");
        let found = whose.as_ref().and_then(|whose| find(whose, groups));
        if let Some(whose) = whose.filter(|_| found.is_none() && !groups.is_empty()) {
            let known: Vec<String> = groups
                .iter()
                .map(|group| format!("{0}, {0}-1 to {0}-{1}", group.name, group.count))
                .collect();
            let message = format!(
                "no group and no endpoint is named {} (there are: {})",
                quote(&whose),
                known.join("; ")
            );
            to.error(&format!("{path}.endpoint"), message);
        }
        let Some(change) = change else { continue };
        let only = |field: &str, given: bool, of: Change, word: &str, to: &mut Resolver<'_>| {
            if given && change != of {
                to.error(&format!("{path}.{field}"), format!("belongs to change: {word} only"));
            }
        };
        only("speed", written.speed.is_some(), Change::Speed, "speed", to);
        only("back_after", written.back_after.is_some(), Change::Crash, "crash", to);
        only("keep_cache", written.keep_cache.is_some(), Change::Crash, "crash", to);
        if change == Change::Speed && written.speed.is_none() {
            to.error(&path, "needs speed, such as 0.8 for a GPU throttled by 20 %".to_owned());
        }
        if let Some(speed) = speed.filter(|speed| *speed > MOST_SPEED) {
            let message = format!(
                "{speed} is {speed} times as fast as its class, and an event may make it {MOST_SPEED} times as fast at \
                 most; a share is meant, 0.8 for 80 %"
            );
            to.error(&format!("{path}.speed"), message);
        }
        let change = match change {
            Change::Speed => FleetFileChange::Speed(speed.unwrap_or(1.0)),
            Change::Crash => FleetFileChange::Crash { back_after, keep_cache: keep_cache.unwrap_or(false) },
            Change::Join => FleetFileChange::Join,
            Change::Leave => FleetFileChange::Leave,
        };
        if let (Some(at), Some((group, member))) = (when, found) {
            events.push(FleetFileEvent { at, group, member, change });
        }
    }
    events
}

/// The group, or one endpoint of it, of that name.
fn find(name: &str, groups: &[FleetGroup]) -> Option<(usize, Option<usize>)> {
    if let Some(group) = groups.iter().position(|group| group.name == name) {
        return Some((group, None));
    }
    let (group, number) = name.rsplit_once('-')?;
    let number: usize = number.parse().ok()?;
    let at = groups.iter().position(|other| other.name == group && (1..=other.count).contains(&number))?;
    Some((at, Some(number - 1)))
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
