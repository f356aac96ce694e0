//! The configuration files that tests start the gateway with.

/// A configuration under construction: one pool unless the test adds more.
#[derive(Clone, Debug)]
pub struct Config {
    listen: String,
    pools: Vec<String>,
    extra: String,
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}

impl Config {
    /// Free ports of the loopback, no pool yet.
    pub fn new() -> Config {
        Config { listen: "listen: 127.0.0.1:0".to_string(), pools: Vec::new(), extra: String::new() }
    }

    /// One pool `chat` that serves `tide-7b` from these endpoints in turn.
    pub fn chat<'a>(urls: impl IntoIterator<Item = &'a str>) -> Config {
        Config::new().pool("chat", "tide-7b", urls, "policy: round_robin")
    }

    /// Adds a pool; `fields` are its further fields, one a line.
    pub fn pool<'a>(
        self,
        name: &str,
        model: &str,
        urls: impl IntoIterator<Item = &'a str>,
        fields: &str,
    ) -> Config {
        self.pool_of(name, model, urls.into_iter().map(|url| (url, "")), fields)
    }

    /// As [`Config::pool`]; each endpoint with further fields of its own, such as `version: a, weight: 2`.
    pub fn pool_of<'a>(
        mut self,
        name: &str,
        model: &str,
        endpoints: impl IntoIterator<Item = (&'a str, &'a str)>,
        fields: &str,
    ) -> Config {
        let mut text = format!("  - name: {name}\n    model: \"{model}\"\n");
        for line in fields.lines() {
            text += &format!("    {line}\n");
        }
        text += "    endpoints:\n";
        for (url, own) in endpoints {
            text += &format!("      - {{url: \"{url}\"");
            if !own.is_empty() {
                text += &format!(", {own}");
            }
            text += "}\n";
        }
        self.pools.push(text);
        self
    }

    /// Replaces the `listen` section.
    pub fn listen(mut self, yaml: &str) -> Config {
        self.listen = format!("listen: {yaml}");
        self
    }

    /// Adds top-level lines, such as `timeouts: {idle: 1s}`.
    pub fn with(mut self, yaml: &str) -> Config {
        self.extra += yaml.trim_end();
        self.extra.push('\n');
        self
    }

    /// The file's text.
    pub fn yaml(&self) -> String {
        format!(
            "version: 1\n{}\nadmin: 127.0.0.1:0\npools:\n{}{}",
            self.listen,
            self.pools.concat(),
            self.extra
        )
    }
}
