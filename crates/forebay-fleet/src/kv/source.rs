//! Which publishers there are.

use std::time::Duration;

use forebay_config::Secret;
use forebay_wire::kv_events::EventSource;

use super::address::{KvAddress, KvAddressError};

/// The publisher of one rank of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvSource {
    /// The owner's name for the endpoint, given back with everything.
    pub endpoint: String,
    /// The data-parallel rank; 0 without data parallelism.
    pub rank: u32,
    /// Where it publishes, or, with `bind`, where it connects to.
    pub events: KvAddress,
    /// The engine connects to us: listen at `events`. Several sources may share
    /// one address; batches are then told apart by topic, and by rank.
    pub bind: bool,
    /// Only batches published under topics that begin with this.
    pub topic: String,
    /// Where missed batches are asked for.
    pub replay: Option<KvAddress>,
    /// What an engine that is asked wants to be shown.
    pub key: Option<Secret>,
}

impl KvSource {
    /// The same with what the engine wants to be shown, where it is asked.
    pub fn with_key(self, key: Option<Secret>) -> KvSource {
        KvSource { key, ..self }
    }

    /// TensorRT-LLM at `url`: its events are asked for there, those of all its
    /// ranks together. Each answer empties the engine's queue, so nobody else
    /// may ask, be it another gateway.
    pub fn polled(endpoint: &str, url: &str) -> KvSource {
        KvSource {
            endpoint: endpoint.to_owned(),
            rank: 0,
            events: KvAddress::Http(format!("{}{}", url.trim_end_matches('/'), super::poll::PATH)),
            bind: false,
            topic: String::new(),
            replay: None,
            key: None,
        }
    }
}

/// How the addresses of an endpoint follow from its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvTemplate {
    /// Rank 0's publisher: `tcp://{host}:5557`. With another host than
    /// `{host}`, all endpoints connect there, and so it is listened at.
    pub events: String,
    /// Rank 0's replays: `tcp://{host}:5558`.
    pub replay: Option<String>,
    /// Ranks of each endpoint; those after the first have the next ports.
    pub ranks: u32,
    /// What topics begin with; empty for any.
    pub topic: String,
    /// The engines connect to `events`.
    pub bind: bool,
}

impl KvTemplate {
    /// The sources of an endpoint on `host`.
    ///
    /// # Errors
    ///
    /// When an address cannot be read once the host is in it, or there are
    /// more ranks than ports.
    pub fn sources(&self, endpoint: &str, host: &str) -> Result<Vec<KvSource>, KvAddressError> {
        let bracketed =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        let address = |template: &str, rank: u32| {
            let text = template.replace("{host}", &bracketed);
            let first: KvAddress = text.parse()?;
            first.of_rank(rank).ok_or_else(|| KvAddressError::new(&text, "there are more ranks than ports"))
        };
        (0..self.ranks.max(1))
            .map(|rank| {
                Ok(KvSource {
                    endpoint: endpoint.to_owned(),
                    rank,
                    events: if self.bind { self.events.parse()? } else { address(&self.events, rank)? },
                    bind: self.bind,
                    topic: self.topic.clone(),
                    replay: self.replay.as_deref().map(|replay| address(replay, rank)).transpose()?,
                    key: None,
                })
            })
            .collect()
    }
}

/// The sources of an endpoint on `host`, from its own answer to
/// `GET /kv_event_sources` ([`forebay_wire::kv_events::decode_sources`]).
///
/// vLLM listens where its address has a wildcard or is a Unix socket, and
/// connects to any other: that one is listened at here.
///
/// # Errors
///
/// When an address is of a kind that only the engine's own process can use.
pub(super) fn discovered(
    endpoint: &str,
    host: &str,
    sources: &[EventSource],
) -> Result<Vec<KvSource>, KvAddressError> {
    let source = |source: &EventSource| {
        let events: KvAddress = source.endpoint.parse()?;
        let listens = source.endpoint.contains(['*']) || source.endpoint.contains("::");
        let bind = !listens && matches!(events, KvAddress::Tcp { .. });
        let replay = source.replay.as_deref().map(str::parse::<KvAddress>).transpose()?;
        let reachable =
            |address: KvAddress| if address.is_wildcard() { address.at_host(host) } else { address };
        Ok(KvSource {
            endpoint: endpoint.to_owned(),
            rank: source.rank,
            events: if bind { events } else { reachable(events) },
            bind,
            topic: source.topic.clone(),
            replay: replay.map(reachable),
            key: None,
        })
    };
    sources.iter().map(source).collect()
}

/// Bounds of every wait and of what a publisher may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvSettings {
    /// For a connection and its handshake.
    pub connect: Duration,
    /// For the rest of a message whose first byte is there, and for each
    /// message of a replay.
    pub message: Duration,
    /// For a replay as a whole.
    pub replay: Duration,
    /// After so long without a batch, whether one was missed is asked.
    pub idle: Duration,
    /// A source without a connection for so long is silent: what it said is not
    /// its word any more ([`KvSink::silent`](super::KvSink::silent)).
    pub silent_after: Duration,
    /// The first pause after a failed connection; it doubles up to `pause_max`.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// Bytes of a message, at most; a longer one ends the connection.
    pub max_message: usize,
    /// Spreads the pauses of several processes.
    pub seed: u64,
}

impl Default for KvSettings {
    fn default() -> KvSettings {
        KvSettings {
            connect: Duration::from_secs(5),
            message: Duration::from_secs(5),
            replay: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            // An engine makes a batch with each step, some tens a second, and may turn
            // over a percent of its cache in a few seconds: until then what it said is
            // as good as true, and a connection that only broke is back after tenths.
            silent_after: Duration::from_secs(5),
            pause: Duration::from_millis(100),
            pause_max: Duration::from_secs(10),
            max_message: 64 << 20,
            seed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sources: &[KvSource]) -> Vec<String> {
        let show = |source: &KvSource| {
            let replay = source.replay.as_ref().map(ToString::to_string).unwrap_or_default();
            let bind = if source.bind { "bind" } else { "connect" };
            format!("{} {bind} {} {} {replay}", source.rank, source.events, source.topic)
        };
        sources.iter().map(show).collect()
    }

    #[test]
    fn a_template_gives_each_rank_its_ports() {
        let mut template = KvTemplate {
            events: "tcp://{host}:5557".to_owned(),
            replay: Some("tcp://{host}:6557".to_owned()),
            ranks: 2,
            topic: "kv@".to_owned(),
            bind: false,
        };
        let expect = [
            "0 connect tcp://10.0.0.1:5557 kv@ tcp://10.0.0.1:6557",
            "1 connect tcp://10.0.0.1:5558 kv@ tcp://10.0.0.1:6558",
        ];
        assert_eq!(shown(&template.sources("e", "10.0.0.1").unwrap()), expect);
        template.ranks = 1;
        assert_eq!(
            shown(&template.sources("e", "fd00::1").unwrap()),
            ["0 connect tcp://[fd00::1]:5557 kv@ tcp://[fd00::1]:6557"]
        );
        template.ranks = 60_000;
        assert!(template.sources("e", "h").unwrap_err().to_string().contains("more ranks than ports"));
        let bound =
            KvTemplate { events: "tcp://*:5557".to_owned(), replay: None, ranks: 2, bind: true, ..template };
        let expect = ["0 bind tcp://*:5557 kv@ ", "1 bind tcp://*:5557 kv@ "];
        assert_eq!(shown(&bound.sources("e", "h").unwrap()), expect, "all ranks come to one address");
    }

    #[test]
    fn an_engine_that_listens_is_reached_at_its_host() {
        let source = |rank, endpoint: &str, replay: Option<&str>| EventSource {
            rank,
            endpoint: endpoint.to_owned(),
            replay: replay.map(str::to_owned),
            topic: "kv".to_owned(),
        };
        let found = [
            source(0, "tcp://*:5557", Some("tcp://*:5558")),
            source(1, "tcp://[::]:5557", None),
            // It connects, as vLLM does to what is no wildcard.
            source(2, "tcp://127.0.0.1:15557", Some("tcp://127.0.0.1:15657")),
            source(3, "ipc:///tmp/kv", None),
        ];
        let expect = [
            "0 connect tcp://engine-7:5557 kv tcp://engine-7:5558",
            "1 connect tcp://engine-7:5557 kv ",
            "2 bind tcp://127.0.0.1:15557 kv tcp://127.0.0.1:15657",
            "3 connect ipc:///tmp/kv kv ",
        ];
        assert_eq!(shown(&discovered("e", "engine-7", &found).unwrap()), expect);
        let inside = discovered("e", "h", &[source(0, "inproc://kv", None)]);
        assert!(inside.unwrap_err().to_string().contains("inproc://kv"));
    }
}
