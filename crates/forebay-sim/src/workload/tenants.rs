//! Independent requests of tenants, each with a prompt of its own in front:
//! what a service with many customers sees. Without prefixes: plain tasks.

use forebay_core::Time;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::arrivals::Arrivals;
use super::{ArrivalSpec, Class, Length, SimRequest, Workload, WorkloadError, extend, link, zipf};

/// Tenants that share a prefix each.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantsSpec {
    /// How many, at least 1.
    pub tenants: usize,
    /// Exponent of the Zipf law of how much each asks; 0 makes all equal.
    pub zipf: f64,
    /// Tokens of each tenant's prefix.
    pub prefix: Length,
    /// Tokens of each question.
    pub question: Length,
    /// Tokens of each answer.
    pub answer: Length,
    /// When they come.
    pub arrivals: ArrivalSpec,
    /// Requests in all.
    pub requests: u64,
    /// Tokens in one block.
    pub block_tokens: u32,
    /// What all of them are.
    pub class: Class,
}

impl TenantsSpec {
    /// 150 tenants with 6,000 tokens each, 1,200-token questions, 1,000-token answers.
    pub fn saas(rate: f64, requests: u64) -> TenantsSpec {
        TenantsSpec {
            tenants: 150,
            zipf: 0.0,
            prefix: Length::Fixed(6_000),
            question: Length::Fixed(1_200),
            answer: Length::Fixed(1_000),
            arrivals: ArrivalSpec::poisson(rate),
            requests,
            block_tokens: 64,
            class: Class::default(),
        }
    }

    /// Short tasks without generation: 10 to 512 tokens in, one token out.
    pub fn tasks(rate: f64, requests: u64) -> TenantsSpec {
        TenantsSpec {
            tenants: 1,
            prefix: Length::Fixed(0),
            question: Length::Uniform(10, 512),
            answer: Length::Fixed(1),
            ..TenantsSpec::saas(rate, requests)
        }
    }

    /// Refuses what cannot be played.
    ///
    /// # Errors
    /// Names the first such value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        super::positive("tenants", self.tenants as f64)?;
        super::at_most("tenants", self.tenants as f64, 1e7)?;
        super::at_most("zipf", self.zipf, 10.0)?;
        self.prefix.validate("prefix")?;
        self.question.validate("question")?;
        self.answer.validate("answer")?;
        super::positive("block_tokens", f64::from(self.block_tokens))?;
        self.arrivals.validate()
    }
}

/// The requests of a [`TenantsSpec`].
#[derive(Clone, Debug)]
pub struct Tenants {
    spec: TenantsSpec,
    seed: u64,
    rng: Pcg64Mcg,
    arrivals: Arrivals,
    cumulated: Vec<f64>,
    prefixes: Vec<u32>,
    sent: u64,
}

impl Tenants {
    /// The workload with this seed.
    pub fn new(spec: TenantsSpec, seed: u64) -> Tenants {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7465_6e61);
        let prefixes = (0..spec.tenants.max(1)).map(|_| spec.prefix.draw(&mut rng)).collect();
        Tenants {
            arrivals: Arrivals::new(&spec.arrivals, seed),
            cumulated: zipf(spec.tenants, spec.zipf),
            prefixes,
            spec,
            seed,
            rng,
            sent: 0,
        }
    }
}

impl Workload for Tenants {
    fn block_tokens(&self) -> u32 {
        self.spec.block_tokens.max(1)
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        if self.sent >= self.spec.requests {
            return None;
        }
        let at: Time = self.arrivals.next_time()?;
        let number = self.sent;
        self.sent += 1;
        let total = self.cumulated.last().copied().unwrap_or(1.0);
        let x = self.rng.random::<f64>() * total;
        let tenant = self.cumulated.partition_point(|sum| *sum <= x).min(self.prefixes.len() - 1);
        let prefix = self.prefixes[tenant];
        let prompt = (prefix + self.spec.question.draw(&mut self.rng)).max(1);
        let output = self.spec.answer.draw(&mut self.rng);
        let block = self.spec.block_tokens.max(1);
        let mut chain = Vec::with_capacity((prompt / block) as usize);
        let shared = link(self.seed, tenant as u64);
        extend(&mut chain, shared, prefix / block);
        extend(&mut chain, link(self.seed ^ 0x71, number), prompt / block - prefix / block);
        let mut request = SimRequest::new(at, chain.into(), prompt, output);
        request.affinity = if prefix > 0 { shared } else { link(shared, number) };
        request.tenant = tenant as u32;
        self.spec.class.put_on(&mut request);
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_their_prefix_and_nothing_else() {
        let spec = TenantsSpec { tenants: 3, ..TenantsSpec::saas(10.0, 300) };
        spec.validate().unwrap();
        let mut tenants = Tenants::new(spec, 4);
        let all: Vec<_> = std::iter::from_fn(|| tenants.next_request()).collect();
        assert_eq!(all.len(), 300);
        let distinct =
            |at: usize| all.iter().map(|r| r.chain[at]).collect::<std::collections::BTreeSet<_>>().len();
        // 6,000 tokens are 93 blocks; 7,200 are 112.
        assert_eq!((distinct(92), distinct(93), all[0].chain.len()), (3, 300, 112));
        let took = all[299].arrival.as_millis_f64() / 1e3;
        assert!((took - 30.0).abs() < 8.0, "{took}");
    }

    #[test]
    fn tasks_have_nothing_in_common() {
        let mut tasks = Tenants::new(TenantsSpec::tasks(10.0, 50), 4);
        let all: Vec<_> = std::iter::from_fn(|| tasks.next_request()).collect();
        assert!(all.iter().all(|r| (10..=512).contains(&r.prompt_tokens) && r.output_tokens == 1));
        let refused = TenantsSpec { tenants: 0, ..TenantsSpec::tasks(1.0, 1) }.validate();
        assert!(refused.unwrap_err().to_string().contains("tenants"));
    }
}
