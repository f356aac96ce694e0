//! The status page: plain HTML made here, no script and nothing to load.

use std::fmt::Write;

use crate::model::{EndpointStatus, PoolStatus, Status};

/// How often the page asks again, in seconds.
const REFRESH: u32 = 3;

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--dim:#5c6670;--bg:#fff;--line:#d8dee4;--good:#176f2c;--bad:#b3261e;--wait:#8a5a00}\
@media(prefers-color-scheme:dark){:root{--fg:#e3e8ee;--dim:#98a3ae;--bg:#14181d;--line:#313a44;--good:#5fc97a;--bad:#ff8a80;--wait:#e5b454}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:64rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0}\
.dim{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}.wait{color:var(--wait)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums;white-space:nowrap}\
th{color:var(--dim);font-weight:500}.n{text-align:right}a{color:inherit}";

/// The whole page.
pub(crate) fn render(status: &Status) -> String {
    let mut html = String::with_capacity(4096);
    // Writing to a string does not fail.
    let _ = write_page(&mut html, status);
    html
}

fn write_page(html: &mut String, status: &Status) -> std::fmt::Result {
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
        r.in_flight, r.total, r.rejected, r.retries, r.client_connections
    )?;
    for pool in &status.pools {
        write_pool(html, pool)?;
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
         <a href=\"api/v1/endpoints\">endpoints</a> &middot; <a href=\"metrics\">metrics</a> &middot; \
         <a href=\"readyz\">readiness</a></p></body></html>\n",
    );
    Ok(())
}

fn write_pool(html: &mut String, pool: &PoolStatus) -> std::fmt::Result {
    let ready = match pool.ready {
        0 => "bad",
        n if n < pool.endpoints.len() => "wait",
        _ => "good",
    };
    write!(
        html,
        "<h2>Pool {}</h2><p class=\"dim\">model {}, policy {}, {} in flight, \
         <span class=\"{ready}\">{} of {} ready</span></p><div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">endpoint</th><th scope=\"col\">state</th><th scope=\"col\" class=\"n\">weight</th>\
         <th scope=\"col\" class=\"n\">in flight</th><th scope=\"col\" class=\"n\">requests</th></tr></thead><tbody>",
        escape(&pool.name),
        escape(&pool.model),
        escape(&pool.policy),
        pool.in_flight,
        pool.ready,
        pool.endpoints.len(),
    )?;
    for endpoint in &pool.endpoints {
        write_endpoint(html, endpoint)?;
    }
    html.push_str("</tbody></table></div>");
    Ok(())
}

fn write_endpoint(html: &mut String, endpoint: &EndpointStatus) -> std::fmt::Result {
    let class = match endpoint.state.as_str() {
        "ready" => "good",
        "unready" => "bad",
        _ => "wait",
    };
    write!(
        html,
        "<tr><td>{}</td><td class=\"{class}\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td></tr>",
        escape(&endpoint.url),
        escape(&endpoint.state),
        endpoint.weight,
        endpoint.in_flight,
        endpoint.requests
    )
}

/// Text as it may stand between tags and in a quoted attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// Seconds in the two largest units that are not zero.
fn uptime(seconds: f64) -> String {
    // The cast saturates, and NaN becomes zero.
    let s = seconds as u64;
    let (days, hours, minutes) = (s / 86_400, s / 3_600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, m) => format!("{m} min {} s", s % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BodyEdit, RequestTotals};

    #[test]
    fn no_name_can_become_markup() {
        let nasty = "</td><script>alert(1)</script>&\"'";
        let status = Status {
            version: nasty.to_owned(),
            config_file: Some(nasty.to_owned()),
            draining: true,
            requests: RequestTotals::default(),
            pools: vec![PoolStatus {
                name: nasty.to_owned(),
                model: nasty.to_owned(),
                policy: nasty.to_owned(),
                endpoints: vec![EndpointStatus {
                    url: nasty.to_owned(),
                    state: nasty.to_owned(),
                    ..EndpointStatus::default()
                }],
                ..PoolStatus::default()
            }],
            body_edits: vec![BodyEdit {
                model: nasty.to_owned(),
                field: nasty.to_owned(),
                reason: nasty.to_owned(),
            }],
            ..Status::default()
        };
        let html = render(&status);
        let plain = render(&Status {
            draining: true,
            config_file: Some(String::new()),
            pools: vec![PoolStatus { endpoints: vec![EndpointStatus::default()], ..PoolStatus::default() }],
            body_edits: vec![BodyEdit { model: String::new(), field: String::new(), reason: String::new() }],
            ..Status::default()
        });
        assert!(!html.contains("<script"));
        let markup = |s: &str| s.matches(['<', '>', '"', '\'']).count();
        assert_eq!(markup(&html), markup(&plain), "{html}");
        assert_eq!(
            html.matches("&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;").count(),
            10
        );
    }

    #[test]
    fn the_page_loads_nothing_and_refreshes_itself() {
        let html = render(&Status::default());
        for loads in ["src=", "url(", "@import", "<link", "http://", "https://", "<script"] {
            assert!(!html.contains(loads), "{loads}");
        }
        assert!(html.contains("http-equiv=\"refresh\"") && html.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn uptime_is_readable() {
        let shown = [0.4, 59.9, 61.0, 3_600.0, 90_000.0, -1.0, f64::NAN].map(uptime);
        assert_eq!(shown, ["0 s", "59 s", "1 min 1 s", "1 h 0 min", "1 d 1 h", "0 s", "0 s"]);
        let _ = uptime(f64::INFINITY);
    }
}
