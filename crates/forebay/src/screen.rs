//! The demo's live view.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use forebay_config::PolicyKind;
use forebay_core::PoolId;
use forebay_load::{Live, Summary};
use forebay_proxy::Proxy;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::demo::DemoEngine;

/// How often a terminal is redrawn.
const REDRAW: Duration = Duration::from_millis(250);
/// How often a line is printed where there is no terminal.
const LINE: Duration = Duration::from_secs(5);

/// Shows how the traffic goes.
pub(crate) struct Screen {
    live: Arc<Live>,
    engines: Vec<(String, forebay_engine::EngineHandle)>,
    proxy: Arc<Proxy>,
    duration: Option<Duration>,
    ticks: Interval,
    /// Lines that are redrawn: the totals, a heading, one for each engine. None
    /// where there is no terminal.
    lines: Option<(MultiProgress, Vec<ProgressBar>)>,
    note: Option<String>,
}

impl Screen {
    pub(crate) fn new(
        live: Arc<Live>,
        engines: &[DemoEngine],
        proxy: Arc<Proxy>,
        duration: Option<Duration>,
    ) -> Screen {
        let terminal = std::io::stderr().is_terminal();
        let lines = terminal.then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            let bars = (0..engines.len() + 2)
                .map(|_| {
                    let bar = all.add(ProgressBar::new(1));
                    bar.set_style(style.clone());
                    bar
                })
                .collect();
            (all, bars)
        });
        let mut ticks = interval(if terminal { REDRAW } else { LINE });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Screen {
            live,
            engines: engines.iter().map(|engine| (engine.label.clone(), engine.handle.clone())).collect(),
            proxy,
            duration,
            ticks,
            lines,
            note: None,
        }
    }

    /// Waits for the next moment to draw, and draws.
    pub(crate) async fn tick(&mut self) {
        self.ticks.tick().await;
        match &self.lines {
            Some((_, bars)) => {
                let text =
                    std::iter::once(self.totals()).chain(std::iter::once(heading())).chain(self.engines());
                for (bar, text) in bars.iter().zip(text) {
                    bar.set_message(text);
                }
            }
            None => eprintln!("{}", self.totals()),
        }
    }

    /// Adds a remark to the totals.
    pub(crate) fn say(&mut self, note: &str) {
        self.note = Some(note.to_owned());
        if self.lines.is_none() {
            eprintln!("{note}");
        }
    }

    /// Takes the live lines away, to make room for the summary.
    pub(crate) fn clear(&mut self) {
        if let Some((all, bars)) = self.lines.take() {
            bars.iter().for_each(ProgressBar::finish_and_clear);
            // A failure to tidy a terminal is nobody's problem.
            let _ = all.clear();
        }
    }

    fn totals(&self) -> String {
        let view = self.live.view();
        let of = self.duration.map(|d| format!("/{:.0}", d.as_secs_f64())).unwrap_or_default();
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
        let decides = self.proxy.live().pool(PoolId(0)).map(|pool| {
            let instead = if pool.fallback { ", fallen back to least_work" } else { "" };
            format!("{}{instead}", pool.policy)
        });
        let note = self.note.as_deref().map(|note| format!("  ({note})")).unwrap_or_default();
        format!(
            "{:>4.0}{of} s  {}  {} done  {} in flight  {} failed  TTFT p50 {} p99 {}  {:.0} tokens/s{note}",
            view.elapsed.as_secs_f64(),
            decides.as_deref().unwrap_or("-"),
            view.done,
            view.in_flight,
            view.failed + view.rejected,
            ms(view.ttft_p50_ms),
            ms(view.ttft_p99_ms),
            view.tokens_per_second,
        )
    }

    fn engines(&self) -> impl Iterator<Item = String> {
        let endpoints = self.proxy.live().endpoints();
        let total: u64 = endpoints.iter().map(|view| view.load.picked).sum::<u64>().max(1);
        self.engines.iter().zip(endpoints).map(move |((label, handle), view)| {
            let load = handle.stats().load;
            let hit = 100.0 * load.prefix_hits as f64 / load.prefix_queries.max(1) as f64;
            let share = 100.0 * view.load.picked as f64 / total as f64;
            let speed = view.load.speed;
            format!(
                "  {label:<12} {:>9} {:>8} {:>8} {:>6.1}% {hit:>10.1}% {:>6.1}% {:>8.0} ms {:>7.2}x {:>6.2}x",
                view.load.in_flight,
                load.running,
                load.waiting,
                share,
                load.kv_usage * 100.0,
                view.load.owed_ms,
                speed.prefill_factor,
                speed.decode_factor,
            )
        })
    }
}

/// Of each engine; prefill and decode are the times it was found to take, as
/// multiples of what its class is taken to need.
fn heading() -> String {
    format!(
        "  {:<12} {:>9} {:>8} {:>8} {:>7} {:>11} {:>7} {:>11} {:>8} {:>7}",
        "engine", "in flight", "running", "waiting", "share", "prefix hit", "KV", "owed", "prefill", "decode"
    )
}

/// What to run next, to see what the policy is worth: the same traffic under another.
pub(crate) fn comparison(summary: &Summary, policy: PolicyKind, seed: u64, seconds: Option<f64>) -> String {
    let other = match policy {
        PolicyKind::Predictive => PolicyKind::LeastWork,
        _ => PolicyKind::Predictive,
    };
    let ttft = summary.ttft_ms.mean.map_or_else(|| "no first token".to_owned(), |ms| format!("{ms:.1} ms"));
    let seconds = seconds.unwrap_or(30.0);
    format!(
        "{policy}: mean TTFT {ttft}. The same traffic under another policy: \
         forebay demo --seconds {seconds} --seed {seed} --policy {other}"
    )
}
