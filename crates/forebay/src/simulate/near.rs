//! What a misspelt name was meant to be.

/// The name that `text` is nearest to; none where a guess would be noise.
pub(super) fn nearest<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', ' '], "-");
    let text = plain(text);
    let score = |name: &'n str| {
        let name = plain(name);
        // Without what all rivals' names begin with.
        let bare = name.strip_prefix("rival-").unwrap_or(&name);
        let apart = changes(&text, &name).min(changes(&text, bare) + 1);
        // A third of the letters may differ.
        (apart <= bare.chars().count().max(3) / 3 || text == bare).then_some(apart)
    };
    let scored = names.into_iter().filter_map(|name| Some((score(name)?, name)));
    scored.min_by_key(|(apart, _)| *apart).map(|(_, name)| name)
}

/// Letters to add, leave out or replace to make one text of the other.
fn changes(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut left = row + 1;
        let mut line = vec![left];
        for (column, want) in other.iter().enumerate() {
            left = (left + 1).min(above[column + 1] + 1).min(above[column] + usize::from(letter != *want));
            line.push(left);
        }
        above = line;
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let names = ["predictive", "least_request", "least_work", "rival-least-request", "rival-p2c"];
        let near = |text| nearest(text, names);
        assert_eq!(near("predictve"), Some("predictive"));
        assert_eq!(near("Least-Request"), Some("least_request"));
        assert_eq!(near("p2c"), Some("rival-p2c"));
        assert_eq!(near("rival-leastrequest"), Some("rival-least-request"));
        assert_eq!(near("fastest"), None);
        assert_eq!(near(""), None);
        assert_eq!((changes("kitten", "sitting"), changes("", "ab"), changes("ab", "")), (3, 2, 2));
    }
}
