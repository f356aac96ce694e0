//! What must hold for every configuration text.

/// Panics when loading `data` does.
pub(crate) fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = forebay_config::parse_str("fuzz.yaml", text);
    }
}
