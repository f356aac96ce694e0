//! A trace with prefix identity, as Mooncake publishes them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use forebay_core::Time;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{SimRequest, Workload, link};

/// One line of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct MooncakeRow {
    /// Milliseconds from the start of the trace.
    pub timestamp_ms: u64,
    /// Prompt tokens.
    pub input_length: u32,
    /// Generated tokens.
    pub output_length: u32,
    /// One for each block of 512 tokens, the last one perhaps in part; equal
    /// ids mean an equal prompt up to there.
    pub hash_ids: Vec<u64>,
}

/// A trace at another rate: copies of it overlaid, each begun at a place of its
/// own and with prefixes of its own, and time stretched for what is left.
///
/// Overlaying keeps what happens within a copy as it was: how long one waits
/// until a prefix comes back, and how bursts come.
#[derive(Clone, Debug)]
pub struct MooncakeTrace {
    rows: Arc<[MooncakeRow]>,
    copies: Vec<Copy>,
    /// When each copy's next row arrives, the earliest first: as the bits of a
    /// number that is not negative, which sort as it does.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// Time runs so many times as fast as in the trace.
    speed: f64,
    /// Milliseconds of the whole trace.
    span: f64,
    /// Milliseconds within which what has one timestamp is spread.
    spread: f64,
    rng: Pcg64Mcg,
    limit: u64,
}

#[derive(Clone, Debug)]
struct Copy {
    salt: u64,
    at: usize,
    /// Milliseconds of trace time before its rows begin again from the first.
    offset: f64,
    /// When its next row arrives, in milliseconds of trace time.
    next: f64,
}

/// Tokens in one block of these traces.
const BLOCK: u32 = 512;
/// Timestamps of the recorded traces come in steps of three seconds.
const STEP_MS: f64 = 3_000.0;

impl MooncakeTrace {
    /// Requests per second that the rows make by themselves; 0 without rows.
    pub fn own_rate(rows: &[MooncakeRow]) -> f64 {
        if rows.is_empty() { 0.0 } else { rows.len() as f64 / times(rows).0 * 1e3 }
    }

    /// The rows at `rate` requests per second, `limit` requests in all, in
    /// `copies` copies at a time; 0 copies: as many as make the rate without
    /// changing time by more than it takes to get whole ones.
    ///
    /// Without rows there are no requests.
    pub fn new(rows: Arc<[MooncakeRow]>, rate: f64, copies: usize, limit: u64, seed: u64) -> MooncakeTrace {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6d6f_6f6e);
        let (span, spread) = times(&rows);
        let own_rate = rows.len() as f64 / span * 1e3;
        let rate = if rate.is_finite() && rate > 0.0 { rate } else { own_rate.max(1e-9) };
        let copies = match copies {
            0 => ((rate / own_rate.max(1e-9)).round() as usize).clamp(1, 100_000),
            copies => copies,
        };
        let speed = rate / (own_rate * copies as f64).max(1e-9);
        let mut trace = MooncakeTrace {
            rows,
            copies: Vec::new(),
            order: BinaryHeap::new(),
            speed,
            span,
            spread,
            rng,
            limit,
        };
        if trace.rows.is_empty() {
            return trace;
        }
        for number in 0..copies {
            let from = trace.rng.random_range(0..trace.rows.len());
            let offset = -(trace.rows[from].timestamp_ms as f64);
            let salt = link(seed, number as u64);
            let mut copy = Copy { salt, at: from, offset, next: 0.0 };
            copy.next = trace.rows[from].timestamp_ms as f64 + copy.offset;
            trace.copies.push(copy);
        }
        for (number, copy) in trace.copies.iter_mut().enumerate() {
            copy.next += trace.rng.random::<f64>() * trace.spread;
            trace.order.push(Reverse((copy.next.to_bits(), number as u32)));
        }
        trace
    }
}

/// Milliseconds until the rows may begin again, and those within which what has
/// one timestamp is spread: the step of the timestamps, where they have one.
fn times(rows: &[MooncakeRow]) -> (f64, f64) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return (STEP_MS, STEP_MS) };
    let distinct = 1 + rows.windows(2).filter(|pair| pair[0].timestamp_ms != pair[1].timestamp_ms).count();
    let last_ms = last.timestamp_ms as f64;
    if distinct * 2 <= rows.len() || rows.len() < 2 {
        return (last_ms + STEP_MS, STEP_MS);
    }
    // Times are exact to the millisecond: order must stay, as a turn of a
    // conversation may follow the one before at once.
    let gap = (last_ms - first.timestamp_ms as f64) / (rows.len() - 1) as f64;
    (last_ms + gap.max(1.0), 1.0)
}

impl Workload for MooncakeTrace {
    fn block_tokens(&self) -> u32 {
        BLOCK
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        self.limit = self.limit.checked_sub(1)?;
        let Reverse((_, first)) = self.order.pop()?;
        let rows = Arc::clone(&self.rows);
        let copy = &mut self.copies[first as usize];
        let row = &rows[copy.at];
        let arrival = Time::from_millis_f64(copy.next / self.speed);
        let salt = copy.salt;
        copy.at += 1;
        if copy.at == rows.len() {
            // Again from the first row, with new prefixes.
            copy.at = 0;
            copy.offset += self.span;
            copy.salt = link(copy.salt, 1);
        }
        // What shares a timestamp is spread over the step, evenly: the next of
        // so many that are left, in order, lies so far into what is left of it.
        let from = rows[copy.at].timestamp_ms as f64 + copy.offset;
        let same =
            rows[copy.at..].iter().take_while(|other| other.timestamp_ms == rows[copy.at].timestamp_ms);
        let left = same.count() as f64;
        let (begin, end) = (from.max(copy.next), from + self.spread);
        let into = 1.0 - self.rng.random::<f64>().powf(left.recip());
        copy.next = begin + (end - begin).max(0.0) * into;
        self.order.push(Reverse((copy.next.to_bits(), first)));
        let full = (row.input_length / BLOCK) as usize;
        let chain: Arc<[u64]> = row.hash_ids.iter().take(full).map(|id| link(salt, *id)).collect();
        Some(SimRequest::new(arrival, chain, row.input_length, row.output_length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Arc<[MooncakeRow]> {
        (0..40u64)
            .map(|i| MooncakeRow {
                timestamp_ms: i / 4 * 3_000,
                input_length: 1_400,
                output_length: 10,
                hash_ids: vec![0, i % 5 + 1, 100 + i],
            })
            .collect()
    }

    fn all(rate: f64, copies: usize, seed: u64) -> Vec<SimRequest> {
        let mut trace = MooncakeTrace::new(rows(), rate, copies, 400, seed);
        std::iter::from_fn(move || trace.next_request()).collect()
    }

    #[test]
    fn what_shares_a_timestamp_is_spread_evenly() {
        let rows: Arc<[MooncakeRow]> = (0..900u64)
            .map(|i| MooncakeRow {
                timestamp_ms: i / 30 * 3_000,
                input_length: 512,
                output_length: 1,
                hash_ids: vec![i],
            })
            .collect();
        let mut trace = MooncakeTrace::new(rows, 0.0, 1, 900, 5);
        let all: Vec<f64> =
            std::iter::from_fn(|| trace.next_request()).map(|r| r.arrival.as_millis_f64()).collect();
        // Of 30 in a step as many in each half of it, and none at the same time.
        let late = all.iter().filter(|ms| ms.rem_euclid(3_000.0) >= 1_500.0).count();
        assert!((400..500).contains(&late), "{late} of 900 in the second half");
        let together = all.windows(2).filter(|pair| pair[1] - pair[0] < 1e-3).count();
        assert!(together < 5, "{together} at the same time as the one before");
    }

    #[test]
    fn arrivals_are_in_order_and_at_the_rate() {
        for (rate, copies) in [(1.0, 0), (1.0, 1), (13.0, 0), (13.0, 4)] {
            let all = all(rate, copies, 3);
            assert_eq!(all.len(), 400);
            assert!(all.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
            let took = all[399].arrival.as_millis_f64() / 1e3;
            let got = 400.0 / took;
            assert!((got / rate - 1.0).abs() < 0.15, "{got} for {rate} with {copies}");
        }
    }

    #[test]
    fn exact_times_are_kept_and_coarse_ones_are_spread() {
        let exact: Arc<[MooncakeRow]> = (0..40u64)
            .map(|i| MooncakeRow {
                timestamp_ms: i * 250,
                input_length: 1_000 + i as u32,
                output_length: 1,
                hash_ids: vec![i],
            })
            .collect();
        assert_eq!(MooncakeTrace::own_rate(&exact), 4.0);
        let mut trace = MooncakeTrace::new(Arc::clone(&exact), 0.0, 1, 200, 3);
        let all: Vec<_> = std::iter::from_fn(|| trace.next_request()).collect();
        for pair in all.windows(2) {
            let gap = pair[1].arrival.as_millis_f64() - pair[0].arrival.as_millis_f64();
            assert!((gap - 250.0).abs() < 2.0, "{gap}");
            assert_eq!((pair[0].prompt_tokens - 1_000 + 1) % 40, pair[1].prompt_tokens - 1_000);
        }
        // Four at a time every three seconds: each within its step.
        let (span, spread) = times(&rows());
        assert_eq!((span, spread), (30_000.0, STEP_MS));
        assert_eq!(MooncakeTrace::own_rate(&[]), 0.0);
    }

    #[test]
    fn copies_and_repetitions_share_nothing_and_seeds_differ() {
        let one = all(1.0, 1, 3);
        // The last block is not full; the first is the same for all of a copy.
        assert!(one.iter().all(|request| request.chain.len() == 2));
        let firsts = |all: &[SimRequest]| {
            all.iter().map(|request| request.chain[0]).collect::<std::collections::BTreeSet<_>>()
        };
        assert!((10..=11).contains(&firsts(&one).len()), "{}", firsts(&one).len());
        assert!(firsts(&all(1.0, 4, 3)).len() > 11);
        let times = |seed| all(2.0, 0, seed).iter().map(|r| r.arrival).collect::<Vec<_>>();
        assert_eq!(times(5), times(5));
        assert_ne!(times(5), times(6));
    }
}
