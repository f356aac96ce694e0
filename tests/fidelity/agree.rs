//! Whether two lists of figures rank the same things alike.

/// Closer than this, relative to the smaller one, two figures are equal: less
/// than what the policies' own draws change from run to run.
pub const TIE: f64 = 0.03;

/// How `a` and `b` stand to each other: -1, 0 or 1.
fn order(a: f64, b: f64) -> i32 {
    if (a - b).abs() <= TIE * a.min(b) { 0 } else { (a - b).signum() as i32 }
}

/// Kendall's tau-b of two lists, with ties as [`TIE`] says: 1 when every pair
/// that differs in one differs the same way in the other; a pair that is equal
/// in only one of them counts neither for nor against, but in what is divided by.
pub fn kendall_tau(xs: &[f64], ys: &[f64]) -> f64 {
    let (mut sum, mut in_x, mut in_y) = (0, 0, 0);
    for i in 0..xs.len() {
        for j in 0..i {
            let (x, y) = (order(xs[i], xs[j]), order(ys[i], ys[j]));
            sum += x * y;
            in_x += x.abs();
            in_y += y.abs();
        }
    }
    f64::from(sum) / (f64::from(in_x) * f64::from(in_y)).sqrt()
}

/// The share of all pairs that are not equal.
pub fn told_apart(xs: &[f64]) -> f64 {
    let pairs = (0..xs.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let (mut apart, mut all) = (0, 0);
    for (i, j) in pairs {
        apart += order(xs[i], xs[j]).abs();
        all += 1;
    }
    f64::from(apart) / f64::from(all)
}

#[test]
fn ranks_are_compared_pair_by_pair() {
    let xs = [100.0, 120.0, 150.0, 200.0];
    assert_eq!(kendall_tau(&xs, &[1.0, 2.0, 3.0, 4.0]), 1.0);
    assert_eq!(kendall_tau(&xs, &[4.0, 3.0, 2.0, 1.0]), -1.0);
    // One of six pairs the other way round.
    assert!((kendall_tau(&xs, &[2.0, 1.0, 3.0, 4.0]) - 4.0 / 6.0).abs() < 1e-9);
    // One of six pairs equal on one side: 5 / sqrt(6 · 5).
    assert!((kendall_tau(&xs, &[1.0, 1.02, 3.0, 4.0]) - 5.0 / 30f64.sqrt()).abs() < 1e-9);
    assert_eq!((told_apart(&xs), told_apart(&[1.0, 1.02, 3.0])), (1.0, 2.0 / 3.0));
}
