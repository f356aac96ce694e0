//! One pool on the page: how it decides, how well it predicts, its endpoints.

use std::fmt::Write;

use super::endpoints;
use super::text::{escape, grouped, known, millis, percent};
use crate::model::PoolStatus;

pub(super) fn write(html: &mut String, pool: &PoolStatus) -> std::fmt::Result {
    let ready = match pool.ready {
        0 => "bad",
        n if n < pool.endpoints.len() => "wait",
        _ => "good",
    };
    write!(
        html,
        "<h2>Pool {}</h2><p class=\"dim\">model {}, policy {} ({})</p>",
        escape(&pool.name),
        escape(&pool.model),
        escape(&pool.policy),
        escape(&pool.profile),
    )?;
    if pool.fallback {
        html.push_str(
            "<p class=\"bad\"><strong>Its predictions fail: it has given way to least_work with prefixes \
             until they hold again.</strong></p>",
        );
    }
    html.push_str("<div class=\"tiles\">");
    let n = format!("<span class=\"{ready}\">{} of {} ready</span>", pool.ready, pool.endpoints.len());
    tile(html, "endpoints", &n)?;
    tile(html, "in flight", &grouped(pool.in_flight))?;
    tile(html, "waiting", &grouped(pool.waiting))?;
    for (of, error) in [
        ("first-token prediction", pool.ttft_error),
        ("TPOT prediction", pool.tpot_error),
        ("output-length prediction", pool.output_error),
    ] {
        let error = error.map(|e| {
            let direction = if e.bias > 1.0 { "too short" } else { "too long" };
            format!("{:.2}&times; <small>p90 {:.2}&times;, mostly {direction}</small>", e.p50, e.p90)
        });
        tile(html, &format!("{of} off by, median"), &known(error, |shown| shown))?;
    }
    tile(html, "broken predictions", &percent(pool.broken_predictions))?;
    tile(html, "TPOT correction", &format!("{:.2}", pool.tpot_correction))?;
    let index = &pool.prefix_index;
    let dropped = index.evicted_by_capacity + index.evicted_by_memory;
    let mib = index.bytes as f64 / (1 << 20) as f64;
    let blocks = grouped(index.blocks);
    tile(
        html,
        "prefix index",
        &format!("{blocks} blocks <small>{mib:.1} MiB, {} dropped</small>", grouped(dropped)),
    )?;
    if let Some(shadow) = &pool.shadow {
        let agreement = known(shadow.agreement, percent);
        let difference = known(shadow.mean_difference_ms, |ms| format!("{}{}", plus(ms), millis(ms)));
        let shown = format!("{agreement} the same <small>{difference} a request</small>");
        tile(html, &format!("shadow policy {}", escape(&shadow.policy)), &shown)?;
    }
    html.push_str("</div>");
    endpoints::write(html, &pool.endpoints)
}

fn plus(ms: f64) -> &'static str {
    if ms > 0.0 { "+" } else { "" }
}

/// Both are markup already.
fn tile(html: &mut String, title: &str, value: &str) -> std::fmt::Result {
    write!(html, "<div class=\"tile\"><b>{value}</b><span>{title}</span></div>")
}
