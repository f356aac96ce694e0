use forebay_sim::baselines::BaselineKind;
use forebay_sim::engine::Profile;
use forebay_sim::fleet::Fleet;
use forebay_sim::workload::TenantsSpec;

use super::*;
use crate::contenders::{predictive, rival};
use crate::scenario::Traffic;

/// Three seeds with these goodputs and so many milliseconds to the first token.
fn seeds(goodput: [f64; 3], ttft_ms: f64) -> Vec<Outcome> {
    let outcome =
        |goodput| Outcome { goodput, ttft_ms: [ttft_ms; 4], e2e_ms: [1_000.0; 4], ..Outcome::default() };
    goodput.map(outcome).to_vec()
}

fn comparison(rows: Vec<(&str, [Option<Vec<Outcome>>; 3])>) -> Comparison {
    let fleet = Fleet::uniform(1, &Profile::ALL[0]);
    let scenario = Scenario::new("any", fleet, Traffic::Tenants(TenantsSpec::saas(1.0, 1)), 0);
    let (names, outcomes): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    Comparison {
        conditions: names.into_iter().map(|name| Condition::new(name, scenario.clone(), 1.0)).collect(),
        contenders: vec![predictive(), rival(BaselineKind::Dynamo), rival(BaselineKind::Mooncake)],
        outcomes: outcomes.into_iter().map(Vec::from).collect(),
    }
}

#[test]
fn what_is_lost_is_said() {
    let it = comparison(vec![
        ("calm", [Some(seeds([0.9, 0.91, 0.92], 100.0)), Some(seeds([0.8, 0.81, 0.82], 100.0)), None]),
        (
            "storm",
            [
                Some(seeds([0.5, 0.51, 0.52], 200.0)),
                Some(seeds([0.4, 0.41, 0.42], 100.0)),
                Some(seeds([0.6, 0.61, 0.62], 150.0)),
            ],
        ),
        ("doubt", [Some(seeds([0.5, 0.6, 0.7], 100.0)), Some(seeds([0.7, 0.6, 0.53], 100.0)), None]),
        ("alone", [Some(seeds([0.5, 0.6, 0.7], 100.0)), None, None]),
    ]);
    let said = it.standing(0, 1..3);
    assert!(said.contains("Of 3 rows with rivals"), "{said}");
    assert!(said.contains("equal in 1, level within the confidence interval in 1"), "{said}");
    assert!(said.contains("**loses 1** (“storm” to rival-mooncake: −10.0)"), "{said}");
    assert!(
        said.contains("shorter mean TTFT in 1 of them, at most by 100 % in “storm” (rival-dynamo)"),
        "{said}"
    );
    assert!(said.contains("No rival has a shorter mean e2e"), "{said}");
    let (worst, by) = it.worst(1..4, 0, 0).unwrap();
    assert_eq!((worst.name.as_str(), show(by)), ("storm", "−40.0".to_owned()));
}

#[test]
fn figures_have_their_interval_where_there_is_one() {
    assert_eq!(figures(&seeds([0.9, 0.91, 0.92], 123.4)), "0.910 ± 0.025 / 123 / 1.00");
    assert_eq!(figures(&seeds([0.9; 3], 123.4)[..1]), "0.900 / 123 / 1.00");
    assert_eq!(show(Mean { mean: 1.04, half: 0.26 }), "+1.0 ± 0.3");
}
