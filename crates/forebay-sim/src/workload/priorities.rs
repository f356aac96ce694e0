//! Work of three priorities on one fleet: people who wait, programs that may
//! wait a little, and batches that only have to be done.

use forebay_core::{Priority, Slo};

use super::{ArrivalSpec, Class, Length, Mix, SimRequest, Tenants, TenantsSpec, Workload, link};

/// Its share of the requests, by priority: critical, standard, sheddable.
const SHARES: [f64; 3] = [0.5, 0.3, 0.2];

/// Requests of three priorities that come to the same gateways.
///
/// - Critical, half of them: people at an assistant, with short questions behind
///   one of 40 prompts of 2,000 tokens; 500 ms to the first token, 30 ms for
///   each later one.
/// - Standard, 30 %: programs that ask behind one of 60 prompts of 4,000 tokens,
///   with the default limits.
/// - Sheddable, 20 %: a batch of documents of 8,000 tokens, which share nothing;
///   a minute to the first token, and no other limit.
pub struct Priorities(Mix);

impl Priorities {
    /// `rate` requests per second of all three together, `requests` in all.
    pub fn new(rate: f64, requests: u64, seed: u64) -> Priorities {
        let log_normal = |mean, sigma, most| Length::LogNormal { mean, sigma, most };
        let [critical, standard, batch] = SHARES.map(|share| rate * share);
        // The batch gets what rounding leaves over.
        let count = |share: f64| (requests as f64 * share) as u64;
        let left = requests - count(SHARES[0]) - count(SHARES[1]);
        let slo = |ttft_ms, tpot_ms| Slo { ttft_ms, tpot_ms };
        let specs = [
            TenantsSpec {
                tenants: 40,
                zipf: 0.8,
                prefix: Length::Fixed(2_000),
                question: log_normal(250.0, 0.9, 4_000),
                answer: log_normal(180.0, 0.7, 1_000),
                class: Class {
                    priority: Priority::CRITICAL,
                    slo: slo(Some(500.0), Some(30.0)),
                    ..Class::default()
                },
                ..TenantsSpec::saas(critical, count(SHARES[0]))
            },
            TenantsSpec {
                tenants: 60,
                zipf: 0.5,
                prefix: Length::Fixed(4_000),
                question: log_normal(1_200.0, 0.8, 8_000),
                answer: log_normal(350.0, 0.8, 2_000),
                ..TenantsSpec::saas(standard, count(SHARES[1]))
            },
            TenantsSpec {
                tenants: 1,
                prefix: Length::Fixed(0),
                question: log_normal(8_000.0, 0.6, 32_000),
                answer: log_normal(600.0, 0.5, 2_000),
                // A queue that is worked off: more even than people.
                arrivals: ArrivalSpec::bursty(batch, 0.5),
                class: Class {
                    priority: Priority::SHEDDABLE,
                    slo: slo(Some(60_000.0), None),
                    ..Class::default()
                },
                ..TenantsSpec::saas(batch, left)
            },
        ];
        let part = |(number, spec)| -> Box<dyn Workload> {
            // Equal seeds would make equal prefixes.
            Box::new(Tenants::new(spec, link(seed, number)))
        };
        let parts: Vec<Box<dyn Workload>> = (0..).zip(specs).map(part).collect();
        Priorities(Mix::of_alike(parts))
    }
}

impl Workload for Priorities {
    fn block_tokens(&self) -> u32 {
        self.0.block_tokens()
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        self.0.next_request()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_priority_has_its_share_and_its_limits() {
        let mut mixed = Priorities::new(20.0, 1_001, 7);
        let all: Vec<_> = std::iter::from_fn(|| mixed.next_request()).collect();
        assert_eq!(all.len(), 1_001);
        assert!(all.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
        let of = |priority| all.iter().filter(move |request| request.priority == priority);
        assert_eq!(of(Priority::CRITICAL).count(), 500);
        assert_eq!(of(Priority::STANDARD).count(), 300);
        assert_eq!(of(Priority::SHEDDABLE).count(), 201);
        assert!(of(Priority::CRITICAL).all(|request| request.slo.ttft_ms == Some(500.0)));
        assert!(of(Priority::SHEDDABLE).all(|request| request.slo.tpot_ms.is_none()));
        // All three come all the time.
        for priority in [Priority::CRITICAL, Priority::STANDARD, Priority::SHEDDABLE] {
            let last = of(priority).next_back().unwrap().arrival.as_millis_f64() / 1e3;
            assert!((35.0..70.0).contains(&last), "{priority:?}: {last}");
        }
        // Nobody shares a prompt with another priority.
        let firsts = |priority| {
            of(priority).map(|request| request.chain[0]).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(firsts(Priority::CRITICAL).is_disjoint(&firsts(Priority::STANDARD)));
        assert_eq!(firsts(Priority::SHEDDABLE).len(), 201);
    }
}
