use std::sync::Arc;

use forebay_core::{EndpointFacts, EndpointState, LoadReport, Time};

use super::super::{Endpoints, Sent};
use crate::row::Charge;

fn endpoints() -> (Endpoints, u32) {
    let mut endpoints = Endpoints::default();
    let slot = endpoints.insert(EndpointFacts::named("a"), EndpointState::Ready, Time::ZERO).slot;
    (endpoints, slot)
}

fn send(endpoints: &mut Endpoints, slot: u32) -> Charge {
    let chain = Arc::from([]);
    let sent = Sent { work: 1, prefill_ms: 100.0, prompt: 1000, tail: 1000, class: 0, chain: &chain };
    endpoints.send(slot, Time::ZERO, &sent)
}

fn report(running: u32, waiting: u32, tokens: Option<u64>) -> LoadReport {
    LoadReport {
        running: Some(running),
        waiting: Some(waiting),
        waiting_tokens: tokens,
        ..LoadReport::default()
    }
}

/// The same report for as long as it takes to be believed.
fn tell(endpoints: &mut Endpoints, slot: u32, report: LoadReport) {
    for _ in 0..40 {
        endpoints.set_report(slot, report);
    }
}

#[test]
fn others_that_wait_owe_their_prefill_and_others_that_run_are_streams() {
    let (mut endpoints, slot) = endpoints();
    tell(&mut endpoints, slot, report(3, 2, Some(10_000)));
    let row = endpoints.row(slot);
    let near = |got: f32, want: f64| assert!((f64::from(got) - want).abs() < 0.01 * want, "{got} {want}");
    near(row.all_requests(), 5.0);
    near(row.all_streams(), 3.0);
    let two = 2.0 * endpoints.model(slot).prefill_ms(5_000.0, 0.0);
    near(row.all_owed_ms(), two);
    assert_eq!(row.owed_ms(), 0.0, "none of it is ours");
    // At half the speed it takes twice as long.
    endpoints.rows[slot as usize].prefill_factor = 2.0;
    near(endpoints.row(slot).all_owed_ms(), 2.0 * two);
    // An engine that counts no tokens: as much as ours usually need.
    for _ in 0..500 {
        let charge = send(&mut endpoints, slot);
        endpoints.done(slot, &charge, Time::ZERO);
    }
    endpoints.rows[slot as usize].prefill_factor = 1.0;
    tell(&mut endpoints, slot, report(3, 2, None));
    near(endpoints.row(slot).all_owed_ms(), 200.0);
    // They are gone.
    tell(&mut endpoints, slot, report(0, 0, Some(0)));
    let row = endpoints.row(slot);
    assert_eq!((row.all_requests(), row.all_streams(), row.all_owed_ms()), (0.0, 0.0, 0.0));
}

#[test]
fn what_is_ours_is_nobody_elses() {
    let (mut endpoints, slot) = endpoints();
    let charges: Vec<Charge> = (0..4).map(|_| send(&mut endpoints, slot)).collect();
    // Ours run and wait, in whatever proportion.
    for waiting in 0..=4 {
        tell(&mut endpoints, slot, report(4 - waiting, waiting, Some(50_000)));
        let row = endpoints.row(slot);
        assert_eq!((row.foreign_requests, row.foreign_waiting, row.foreign_owed_ms), (0.0, 0.0, 0.0));
        assert_eq!((row.all_streams(), row.all_owed_ms()), (0.0, row.owed_ms()));
    }
    // Three more wait behind ours.
    tell(&mut endpoints, slot, report(1, 6, Some(6_000)));
    let row = endpoints.row(slot);
    assert!((row.foreign_waiting - 2.0).abs() < 0.01 && (row.foreign_requests - 3.0).abs() < 0.01, "{row:?}");
    for charge in &charges {
        endpoints.done(slot, charge, Time::ZERO);
    }
}

#[test]
fn absurd_figures_stay_finite() {
    let (mut endpoints, slot) = endpoints();
    tell(&mut endpoints, slot, report(u32::MAX, u32::MAX, Some(u64::MAX)));
    let row = endpoints.row(slot);
    assert!(row.all_owed_ms().is_finite() && row.all_streams().is_finite() && row.all_streams() >= 0.0);
}
