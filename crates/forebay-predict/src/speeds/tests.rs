//! Simulated endpoints: what is learned of them, and how soon.

use super::*;
use crate::testing::{Lcg, at};

#[test]
fn a_new_endpoint_reads_as_its_prior_says() {
    let mut speeds = Speeds::new();
    assert_eq!((speeds.prefill(7), speeds.decode(7)), (1.0, 1.0));
    speeds.join(7, 0, 1.0);
    assert_eq!((speeds.prefill(7), speeds.decode(7)), (1.0, 1.0));
    speeds.join(2, 0, 2.0);
    assert!((speeds.prefill(2) - 0.5).abs() < 1e-12);
    speeds.leave(2);
    assert_eq!(speeds.prefill(2), 1.0);
    let _ = (Lcg::new(1), at(1.0));
}
