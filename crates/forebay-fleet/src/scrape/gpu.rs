//! What the exporter of a node's GPUs says of one endpoint's.
//!
//! It runs beside the endpoint's own loop: an exporter that hangs must not
//! hold up the load.

use forebay_wire::signals::{Gpu, Signals, read_dcgm};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ask::Asker;
use super::failure::ScrapeFailure;
use super::fetch::Page;
use super::follow::Follow;
use super::pace::Pace;
use crate::membership::{Membership, PageKind};

/// The figures count for so many intervals in which they do not come.
const KEPT: u32 = 6;

/// The last figures, and when they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Gpus(Mutex<Option<(Instant, Gpu)>>);

impl Gpus {
    /// The figures, unless they are old.
    pub(crate) fn now<M: Membership>(&self, given: &Follow<M>) -> Option<(Instant, Gpu)> {
        let kept = given.target.slow_interval.saturating_mul(KEPT);
        self.0.lock().filter(|(at, _)| at.elapsed() <= kept)
    }

    /// Reads for ever; ends at once for an endpoint without an exporter.
    pub(crate) async fn follow<M: Membership>(&self, given: &Follow<M>) {
        let Some(url) = &given.target.dcgm_url else { return };
        let (target, shared) = (&given.target, &given.shared);
        let gpus: Vec<&str> = target.gpus.iter().map(String::as_str).collect();
        let wanted = (!gpus.is_empty()).then_some(&gpus[..]);
        let slowest = target.slow_interval.saturating_mul(KEPT);
        let mut pace = Pace::new(target.slow_interval, slowest, given.ordinal, shared.seed);
        let asker = Asker { shared, id: target.id, limit: target.timeout };
        let mut next = pace.first(shared.now(), given.place);
        loop {
            shared.sleep_until(next).await;
            let at = Instant::now();
            let result = {
                let _place = shared.lanes.enter(pace.is_failing()).await;
                match Page::get(url, false) {
                    Ok(page) => asker.read(PageKind::Gpu, &page, |body| figures(body, wanted)).await,
                    Err(failure) => Err(failure),
                }
            };
            match result {
                Ok(gpu) => {
                    *self.0.lock() = Some((at, gpu));
                    pace.busy();
                }
                Err(failure) => {
                    pace.failed();
                    tracing::debug!(%url, %failure, "the GPUs' figures cannot be read");
                }
            }
            next = pace.next(shared.now());
        }
    }
}

fn figures(body: &[u8], wanted: Option<&[&str]>) -> Result<Gpu, ScrapeFailure> {
    let gpu = read_dcgm(body, wanted);
    if gpu == Gpu::default() { Err(ScrapeFailure::NotSignals) } else { Ok(gpu) }
}

/// Triton's own page has such figures as well; the exporter's count for more.
pub(crate) fn add(signals: &mut Signals, exported: Gpu) {
    let own = signals.gpu;
    signals.gpu = Gpu {
        utilization: exported.utilization.or(own.utilization),
        temperature_c: exported.temperature_c.or(own.temperature_c),
        throttle: exported.throttle.or(own.throttle),
        power_w: exported.power_w.or(own.power_w),
        sm_clock_mhz: exported.sm_clock_mhz.or(own.sm_clock_mhz),
    };
}
