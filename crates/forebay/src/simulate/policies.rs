//! Which policies are compared.

use forebay_config::PolicyKind;
use forebay_gate::PoolConfig;
use forebay_sim::baselines::{BaselineKind, Knobs};
use forebay_sim::fleet::PolicySpec;

use super::near::nearest;
use crate::cli::Failure;

/// A policy and what it is called in the report.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) spec: PolicySpec,
}

impl Named {
    pub(super) fn is_rival(&self) -> bool {
        matches!(self.spec, PolicySpec::Baseline(..))
    }
}

fn ours(policy: PolicyKind) -> Named {
    let spec = PolicySpec::Ours(PoolConfig { policy, ..PoolConfig::default() });
    Named { name: spec.name(), spec }
}

fn rival(kind: BaselineKind) -> Named {
    let spec = PolicySpec::Baseline(kind, Knobs::default());
    Named { name: spec.name(), spec }
}

/// Reads the list on the command line; an empty one means everything.
pub(super) fn read(names: &[String]) -> Result<Vec<Named>, Failure> {
    let everything = ["all".to_owned()];
    let names = if names.is_empty() { &everything[..] } else { names };
    let mut policies: Vec<Named> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let more = match name {
            "ours" => PolicyKind::ALL.into_iter().map(ours).collect(),
            "rivals" => BaselineKind::ALL.iter().copied().map(rival).collect(),
            "all" => {
                let rivals = BaselineKind::ALL.iter().copied().map(rival);
                PolicyKind::ALL.into_iter().map(ours).chain(rivals).collect()
            }
            _ => vec![one(name)?],
        };
        for policy in more {
            if !policies.iter().any(|other| other.name == policy.name) {
                policies.push(policy);
            }
        }
    }
    Ok(policies)
}

/// One policy: a name, and for a rival perhaps its knobs.
fn one(text: &str) -> Result<Named, Failure> {
    let usage = |message: String| Failure::Usage(format!("--policies: {message}"));
    if let Ok(kind) = text.parse::<PolicyKind>() {
        return Ok(ours(kind));
    }
    if text.is_empty() {
        return Err(usage("a name is missing beside a comma".to_owned()));
    }
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    if name.parse::<PolicyKind>().is_ok() {
        return Err(usage(format!(
            "{name} has no knobs: write it without \"{}\" (only rivals have knobs)",
            &text[name.len()..]
        )));
    }
    let Ok(kind) = name.parse::<BaselineKind>() else {
        let ours = PolicyKind::ALL.iter().map(|policy| policy.as_str());
        let all = ours.chain(BaselineKind::ALL.iter().map(|kind| kind.as_str())).chain(GROUPS);
        let meant = nearest(name, all).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        return Err(usage(format!("there is no policy \"{name}\"{meant}\nThere are\n{}", known())));
    };
    let knobs = kind.knobs();
    let mut values = Vec::new();
    for (at, part) in parts.enumerate() {
        let Some(knob) = knobs.get(at) else {
            return Err(usage(match knobs.len() {
                0 => format!("{name} has no knobs"),
                count => format!("{name} has {count} knobs, {}", described(kind)),
            }));
        };
        let value = part.parse().ok().filter(|value: &f64| (0.0..=1e12).contains(value));
        let Some(value) = value else {
            return Err(usage(format!(
                "{name}: {} is \"{part}\", expected a number from 0 to 1e12",
                knob.name
            )));
        };
        values.push(value);
    }
    Ok(Named { name: text.to_owned(), spec: PolicySpec::Baseline(kind, Knobs(values)) })
}

/// Names that stand for several.
const GROUPS: [&str; 3] = ["ours", "rivals", "all"];

fn described(kind: BaselineKind) -> String {
    let knobs = kind.knobs().iter().map(|knob| format!("{} (default {})", knob.name, knob.default));
    knobs.collect::<Vec<_>>().join(", ")
}

/// Every name, a line each for ours and the rivals.
pub(super) fn known() -> String {
    let ours: Vec<&str> = PolicyKind::ALL.iter().map(|policy| policy.as_str()).collect();
    let rivals: Vec<&str> = BaselineKind::ALL.iter().map(|kind| kind.as_str()).collect();
    format!("  {}\n  {}", ours.join(", "), rivals.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Result<Vec<String>, String> {
        let list: Vec<String> = list.iter().map(|&name| name.to_owned()).collect();
        let policies = read(&list).map_err(|failure| failure.to_string())?;
        Ok(policies.into_iter().map(|policy| policy.name).collect())
    }

    #[test]
    fn names_stand_for_one_or_several() {
        let all = names(&[]).unwrap();
        assert_eq!(all.len(), PolicyKind::ALL.len() + BaselineKind::ALL.len());
        assert!(all.len() >= 12);
        assert_eq!(names(&["rival-p2c", "ours"]).unwrap().len(), 1 + PolicyKind::ALL.len());
        assert_eq!(names(&["random", "random"]).unwrap(), ["random"]);
        assert_eq!(names(&["rival-p2c:3", "rival-p2c"]).unwrap(), ["rival-p2c:3", "rival-p2c"]);
    }

    #[test]
    fn what_is_none_is_refused_by_name() {
        assert!(names(&["fastest"]).unwrap_err().contains("no policy \"fastest\""));
        assert!(names(&["rival-p2c:many"]).unwrap_err().contains("is \"many\""));
        assert!(names(&["rival-p2c:-3"]).unwrap_err().contains("is \"-3\", expected a number from 0"));
        assert!(names(&["rival-p2c:NaN"]).unwrap_err().contains("expected a number"));
        assert!(names(&["rival-round-robin:1"]).unwrap_err().contains("has no knobs"));
        assert!(names(&["predictive:3"]).unwrap_err().contains("predictive has no knobs"));
        assert!(names(&["rival-p2c:1:2:3:4:5"]).unwrap_err().contains("choice_count (default 2)"));
        assert!(names(&["least_requests"]).unwrap_err().contains("did you mean least_request?"));
        assert!(names(&["dynamo"]).unwrap_err().contains("did you mean rival-dynamo?"));
        assert!(names(&["random", ""]).unwrap_err().contains("missing beside a comma"));
    }
}
