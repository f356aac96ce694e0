//! The newest decisions, each with what its candidates would have cost.

use std::fmt::Write;

use super::text::{age, escape, grouped, millis};
use crate::model::{CandidateView, DecisionView};

/// How many candidates of a decision are drawn.
const CANDIDATES_SHOWN: usize = 4;

/// A word for each term.
const TERMS: [&str; 7] = ["wait", "prefill", "fixed", "decode", "harm", "price", "miss"];

fn terms(c: &CandidateView) -> [f64; TERMS.len()] {
    let ms =
        [c.wait_ms, c.prefill_ms, c.fixed_ms + c.extra_ms, c.decode_ms, c.harm_ms, c.price_ms, c.miss_ms];
    // An operator's own cost may be below zero, which no bar can show.
    ms.map(|ms| if ms.is_finite() { f64::from(ms.max(0.0)) } else { 0.0 })
}

pub(super) fn write(html: &mut String, decisions: &[DecisionView]) -> std::fmt::Result {
    html.push_str(
        "<h2>Last decisions</h2><p class=\"dim key\">Terms in milliseconds; the pool's profile weighs \
         them into the total, which is minimised.<br>",
    );
    for (i, word) in TERMS.iter().enumerate() {
        write!(html, "<i class=\"t{i}\"></i>{word}")?;
    }
    html.push_str("</p>");
    decisions.iter().try_for_each(|decision| write_one(html, decision))
}

fn write_one(html: &mut String, d: &DecisionView) -> std::fmt::Result {
    write!(
        html,
        "<div class=\"why\"><p><strong>{}</strong> <span class=\"dim\">{} ago, pool {}, {}, {} prompt tokens, \
         about {} to come, {} candidates</span>",
        escape(&d.endpoint),
        age(d.age_seconds),
        escape(&d.pool),
        escape(&d.model),
        grouped(d.prompt_tokens.into()),
        grouped(d.output_tokens.into()),
        d.candidates,
    )?;
    if let Some(shadow) = &d.shadow {
        let same =
            if *shadow == d.endpoint { "agrees".to_owned() } else { format!("says {}", escape(shadow)) };
        write!(html, "<span class=\"dim\">; the shadow policy {same}</span>")?;
    }
    write!(html, "</p><p class=\"dim\">{}</p>", escape(&d.reason))?;
    let shown = &d.candidates_priced[..d.candidates_priced.len().min(CANDIDATES_SHOWN)];
    let most = shown.iter().map(|c| terms(c).iter().sum::<f64>()).fold(f64::MIN_POSITIVE, f64::max);
    html.push_str("<div class=\"scroll\"><table><tbody>");
    for candidate in shown {
        write_candidate(html, candidate, most)?;
    }
    html.push_str("</tbody></table></div></div>");
    Ok(())
}

fn write_candidate(html: &mut String, c: &CandidateView, most: f64) -> std::fmt::Result {
    write!(html, "<tr><td>{}</td><td class=\"w\"><div class=\"bar\">", escape(&c.endpoint))?;
    for ((i, word), ms) in TERMS.iter().enumerate().zip(terms(c)) {
        let width = 100.0 * ms / most;
        if width >= 0.05 {
            write!(
                html,
                "<i class=\"t{i}\" style=\"width:{width:.1}%\" title=\"{word} {}\"></i>",
                millis(ms)
            )?;
        }
    }
    write!(
        html,
        "</div></td><td class=\"n\">total {}</td><td class=\"n dim\">first token {}</td>\
         <td class=\"n dim\">holds {}</td></tr>",
        millis(c.total_ms.into()),
        millis(c.ttft_ms.into()),
        grouped(c.held_tokens.max(0.0) as u64),
    )
}
