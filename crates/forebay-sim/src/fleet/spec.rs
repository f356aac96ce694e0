//! What is simulated: endpoints, gateways, and what happens to them.

use std::time::Duration;

use forebay_core::Time;

use crate::engine::Profile;

/// One model server.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSpec {
    /// As shown in reports; one of a kind.
    pub name: String,
    /// Step times and limits.
    pub profile: Profile,
    /// Every step takes so many times as long as the profile says; above 0.
    pub slowness: f64,
    /// From a gateway there and back.
    pub round_trip: Duration,
    /// Its GPU class in the operator's words, as a gateway is told; none: not told.
    pub accelerator: Option<String>,
    /// Relative capacity as a gateway is told; above 0.
    pub weight: f64,
    /// KV tokens that host memory keeps beside the accelerator's; 0: none.
    pub host_tokens: u64,
    /// Milliseconds to copy one token back from there.
    pub host_ms_per_token: f64,
    /// Adapters that fit at a time.
    pub adapter_slots: u32,
    /// Milliseconds to load one.
    pub adapter_load_ms: f64,
    /// It is there from the beginning; otherwise it must [join](FleetChange::Join).
    pub is_member: bool,
}

impl EndpointSpec {
    /// An endpoint with this profile, told to the gateways by the profile's name.
    pub fn new(name: impl Into<String>, profile: &Profile) -> EndpointSpec {
        EndpointSpec {
            name: name.into(),
            profile: *profile,
            slowness: 1.0,
            round_trip: Duration::ZERO,
            accelerator: Some(profile.name.to_owned()),
            weight: 1.0,
            host_tokens: 0,
            // 131,072 bytes a token over a link of about 50 GB/s.
            host_ms_per_token: 0.0026,
            adapter_slots: 8,
            adapter_load_ms: 1_000.0,
            is_member: true,
        }
    }
}

/// Something that happens to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FleetChange {
    /// From now on every step takes so many times as long as the profile says.
    Slow {
        /// Above 0; 1.25 is a GPU throttled by 20 %.
        slowness: f64,
    },
    /// It breaks off everything in flight and refuses connections.
    Crash {
        /// Until it is back; none: it never is.
        back_after: Option<Duration>,
        /// Its cache survives (it was cut off, or keeps its blocks elsewhere).
        keep_cache: bool,
    },
    /// It becomes a member, empty.
    Join,
    /// It stops being one; what is in flight there goes on.
    Leave,
}

/// A change of the fleet at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetEvent {
    /// When.
    pub at: Time,
    /// Whose, by its place in [`Fleet::endpoints`].
    pub endpoint: usize,
    /// What.
    pub change: FleetChange,
}

/// What gateways know beforehand of the length of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OutputKnowledge {
    /// A running mean by tenant, as in production.
    #[default]
    Learned,
    /// The very length.
    Exact,
    /// The length times a lognormal factor around 1 with this σ.
    Noisy(f64),
    /// The same number for every answer.
    Constant(u32),
}

/// Everything that serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// The model servers.
    pub endpoints: Vec<EndpointSpec>,
    /// Gateways before them, each with a view of its own; at least 1.
    pub gateways: usize,
    /// What part of the requests comes to each gateway, in any unit; empty: all
    /// the same.
    pub gateway_shares: Vec<f64>,
    /// How often gateways tell each other what they have in flight; none: never.
    pub share_every: Option<Duration>,
    /// How often each gateway asks every endpoint for its load.
    pub scrape_every: Duration,
    /// Engines tell what enters and leaves their caches, and gateways know it
    /// so much later; none: gateways go by what they sent.
    pub kv_events: Option<Duration>,
    /// Share of the engines' cache news that is lost on the way, 0 to 1.
    pub kv_events_lost: f64,
    /// What gateways know beforehand of the length of an answer.
    pub output_knowledge: OutputKnowledge,
    /// What a gateway takes for one request.
    pub gateway_overhead: Duration,
    /// What happens meanwhile, in any order.
    pub events: Vec<FleetEvent>,
}

impl Fleet {
    /// So many endpoints with one profile behind one gateway that scrapes every second.
    pub fn uniform(endpoints: usize, profile: &Profile) -> Fleet {
        Fleet {
            endpoints: (0..endpoints).map(|i| EndpointSpec::new(format!("e{i}"), profile)).collect(),
            gateways: 1,
            gateway_shares: Vec::new(),
            share_every: None,
            scrape_every: Duration::from_secs(1),
            kv_events: None,
            kv_events_lost: 0.0,
            output_knowledge: OutputKnowledge::Learned,
            gateway_overhead: Duration::ZERO,
            events: Vec::new(),
        }
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// Names the first such value.
    pub fn validate(&self) -> Result<(), FleetError> {
        if self.endpoints.is_empty() {
            return Err(FleetError::NoEndpoints);
        }
        if self.gateways == 0 || self.gateways > MAX_GATEWAYS {
            return Err(FleetError::Gateways(self.gateways));
        }
        let shares = &self.gateway_shares;
        if !shares.is_empty() && shares.len() != self.gateways {
            return Err(FleetError::Shares { shares: shares.len(), gateways: self.gateways });
        }
        if let Some(share) = shares.iter().find(|share| !(0.0..=1e9).contains(*share)) {
            return Err(FleetError::Share(*share));
        }
        if !shares.is_empty() && shares.iter().sum::<f64>() <= 0.0 {
            return Err(FleetError::Share(0.0));
        }
        if self.scrape_every < MIN_INTERVAL {
            return Err(FleetError::Interval { what: "scrape interval", given: self.scrape_every });
        }
        if let Some(every) = self.share_every.filter(|every| *every < MIN_INTERVAL) {
            return Err(FleetError::Interval { what: "share interval", given: every });
        }
        if !(0.0..=1.0).contains(&self.kv_events_lost) {
            return Err(FleetError::Lost(self.kv_events_lost));
        }
        if let OutputKnowledge::Noisy(sigma) = self.output_knowledge
            && !(0.0..=10.0).contains(&sigma)
        {
            return Err(FleetError::Noise(sigma));
        }
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            endpoint.validate().map_err(|(field, given)| FleetError::Endpoint {
                number,
                name: endpoint.name.clone(),
                field,
                given,
            })?;
        }
        let mut names: Vec<&str> = self.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FleetError::Twice(pair[0].to_owned()));
        }
        for event in &self.events {
            if event.endpoint >= self.endpoints.len() {
                return Err(FleetError::EventEndpoint(event.endpoint));
            }
            if let FleetChange::Slow { slowness } = event.change
                && !is_factor(slowness)
            {
                return Err(FleetError::EventSlowness(slowness));
            }
        }
        Ok(())
    }
}

/// More gateways than anybody has, and still little memory each.
const MAX_GATEWAYS: usize = 1024;
/// Below it a run would consist of scrapes.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

fn is_factor(x: f64) -> bool {
    (1e-3..=1e3).contains(&x)
}

impl EndpointSpec {
    fn validate(&self) -> Result<(), (&'static str, f64)> {
        let p = &self.profile;
        let constants = [("a", p.a), ("b", p.b), ("c", p.c), ("d", p.d), ("e", p.e)];
        for (field, value) in constants {
            if !(0.0..=1e6).contains(&value) {
                return Err((field, value));
            }
        }
        if p.a + p.b <= 0.0 {
            return Err(("a", p.a));
        }
        let whole = [
            ("kv_tokens", p.kv_tokens),
            ("max_num_seqs", p.max_num_seqs),
            ("max_batched_tokens", p.max_batched_tokens),
        ];
        for (field, value) in whole {
            if value == 0 {
                return Err((field, 0.0));
            }
        }
        if !is_factor(self.slowness) {
            return Err(("slowness", self.slowness));
        }
        if !(1e-6..=1e6).contains(&self.weight) {
            return Err(("weight", self.weight));
        }
        if !(0.0..=1e3).contains(&self.host_ms_per_token) {
            return Err(("host_ms_per_token", self.host_ms_per_token));
        }
        if !(0.0..=1e7).contains(&self.adapter_load_ms) {
            return Err(("adapter_load_ms", self.adapter_load_ms));
        }
        Ok(())
    }
}

/// A fleet that cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// There is nothing to send to.
    #[error("the fleet has no endpoints")]
    NoEndpoints,
    /// None, or more than a run can hold.
    #[error("{0} gateways: from 1 to {MAX_GATEWAYS}")]
    Gateways(usize),
    /// Not one for each gateway.
    #[error("{shares} gateway shares for {gateways} gateways")]
    Shares {
        /// How many there are.
        shares: usize,
        /// How many gateways.
        gateways: usize,
    },
    /// Not a part of anything.
    #[error("a gateway's share cannot be {0}")]
    Share(f64),
    /// It would do nothing else.
    #[error("{what} {given:?} is shorter than a millisecond")]
    Interval {
        /// Of what.
        what: &'static str,
        /// As it was given.
        given: Duration,
    },
    /// Not a share of the cache news.
    #[error("the share of cache news that is lost cannot be {0}")]
    Lost(f64),
    /// Not a spread of lengths.
    #[error("the noise of expected answer lengths cannot be {0}")]
    Noise(f64),
    /// A number of an endpoint is out of range.
    #[error("endpoint {number} ({name}): {field} cannot be {given}")]
    Endpoint {
        /// Its place in the list, from 0.
        number: usize,
        /// Its name.
        name: String,
        /// Which number.
        field: &'static str,
        /// As it was given.
        given: f64,
    },
    /// A name that two endpoints have.
    #[error("two endpoints are named {0}")]
    Twice(String),
    /// An event of an endpoint that is not there.
    #[error("an event names endpoint {0}, which the fleet does not have")]
    EventEndpoint(usize),
    /// An event with an impossible factor.
    #[error("an event makes an endpoint {0} times as slow")]
    EventSlowness(f64),
}
