//! The summary for people.

use std::fmt;

use crate::summary::{Quantiles, Summary};

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy) = &self.policy {
            writeln!(f, "policy       {policy}")?;
        }
        writeln!(
            f,
            "requests     {}, {} failed, {} rejected",
            grouped(self.requests),
            grouped(self.failed),
            grouped(self.rejected)
        )?;
        writeln!(f, "throughput   {} tokens/s", grouped(self.tokens_per_second.round() as u64))?;
        writeln!(
            f,
            "goodput      {} within TTFT {} and TPOT {}",
            percent(Some(self.goodput)).trim_start(),
            millis(Some(self.slo.ttft_ms)),
            millis(Some(self.slo.tpot_ms))
        )?;
        write!(f, "prefix hit   {} of prompt tokens", percent(self.prefix_hit).trim_start())?;
        match self.ideal_prefix_hit {
            Some(ideal) => writeln!(f, "; one cache for all would have {}", percent(Some(ideal)))?,
            None => writeln!(f)?,
        }
        if let Some(busiest) = self.busiest_share {
            writeln!(f, "busiest      {busiest:.2} x the mean of the endpoints, in tokens")?;
        }
        if self.time_scale != 1.0 {
            writeln!(f, "time scale   {} (all times are engine time)", self.time_scale)?;
        }
        if let Some(mismatches) = self.token_mismatches {
            writeln!(f, "token counts {} not as in the trace", grouped(mismatches))?;
        }
        writeln!(f, "\n{:12} {:>9} {:>9} {:>9} {:>9}", "", "mean", "p50", "p95", "p99")?;
        for (name, q) in [("TTFT", &self.ttft_ms), ("TPOT", &self.tpot_ms), ("end to end", &self.e2e_ms)] {
            let Quantiles { mean, p50, p95, p99 } = *q;
            let [mean, p50, p95, p99] = [mean, p50, p95, p99].map(millis);
            writeln!(f, "{name:12} {mean:>9} {p50:>9} {p95:>9} {p99:>9}")?;
        }
        if !self.endpoints.is_empty() {
            let width = self.endpoints.iter().map(|e| e.name.chars().count()).max().unwrap_or(0).max(12);
            writeln!(f, "\n{:width$} {:>9} {:>9} {:>11}", "endpoint", "requests", "share", "prefix hit")?;
            for e in &self.endpoints {
                let (share, hit) = (percent(Some(e.share)), percent(e.prefix_hit));
                writeln!(f, "{:width$} {:>9} {share:>9} {hit:>11}", e.name, grouped(e.requests))?;
            }
        }
        Ok(())
    }
}

/// Three digits and a unit that fits.
pub(crate) fn millis(ms: Option<f64>) -> String {
    match ms {
        None => "-".into(),
        Some(ms) if ms < 9.995 => format!("{ms:.2} ms"),
        Some(ms) if ms < 99.95 => format!("{ms:.1} ms"),
        Some(ms) if ms < 9_999.5 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.1} s", ms / 1e3),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.1} %", s * 100.0))
}

/// With commas between thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
