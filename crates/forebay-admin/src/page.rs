//! The status page: plain HTML made here, no script and nothing to load.

mod decisions;
mod endpoints;
mod pool;
mod text;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::model::{DecisionView, Status};
use text::{escape, grouped, uptime};

/// How often the page asks again, in seconds.
const REFRESH: u32 = 3;
/// How many of the newest decisions it shows.
pub(crate) const DECISIONS_SHOWN: usize = 8;

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--dim:#5c6670;--bg:#fff;--card:#f6f8fa;--line:#d8dee4;--good:#176f2c;--bad:#b3261e;--wait:#8a5a00;\
--fill:#4a7fb5;--t0:#b3261e;--t1:#d9822b;--t2:#8a8f98;--t3:#4a7fb5;--t4:#8e5fb0;--t5:#2f9e8f;--t6:#c2438a}\
@media(prefers-color-scheme:dark){:root{--fg:#e3e8ee;--dim:#98a3ae;--bg:#14181d;--card:#1b2128;--line:#313a44;--good:#5fc97a;--bad:#ff8a80;--wait:#e5b454;\
--fill:#6ba3dc;--t0:#ff8a80;--t1:#e5a454;--t2:#98a3ae;--t3:#6ba3dc;--t4:#b58ad6;--t5:#4fc4b3;--t6:#e077b0}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:84rem;margin:1.5rem auto;padding:0 1rem}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0}code{font-size:.92em}\
.dim{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}.wait{color:var(--wait)}small{font-size:.8rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums;white-space:nowrap;vertical-align:top}\
th{color:var(--dim);font-weight:500}.n{text-align:right}a{color:inherit}\
.tiles{display:flex;flex-wrap:wrap;gap:.5rem;margin:.5rem 0 .8rem}.tile{background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:.3rem .8rem}\
.tile b{display:block;font-size:1.05rem;font-weight:600;font-variant-numeric:tabular-nums}.tile>span,.tile small{color:var(--dim);font-size:.8rem;font-weight:400}\
.meter{display:inline-block;width:4.5rem;height:.55rem;background:var(--line);border-radius:.2rem;overflow:hidden;margin-right:.4rem;vertical-align:baseline}\
.meter i{display:block;height:100%;background:var(--fill)}\
.why{background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:.5rem .8rem;margin:.5rem 0;overflow-wrap:anywhere}\
.why td,.why th{border:0;padding:.1rem .8rem .1rem 0}.why td.w{width:50%;min-width:14rem}\
.bar{display:flex;height:.8rem;border-radius:.2rem;overflow:hidden;margin-top:.3rem}.bar i{display:block;height:100%}\
.t0{background:var(--t0)}.t1{background:var(--t1)}.t2{background:var(--t2)}.t3{background:var(--t3)}.t4{background:var(--t4)}.t5{background:var(--t5)}.t6{background:var(--t6)}\
.key i{display:inline-block;width:.7rem;height:.7rem;border-radius:.15rem;margin:0 .3rem 0 .9rem}";

/// The whole page.
pub(crate) fn render(status: &Status, decisions: &[DecisionView]) -> String {
    let mut html = String::with_capacity(16 << 10);
    // Writing to a string does not fail.
    let _ = write_page(&mut html, status, decisions);
    html
}

fn write_page(html: &mut String, status: &Status, decisions: &[DecisionView]) -> std::fmt::Result {
    write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"refresh\" content=\"{REFRESH}\"><title>Forebay</title><style>{STYLE}</style></head><body>\
         <h1>Forebay</h1><p class=\"dim\">version {}, up {}, {}</p>",
        escape(&status.version),
        uptime(status.uptime_seconds),
        match &status.config_file {
            Some(file) => format!("configured by {}", escape(file)),
            None => "without a configuration file".to_owned(),
        },
    )?;
    if status.draining {
        html.push_str(
            "<p class=\"bad\"><strong>Draining: it ends when the running requests have ended.</strong></p>",
        );
    }
    let r = &status.requests;
    write!(
        html,
        "<p>{} in flight, {} ended, {} refused, {} retries, {} client connections</p>",
        grouped(r.in_flight),
        grouped(r.total),
        grouped(r.rejected),
        grouped(r.retries),
        grouped(r.client_connections)
    )?;
    for pool in &status.pools {
        pool::write(html, pool)?;
    }
    if !decisions.is_empty() {
        decisions::write(html, decisions)?;
    }
    if !status.body_edits.is_empty() {
        html.push_str(
            "<h2>Edited bodies</h2><p class=\"dim\">All others are passed on byte for byte.</p><ul>",
        );
        for edit in &status.body_edits {
            write!(
                html,
                "<li><code>{}</code> of requests for {}: {}</li>",
                escape(&edit.field),
                escape(&edit.model),
                escape(&edit.reason)
            )?;
        }
        html.push_str("</ul>");
    }
    html.push_str(
        "<h2>As data</h2><p><a href=\"api/v1/status\">status</a> &middot; \
         <a href=\"api/v1/endpoints\">endpoints</a> &middot; \
         <a href=\"api/v1/decisions?last=50\">decisions</a> &middot; <a href=\"metrics\">metrics</a> &middot; \
         <a href=\"readyz\">readiness</a></p></body></html>\n",
    );
    Ok(())
}
