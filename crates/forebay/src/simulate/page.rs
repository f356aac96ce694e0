//! The report as one page that opens from disk: no script, nothing loaded.

mod bars;
mod course;
mod curves;
mod heat;
mod marks;
mod tables;

use std::fmt::Write;

use super::report::{Load, Report};
use super::table::{busy, rounded, trimmed};
use marks::{escape, percent};

/// The whole page.
pub(super) fn html(report: &Report) -> String {
    let title = escape(&format!("{} on {}", report.workload, report.fleet));
    let mut page = String::with_capacity(1 << 18);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    let _ =
        write!(page, "<title>{title}</title>\n<style>\n{}{}</style>\n", include_str!("page/style.css"), {
            tab_rules(report.loads.len())
        });
    let _ = write!(page, "</head>\n<body>\n<main>\n<h1>{title}</h1>\n");
    facts(&mut page, report);
    how_to_read(&mut page, report);
    if report.loads.len() > 1 {
        page.push_str("<h2>Against load</h2>\n");
        curves::section(&mut page, report);
    }
    page.push_str("<h2>Policies compared</h2>\n");
    compared(&mut page, report);
    course::section(&mut page, report);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// One panel is shown at a time.
fn tab_rules(loads: usize) -> String {
    if loads < 2 {
        return String::new();
    }
    let mut rules = String::from(".panel { display: none; }\n");
    for at in 0..loads {
        let _ = writeln!(rules, "#load{at}:checked ~ .panel{at} {{ display: block; }}");
    }
    rules
}

fn facts(page: &mut String, report: &Report) {
    let seeds = report.seeds.len();
    let mut facts = vec![escape(&report.workload_is)];
    facts.extend(report.fleet_facts.iter().map(|fact| escape(fact)));
    facts.push(match report.loads.as_slice() {
        [one] => format!(
            "{} requests in a run, the first {} not counted",
            marks::grouped(one.requests),
            marks::grouped(one.warmup)
        ),
        many => format!("{} loads", many.len()),
    });
    facts.push(format!("every policy with the same {seeds} seed{}", if seeds == 1 { "" } else { "s" }));
    let _ = writeln!(page, "<p class=\"facts\">{}.</p>", facts.join("; "));
    if !report.fleet_events.is_empty() {
        let events: Vec<String> = report.fleet_events.iter().map(|event| escape(&event.show())).collect();
        let _ = writeln!(page, "<p class=\"facts\">What happens: {}.</p>", events.join("; "));
    }
    if let Some(text) = headline(report) {
        let _ = writeln!(page, "<p class=\"lead\">{text}</p>");
    }
}

/// What came out, in a sentence or two.
fn headline(report: &Report) -> Option<String> {
    let load = report.loads.get(report.telling())?;
    let ranked = report.ranked(load.rate);
    let (best, last) = (ranked.first()?, ranked.last()?);
    let at = load.rate.map_or_else(String::new, |rate| format!("At {} requests per second ", trimmed(rate)));
    let figure = |row: &super::rows::Row| {
        let half = row.ci95.goodput.map_or_else(String::new, |half| format!(" ± {:.1}", half * 100.0));
        format!("<b>{}</b> keeps {}{half}", escape(&row.policy), percent(row.goodput))
    };
    let mut text = format!("{at}{} of the requests within the limits", figure(best));
    let ours = ranked.iter().find(|row| row.policy == "predictive");
    if let Some(ours) = ours.filter(|ours| ours.policy != best.policy) {
        let within = if ours.level_with_best { ", which these runs do not tell apart" } else { "" };
        let _ = write!(text, ", {}{within}", figure(ours));
    }
    if ranked.len() > 2 {
        let _ = write!(text, "; the least is <b>{}</b> with {}", escape(&last.policy), percent(last.goodput));
    }
    text.push('.');
    if let [first, .., worst] = report.capacity.as_slice() {
        let _ = write!(
            text,
            " With {:.0} % goodput the fleet carries {} requests per second under <b>{}</b> and {} under <b>{}</b>.",
            super::capacity::GOAL * 100.0,
            escape(&first.show()),
            escape(&first.policy),
            escape(&worst.show()),
            escape(&worst.policy)
        );
    }
    Some(text)
}

fn how_to_read(page: &mut String, report: &Report) {
    let limit = |ms: Option<f32>| rounded(ms.map(f64::from));
    let _ = write!(
        page,
        "<details open><summary>How to read this</summary>\n<p>Every policy got the same requests at the same \
         times. <b>Goodput</b> is the share of the requests that arrived whose first token came within {} and \
         whose later tokens came every {} or faster on average; rejected, failed and abandoned ones count as \
         missed. <b>TTFT</b> is the time to the first token, <b>TPOT</b> the time for each later one, \
         <b>hit</b> the share of prompt tokens that came from the engines' caches, <b>busiest</b> the requests \
         of the busiest endpoint over the mean, <b>computing</b> the share of the time in which an endpoint had at \
         least one request: a fleet may compute 99 % of the time long before goodput falls. ± and the thin lines on bars and points are 95 % confidence \
         intervals over seeds. <b>=</b> marks policies that these runs do not tell apart from the best one, in the order \
         of their TTFT: their intervals meet; more <code>--seeds</code> narrow them. \
         Counts are sums over seeds. Names that begin with <code>rival-</code> are other routers' rules with \
         their own defaults. Everything is simulated; times are those of the simulated engines.</p></details>\n",
        limit(report.slo.ttft_ms),
        limit(report.slo.tpot_ms)
    );
}

/// Bars, numbers and heat map of each load, one at a time.
fn compared(page: &mut String, report: &Report) {
    page.push_str(
        "<p class=\"legend\"><span><span class=\"swatch\" style=\"background:var(--ours)\"></span>predictive (the default)</span> \
         <span><span class=\"swatch\" style=\"background:var(--ours-soft)\"></span>Forebay's other policies</span> \
         <span><span class=\"swatch\" style=\"background:var(--rival-soft)\"></span>rivals' rules</span></p>\n",
    );
    let tabs = report.loads.len() > 1;
    if tabs {
        page.push_str("<div class=\"tabs\">\n");
        let telling = report.telling();
        for (at, load) in report.loads.iter().enumerate() {
            let checked = if at == telling { " checked" } else { "" };
            let _ = writeln!(
                page,
                "<input type=\"radio\" name=\"load\" id=\"load{at}\"{checked}><label for=\"load{at}\">{}</label>",
                load_name(load)
            );
        }
    }
    for (at, load) in report.loads.iter().enumerate() {
        let _ = writeln!(page, "<div class=\"panel panel{at}\">");
        let rows = report.ranked(load.rate);
        let _ = writeln!(page, "<div class=\"card\"><h3>Goodput{}</h3>", at_load(load));
        bars::figure(page, &rows);
        if let Some(busy) = busy(report, load) {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(&busy));
        }
        page.push_str("</div>\n<div class=\"card scroll\"><h3>All figures</h3>\n");
        tables::figures(page, &rows);
        page.push_str("</div>\n");
        tables::by_priority(page, &rows);
        page.push_str("<div class=\"card\"><h3>What each endpoint did</h3>\n");
        heat::figure(page, &rows);
        page.push_str("</div>\n</div>\n");
    }
    if tabs {
        page.push_str("</div>\n");
    }
}

fn load_name(load: &Load) -> String {
    load.rate.map_or_else(|| "closed loop".to_owned(), |rate| format!("{} req/s", trimmed(rate)))
}

fn at_load(load: &Load) -> String {
    load.rate.map_or_else(String::new, |rate| format!(" at {} requests per second", trimmed(rate)))
}
