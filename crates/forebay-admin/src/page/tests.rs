use super::text::{age, millis};
use super::*;
use crate::model::{
    BodyEdit, CandidateView, EndpointStatus, PoolStatus, RequestTotals, ScrapeStatus, ShadowStatus,
};

/// A page whose every text is `text`.
fn page_of(text: &str) -> String {
    let text = || text.to_owned();
    let status = Status {
        version: text(),
        config_file: Some(text()),
        draining: true,
        requests: RequestTotals::default(),
        pools: vec![PoolStatus {
            name: text(),
            model: text(),
            policy: text(),
            profile: text(),
            fallback: true,
            shadow: Some(ShadowStatus { policy: text(), ..ShadowStatus::default() }),
            endpoints: vec![EndpointStatus {
                url: text(),
                engine: text(),
                accelerator: Some(text()),
                state: text(),
                scrapes: ScrapeStatus { last_failure: Some(text()), ..ScrapeStatus::default() },
                ..EndpointStatus::default()
            }],
            ..PoolStatus::default()
        }],
        body_edits: vec![BodyEdit { model: text(), field: text(), reason: text() }],
        ..Status::default()
    };
    let decision = DecisionView {
        pool: text(),
        model: text(),
        endpoint: text(),
        reason: text(),
        shadow: Some(format!("{}2", text())),
        candidates_priced: vec![CandidateView { endpoint: text(), ..CandidateView::default() }],
        ..DecisionView::default()
    };
    render(&status, &[decision])
}

#[test]
fn no_name_can_become_markup() {
    let html = page_of("</td><script>alert(1)</script>&\"'");
    let plain = page_of("");
    assert!(!html.contains("<script"));
    let markup = |s: &str| s.matches(['<', '>', '"', '\'']).count();
    assert_eq!(markup(&html), markup(&plain), "{html}");
    let escaped = "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;";
    assert_eq!(html.matches(escaped).count(), 21);
}

#[test]
fn the_page_loads_nothing_and_refreshes_itself() {
    let html = page_of("");
    for loads in ["src=", "url(", "@import", "<link", "http://", "https://", "<script"] {
        assert!(!html.contains(loads), "{loads}");
    }
    assert!(html.contains("http-equiv=\"refresh\"") && html.contains("prefers-color-scheme:dark"));
}

#[test]
fn bars_are_as_long_as_their_terms_and_nonsense_has_none() {
    let candidate = |wait_ms, decode_ms| CandidateView { wait_ms, decode_ms, ..CandidateView::default() };
    let decision = DecisionView {
        candidates_priced: vec![
            candidate(100.0, 300.0),
            candidate(50.0, f32::NAN),
            candidate(-5.0, f32::INFINITY),
        ],
        ..DecisionView::default()
    };
    let html = render(&Status::default(), &[decision]);
    let bars: Vec<&str> = html
        .split("<i class=\"t")
        .skip(1)
        .filter_map(|bar| bar.split_once("style=\"width:")?.1.split_once('%'))
        .map(|(width, _)| width)
        .collect();
    assert_eq!(bars, ["25.0", "75.0", "12.5"]);
    assert!(html.contains("title=\"decode 300 ms\""), "{html}");
    assert!(!html.contains("NaN") && !html.contains("inf%"), "{html}");
    let empty = render(&Status::default(), &[DecisionView::default()]);
    assert!(!empty.contains("NaN"), "{empty}");
}

#[test]
fn times_are_readable() {
    let shown = [0.4, 59.9, 61.0, 3_600.0, 90_000.0, -1.0, f64::NAN].map(uptime);
    assert_eq!(shown, ["0 s", "59 s", "1 min 1 s", "1 h 0 min", "1 d 1 h", "0 s", "0 s"]);
    let _ = uptime(f64::INFINITY);
    assert_eq!([0.25, 1.25, 75.0, f64::NAN].map(age), ["250 ms", "1.2 s", "1 min 15 s", "-"]);
    assert_eq!(
        [0.0, 9.94, 1234.0, 12_340.0, -3.0].map(millis),
        ["0.0 ms", "9.9 ms", "1234 ms", "12.3 s", "-3.0 ms"]
    );
}
