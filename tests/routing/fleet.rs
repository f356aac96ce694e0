//! Eight equal engines behind a gateway, and the "groups" workload on them.

use std::sync::Arc;
use std::time::Duration;

use forebay_load::{GroupsOptions, GroupsTraffic, Live, Summary, run_groups_traffic};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use tokio::sync::watch;

use crate::common::wait_endpoints;
use crate::sim::{Sim, sims, urls};

/// How many engines.
pub const ENGINES: usize = 8;

/// A fresh fleet behind a fresh gateway, which knows nothing of any of them.
pub struct Fleet {
    pub engines: Vec<Sim>,
    pub gateway: Gateway,
}

impl Fleet {
    /// The pool has this policy and otherwise the defaults; `more` are further
    /// lines at the top level.
    pub async fn start(policy: &str, more: &str) -> Fleet {
        let engines = sims(ENGINES, 1.0).await;
        let config = Config::new()
            .pool("chat", "tide-7b", urls(&engines), &format!("policy: {policy}"))
            .with("workers: 2\nresponse_headers: {endpoint: true}\ndrain: {delay: 0s}")
            .with(more);
        let gateway = Gateway::start(&config).await;
        wait_endpoints(&gateway, ENGINES as u32).await;
        Fleet { engines, gateway }
    }

    /// Plays the "groups" workload: all of it, or so long.
    pub async fn groups(&self, duration: Option<Duration>) -> Summary {
        let usual = GroupsTraffic::default();
        let conversations = if duration.is_some() { 100_000 } else { usual.conversations };
        let options = GroupsOptions {
            url: format!("http://{}", self.gateway.addr()),
            traffic: GroupsTraffic { conversations, ..usual },
            duration,
            endpoints: Some(ENGINES),
            ..GroupsOptions::default()
        };
        let (_stop, stopped) = watch::channel(false);
        let finished = run_groups_traffic(options, Arc::new(Live::default()), stopped).await.unwrap();
        for remark in &finished.remarks {
            println!("{remark}");
        }
        assert_eq!((finished.summary.failed, finished.summary.rejected), (0, 0));
        finished.summary
    }
}
