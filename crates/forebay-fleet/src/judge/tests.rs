use super::*;

use EndpointState::{Ready, Starting, Unready};
use Verdict::{Bad, Good, Refused};

const INTERVAL: Duration = Duration::from_secs(2);
const QUIET: Traffic = Traffic { succeeded: None, refused: None };

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Feeds probes 2 s apart, each taking 100 ms, and gives the state after each.
fn run(mut judge: Judge, verdicts: &[Verdict], traffic: impl Fn(Time) -> Traffic) -> Vec<EndpointState> {
    let mut states = Vec::new();
    for (n, verdict) in verdicts.iter().enumerate() {
        let started = at(2_000 * (n as u64 + 1));
        let now = started + Duration::from_millis(100);
        let changed = judge.probed(*verdict, started, now, traffic(now));
        assert_eq!(changed.is_some(), states.last().map_or(changed.is_some(), |last| *last != judge.state));
        states.push(judge.state);
    }
    states
}

fn judge(state: EndpointState, fall: u32, rise: u32) -> Judge {
    Judge::new(state, INTERVAL, fall, rise)
}

#[test]
fn the_first_good_probe_makes_a_starting_endpoint_ready_whatever_rise_is() {
    assert_eq!(run(judge(Starting, 3, 5), &[Good], |_| QUIET), [Ready]);
}

#[test]
fn a_starting_endpoint_that_refuses_is_unready_at_once_and_one_that_is_slow_is_not() {
    assert_eq!(run(judge(Starting, 3, 1), &[Refused, Good], |_| QUIET), [Unready, Ready]);
    assert_eq!(run(judge(Starting, 3, 1), &[Bad, Bad, Bad], |_| QUIET), [Starting, Starting, Unready]);
    assert_eq!(run(judge(Starting, 3, 1), &[Bad, Bad, Good], |_| QUIET), [Starting, Starting, Ready]);
}

#[test]
fn it_takes_fall_failures_in_a_row() {
    let probes = [Bad, Bad, Good, Bad, Refused, Bad, Bad];
    assert_eq!(
        run(judge(Ready, 3, 1), &probes, |_| QUIET),
        [Ready, Ready, Ready, Ready, Ready, Unready, Unready]
    );
}

#[test]
fn it_takes_rise_successes_in_a_row() {
    let probes = [Good, Bad, Good, Good, Good];
    assert_eq!(run(judge(Unready, 3, 3), &probes, |_| QUIET), [Unready, Unready, Unready, Unready, Ready]);
}

#[test]
fn zero_counts_as_one() {
    assert_eq!(run(judge(Ready, 0, 0), &[Bad, Good], |_| QUIET), [Unready, Ready]);
}

#[test]
fn one_failed_probe_in_three_never_ejects() {
    let probes = [Good, Good, Bad].repeat(20);
    assert!(run(judge(Ready, 2, 1), &probes, |_| QUIET).iter().all(|s| *s == Ready));
}

#[test]
fn an_endpoint_that_serves_is_never_ejected_though_every_probe_fails() {
    let serving = |now: Time| Traffic {
        succeeded: Some(Time::from_nanos(now.as_nanos() - 500_000_000)),
        refused: None,
    };
    assert!(run(judge(Ready, 3, 1), &[Bad; 30], serving).iter().all(|s| *s == Ready));
    assert!(run(judge(Ready, 3, 1), &[Refused; 30], serving).iter().all(|s| *s == Ready));
}

#[test]
fn a_success_during_a_slow_probe_contradicts_it_and_an_older_one_does_not() {
    let (started, now) = (at(10_000), at(18_000));
    let with = |succeeded| Traffic { succeeded: Some(succeeded), refused: None };
    assert_eq!(judge(Ready, 1, 1).probed(Bad, started, now, with(at(10_500))), None);
    assert_eq!(judge(Ready, 1, 1).probed(Bad, started, now, with(at(9_500))), Some(Unready));
}

#[test]
fn an_endpoint_that_refuses_both_traffic_and_probe_is_unready_at_once() {
    let refused = Traffic { succeeded: Some(at(9_900)), refused: Some(at(10_000)) };
    assert_eq!(judge(Ready, 3, 1).probed(Refused, at(10_001), at(10_002), refused), Some(Unready));
    // An answer that is only bad is not the second witness.
    assert_eq!(judge(Ready, 3, 1).probed(Bad, at(10_001), at(10_002), refused), None);
    // Neither is traffic that has succeeded since, as when only a backlog was full,
    let recovered = Traffic { succeeded: Some(at(10_001)), refused: Some(at(10_000)) };
    assert_eq!(judge(Ready, 3, 1).probed(Refused, at(10_001), at(10_002), recovered), None);
    // or a refusal of long ago.
    assert_eq!(judge(Ready, 3, 1).probed(Refused, at(13_000), at(13_001), refused), None);
}

#[test]
fn traffic_does_not_make_an_unready_endpoint_ready() {
    let serving = |now: Time| Traffic { succeeded: Some(now), refused: None };
    assert_eq!(run(judge(Unready, 3, 1), &[Bad, Refused, Good], serving), [Unready, Unready, Ready]);
}

#[test]
fn what_an_operator_decided_is_left_alone() {
    for state in [EndpointState::Draining, EndpointState::Disabled] {
        let probes = [Good, Bad, Refused, Bad, Bad, Good];
        assert!(run(judge(state, 1, 1), &probes, |_| QUIET).iter().all(|s| *s == state));
    }
}
