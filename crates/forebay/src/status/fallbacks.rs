//! What is looked at once a second: a line in the log whenever a pool's policy
//! gives way and when it returns, and the age of what the index was told.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::PoolId;
use forebay_gate::PoolLoad;
use tokio::time::MissedTickBehavior;

use super::StatusPage;

/// How often it is looked; a fallback lasts for 20 s at least.
const EVERY: Duration = Duration::from_secs(1);
/// From this share of broken predictions on, they are the reason.
const BROKEN: f64 = 0.25;

/// Watches every pool; ends by being dropped.
pub(crate) async fn watch(page: Arc<StatusPage>) {
    let mut before = vec![false; page.config.pools.len()];
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        page.proxy.live().tick();
        for (i, before) in before.iter_mut().enumerate() {
            let Some(load) = page.proxy.live().pool(PoolId(i as u32)) else { continue };
            if std::mem::replace(before, load.fallback) != load.fallback {
                tell(&page.config.pools[i].name, &load);
            }
        }
    }
}

fn tell(pool: &str, load: &PoolLoad) {
    let policy = load.policy.as_str();
    let hundredth = |x: f64| (x * 100.0).round() / 100.0;
    let (error, bias) = load.ttft_error.map(|e| (hundredth(e.mean), hundredth(e.bias))).unzip();
    let broken = hundredth(load.broken_predictions);
    if load.fallback {
        let reason = reason(load);
        tracing::warn!(
            pool,
            policy,
            reason,
            error,
            bias,
            broken,
            "predictions fail: least_work with prefixes decides until they hold again"
        );
    } else {
        tracing::info!(
            pool,
            policy,
            error,
            bias,
            broken,
            "predictions hold again: the pool's policy decides"
        );
    }
}

fn reason(load: &PoolLoad) -> &'static str {
    if load.broken_predictions >= BROKEN {
        "too many first tokens came far later than predicted"
    } else if load.ttft_error.is_some_and(|error| error.bias < 1.0) {
        "first tokens come much sooner than predicted"
    } else {
        "first tokens come much later than predicted"
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Time;
    use forebay_gate::{Event, Gate, PoolConfig};

    use super::*;

    #[test]
    fn the_reason_is_what_failed() {
        let mut gate = Gate::new(1);
        gate.apply(Time::ZERO, Event::Configure(PoolId(0), PoolConfig::default()));
        let load = gate.pool(PoolId(0), Time::ZERO).unwrap();
        let broken = PoolLoad { broken_predictions: 0.4, ..load };
        assert_eq!(reason(&broken), "too many first tokens came far later than predicted");
        assert_eq!(reason(&load), "first tokens come much later than predicted");
    }
}
