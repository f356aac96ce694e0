//! A Prometheus histogram with fixed bounds.

use std::fmt::Write as _;

/// Counts per bucket. The last bucket has no bound.
pub(crate) struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    total: u64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0, total: 0 }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
        self.total += 1;
    }

    /// Writes the samples; `labels` are those of every series, without braces.
    pub(crate) fn render(&self, out: &mut String, name: &str, labels: (&str, &str)) {
        let (engine, model) = labels;
        let mut below = 0;
        for (i, count) in self.counts.iter().enumerate() {
            below += count;
            let bound = self.bounds.get(i).map_or("+Inf".into(), |b| format!("{b:?}"));
            let _ = writeln!(out, "{name}_bucket{{{engine},le=\"{bound}\",{model}}} {below}.0");
        }
        let _ = writeln!(out, "{name}_count{{{engine},{model}}} {}.0", self.total);
        let _ = writeln!(out, "{name}_sum{{{engine},{model}}} {:?}", self.sum);
    }
}

/// Bucket bounds of vLLM 0.32.0, in seconds or in what the name says.
pub(crate) mod bounds {
    pub(crate) const FIRST_TOKEN: &[f64] = &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
        40.0, 80.0, 160.0, 640.0, 2560.0,
    ];
    pub(crate) const PER_TOKEN: &[f64] = &[
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
        80.0,
    ];
    pub(crate) const REQUEST: &[f64] = &[
        0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
        480.0, 960.0, 1920.0, 7680.0,
    ];
    pub(crate) const TOKENS: &[f64] = &[
        1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0,
        50000.0, 100000.0,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_bounds_inclusive() {
        let mut h = Histogram::new(&[0.5, 1.0]);
        for value in [0.1, 0.5, 0.7, 3.0] {
            h.observe(value);
        }
        let mut out = String::new();
        h.render(&mut out, "x", ("engine=\"0\"", "model_name=\"m\""));
        assert_eq!(
            out,
            "x_bucket{engine=\"0\",le=\"0.5\",model_name=\"m\"} 2.0\n\
             x_bucket{engine=\"0\",le=\"1.0\",model_name=\"m\"} 3.0\n\
             x_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 4.0\n\
             x_count{engine=\"0\",model_name=\"m\"} 4.0\n\
             x_sum{engine=\"0\",model_name=\"m\"} 4.3\n"
        );
    }
}
