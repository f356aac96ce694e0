//! A trace of sizes and times without prefixes, as Azure publishes them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use forebay_core::Time;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{SimRequest, Workload};

/// One line of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AzureRow {
    /// Milliseconds from the start of the trace.
    pub timestamp_ms: f64,
    /// Prompt tokens.
    pub context_tokens: u32,
    /// Generated tokens.
    pub generated_tokens: u32,
}

/// The rows at another rate: copies overlaid, each begun at a place of its own.
#[derive(Clone, Debug)]
pub struct AzureTrace {
    rows: Arc<[AzureRow]>,
    /// Place in the rows, milliseconds to add, and when the next one comes.
    copies: Vec<(usize, f64, f64)>,
    /// When each copy's next row comes, the earliest first: as the bits of a
    /// number that is not negative, which sort as it does.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    speed: f64,
    span: f64,
    limit: u64,
}

impl AzureTrace {
    /// The rows at `rate` requests per second (as in the trace when that is not
    /// above 0), `limit` requests in all, in `copies` copies at a time; 0: as
    /// many as come nearest to the rate.
    pub fn new(rows: Arc<[AzureRow]>, rate: f64, copies: usize, limit: u64, seed: u64) -> AzureTrace {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x617a_7572);
        let last = rows.last().map_or(0.0, |row| row.timestamp_ms);
        let span = last * (1.0 + 1.0 / rows.len().max(1) as f64) + 1.0;
        let own_rate = rows.len() as f64 / span * 1e3;
        let rate = if rate.is_finite() && rate > 0.0 { rate } else { own_rate.max(1e-9) };
        let copies = match copies {
            0 => ((rate / own_rate.max(1e-9)).round() as usize).clamp(1, 100_000),
            copies => copies,
        };
        let speed = rate / (own_rate * copies as f64).max(1e-9);
        let count = if rows.is_empty() { 0 } else { copies };
        let begin = |_| {
            let from = rng.random_range(0..rows.len());
            // Not all at once: the first rows come within one gap.
            let next = rng.random::<f64>() * span / rows.len() as f64;
            (from, next - rows[from].timestamp_ms, next)
        };
        let copies: Vec<(usize, f64, f64)> = (0..count).map(begin).collect();
        let order =
            copies.iter().zip(0..).map(|(copy, number)| Reverse((copy.2.to_bits(), number))).collect();
        AzureTrace { rows, copies, order, speed, span, limit }
    }
}

impl Workload for AzureTrace {
    fn block_tokens(&self) -> u32 {
        512
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        self.limit = self.limit.checked_sub(1)?;
        let Reverse((_, first)) = self.order.pop()?;
        let (at, offset, next) = &mut self.copies[first as usize];
        let row = self.rows[*at];
        let arrival = Time::from_millis_f64(*next / self.speed);
        *at += 1;
        if *at == self.rows.len() {
            *at = 0;
            *offset += self.span;
        }
        *next = (self.rows[*at].timestamp_ms + *offset).max(*next);
        self.order.push(Reverse((next.to_bits(), first)));
        Some(SimRequest::new(arrival, Arc::from([]), row.context_tokens, row.generated_tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_bursts_are_those_of_the_trace() {
        let rows: Arc<[AzureRow]> = (0..50u32)
            .map(|i| AzureRow {
                timestamp_ms: f64::from(i / 10) * 1e3,
                context_tokens: 100 + i,
                generated_tokens: i,
            })
            .collect();
        let mut trace = AzureTrace::new(rows, 20.0, 0, 500, 1);
        let all: Vec<_> = std::iter::from_fn(|| trace.next_request()).collect();
        assert_eq!(all.len(), 500);
        assert!(all.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
        assert!(all.iter().all(|r| (100..150).contains(&r.prompt_tokens) && r.chain.is_empty()));
        let rate = 500.0 / (all[499].arrival.as_millis_f64() / 1e3);
        assert!((rate / 20.0 - 1.0).abs() < 0.2, "{rate}");
    }
}
