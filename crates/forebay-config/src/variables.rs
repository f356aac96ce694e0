//! `${NAME}`: values from the environment, looked up by the caller.

/// Finds an environment variable's value.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A text with its variables put in.
pub(crate) struct Expanded {
    /// What the text means.
    pub(crate) text: String,
    /// Whether any of it came from the environment and must not be shown.
    pub(crate) secret: bool,
}

/// Puts the variables of `written` in. `$${` stands for a plain `${`. The value of a
/// variable is not searched for further variables.
pub(crate) fn expand(written: &str, lookup: Lookup<'_>) -> Result<Expanded, String> {
    let mut expanded = Expanded { text: String::with_capacity(written.len()), secret: false };
    let mut rest = written;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.text.push_str(before);
            expanded.text.push_str("${");
            rest = after;
            continue;
        }
        expanded.text.push_str(before);
        let Some((name, tail)) = after.split_once('}') else {
            return Err("has a ${ without its }; write $${ for a plain ${".to_owned());
        };
        if !is_name(name) {
            return Err(
                "needs the name of an environment variable between ${ and }: letters, digits and _, \
                        no default value; write $${ for a plain ${"
                    .to_owned(),
            );
        }
        let value =
            lookup(name).ok_or_else(|| format!("uses the environment variable {name}, which is not set"))?;
        expanded.text.push_str(&value);
        expanded.secret = true;
        rest = tail;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
