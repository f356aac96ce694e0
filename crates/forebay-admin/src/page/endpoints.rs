//! The table of a pool's endpoints.

use std::fmt::Write;

use super::text::{age, escape, grouped, known, meter, millis, percent};
use crate::model::EndpointStatus;

/// Heading, whether its column is of numbers, and what it means.
const COLUMNS: [(&str, bool, &str); 12] = [
    ("endpoint", false, "its address, engine and GPU class"),
    ("state", false, "whether it may be picked"),
    ("in flight", true, "requests sent by this gateway and not finished, and others' as reported"),
    ("run / wait", true, "requests in the engine's batch and in its queue, as it says"),
    ("KV", false, "share of the engine's KV memory in use"),
    ("hit", false, "share of prompt tokens found in the engine's prefix cache since it started"),
    ("owed", true, "prefill that was sent and is not seen to be done"),
    ("prefill", true, "time it takes to compute a prompt, against its class"),
    ("decode", true, "time it takes to generate a token, against its class"),
    ("GPU", true, "utilisation, temperature"),
    ("told", true, "age of its last load report"),
    ("requests", true, "requests sent there in all, and their share"),
];

pub(super) fn write(html: &mut String, endpoints: &[EndpointStatus]) -> std::fmt::Result {
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for (name, number, meaning) in COLUMNS {
        let class = if number { " class=\"n\"" } else { "" };
        write!(html, "<th scope=\"col\"{class} title=\"{}\">{name}</th>", escape(meaning))?;
    }
    html.push_str("</tr></thead><tbody>");
    let total: u64 = endpoints.iter().map(|endpoint| endpoint.requests).sum();
    for endpoint in endpoints {
        write_one(html, endpoint, total)?;
    }
    html.push_str("</tbody></table></div>");
    Ok(())
}

fn write_one(html: &mut String, e: &EndpointStatus, total: u64) -> std::fmt::Result {
    let class = match e.state.as_str() {
        "ready" => "good",
        "unready" => "bad",
        _ => "wait",
    };
    let mut what = escape(&e.engine);
    if let Some(accelerator) = &e.accelerator {
        let _ = write!(what, " on {}", escape(accelerator));
    }
    let signals = &e.signals;
    let told = |n: Option<u32>| known(n, |n| n.to_string());
    let share = if total > 0 { e.requests as f64 / total as f64 } else { 0.0 };
    write!(html, "<tr><td>{}<br><small class=\"dim\">{what}</small></td>", escape(&e.url))?;
    write!(html, "<td class=\"{class}\">{}", escape(&e.state))?;
    if e.ramp < 0.995 {
        write!(html, "<br><small class=\"dim\">ramp {}</small>", percent(e.ramp))?;
    }
    if e.weight != 1.0 {
        write!(html, "<br><small class=\"dim\">weight {}</small>", e.weight)?;
    }
    write!(html, "</td><td class=\"n\">{}", e.in_flight)?;
    if e.foreign_requests >= 0.5 {
        write!(html, "<br><small class=\"dim\">+{:.0} others'</small>", e.foreign_requests)?;
    }
    write!(
        html,
        "</td><td class=\"n\">{} / {}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td>",
        told(signals.running),
        told(signals.waiting),
        meter(signals.kv_usage.map(f64::from)),
        meter(signals.prefix_hit),
        millis(e.owed_ms),
    )?;
    for factor in [e.speed.prefill_factor, e.speed.decode_factor] {
        write!(html, "<td class=\"n\"{}>{factor:.2}&times;</td>", tint(factor))?;
    }
    let gpu = &e.gpu;
    let shown = match (gpu.utilization, gpu.temperature_celsius) {
        (None, None) => "-".to_owned(),
        (share, degrees) => format!(
            "{}, {}",
            known(share, |share| percent(f64::from(share))),
            known(degrees, |degrees| format!("{degrees:.0} &deg;C"))
        ),
    };
    write!(html, "<td class=\"n\">{shown}")?;
    if gpu.throttled == Some(true) {
        html.push_str("<br><small class=\"bad\">throttled</small>");
    }
    write!(html, "</td><td class=\"n\">{}", known(e.signal_age_seconds, age))?;
    if let Some(why) = &e.scrapes.last_failure {
        write!(html, "<br><small class=\"wait\">{}</small>", escape(why))?;
    }
    write!(
        html,
        "</td><td class=\"n\">{}<br><small class=\"dim\">{}</small></td></tr>",
        grouped(e.requests),
        percent(share)
    )
}

/// A colour for one that is clearly slower or faster than its class.
fn tint(factor: f64) -> &'static str {
    match factor {
        f if f > 1.1 => " style=\"color:var(--wait)\"",
        f if f < 0.9 => " style=\"color:var(--good)\"",
        _ => "",
    }
}
