//! What a pool's policy is given to decide by.

use forebay_gate::{OrcaConfig, SlowStart};
use forebay_wire::signals::{Combine, CustomSignal, MAX_CUSTOM};

use super::Resolver;
use crate::error::quote;
use crate::kinds::{label_name_problem, signal_name_problem};
use crate::places::{join, printable};
use crate::raw::{Named, RawOrca, RawRule, RawScrape, RawSignal, RawSlowStart, RawWarmUp};
use crate::routing::{NamedSignal, Orca, Rule, Scrape, WarmUp};

impl Resolver<'_> {
    /// Reads a rule and compiles it once for its errors; the names in it are those
    /// of the pool's signals.
    pub(super) fn rule(
        &mut self,
        raw: Option<&RawRule>,
        signals: Option<&Named<RawSignal>>,
        path: &str,
    ) -> Option<Rule> {
        let raw = raw?;
        if raw.filter.is_none() && raw.cost_ms.is_none() {
            self.error(path, "has neither filter nor cost_ms".to_owned());
        }
        let rule = Rule {
            filter: self.optional(&raw.filter, path, "filter"),
            cost_ms: self.optional(&raw.cost_ms, path, "cost_ms"),
        };
        let signals: Vec<&str> =
            signals.iter().flat_map(|signals| &signals.0).map(|(name, _)| &**name).collect();
        let parts = [
            (raw.filter.as_ref(), rule.filter.as_deref(), None),
            (raw.cost_ms.as_ref(), None, rule.cost_ms.as_deref()),
        ];
        for (written, filter, cost_ms) in parts {
            let Err(error) = forebay_rule::Rule::compile(filter, cost_ms, &signals) else { continue };
            let path = join(path, error.part.as_str());
            match written {
                // What is wrong with signals is said where they are.
                _ if error.part == forebay_rule::Part::Signals => {}
                Some(written) if written.text.contains("${") => {
                    let message = "does not compile; what is wrong is not shown, as it has variables in it";
                    self.error(&path, message.to_owned());
                }
                _ => self.error(&path, error.reason().to_string()),
            }
        }
        Some(rule)
    }

    pub(super) fn slow_start(&mut self, raw: Option<&RawSlowStart>, path: &str) -> SlowStart {
        let base = SlowStart::default();
        let Some(raw) = raw else { return base };
        SlowStart {
            window: self.field(&raw.window, path, "window", base.window),
            aggression: self.field(&raw.aggression, path, "aggression", base.aggression),
            floor: self.field(&raw.floor, path, "floor", base.floor),
        }
    }

    pub(super) fn warm_up(&mut self, raw: Option<&RawWarmUp>, path: &str) -> WarmUp {
        let base = WarmUp::default();
        let Some(raw) = raw else { return base };
        WarmUp {
            requests: self.count(&raw.requests, path, "requests", base.requests),
            concurrency: self.count(&raw.concurrency, path, "concurrency", base.concurrency),
        }
    }

    pub(super) fn scrape(&mut self, raw: Option<&RawScrape>, path: &str) -> Scrape {
        let base = Scrape::default();
        let Some(raw) = raw else { return base };
        let scrape = Scrape {
            enabled: self.field(&raw.enabled, path, "enabled", base.enabled),
            interval_min: self.field(&raw.interval_min, path, "interval_min", base.interval_min),
            interval_max: self.field(&raw.interval_max, path, "interval_max", base.interval_max),
            timeout: self.field(&raw.timeout, path, "timeout", base.timeout),
            models_interval: self.field(&raw.models_interval, path, "models_interval", base.models_interval),
        };
        if scrape.interval_max < scrape.interval_min {
            let (name, other) = match &raw.interval_max {
                Some(_) => ("interval_max", "interval_min"),
                None => ("interval_min", "interval_max"),
            };
            let other = join(path, other);
            let both = raw.interval_max.is_some() && raw.interval_min.is_some();
            let also: &[(&str, &str)] = if both { &[(&other, "set here")] } else { &[] };
            let (min, max) = (raw.interval_min.as_ref(), raw.interval_max.as_ref());
            let min = min.map_or("the default 100ms".to_owned(), |written| quote(&written.text));
            let max = max.map_or("the default 5s".to_owned(), |written| quote(&written.text));
            let message = format!("interval_max ({max}) is shorter than interval_min ({min})");
            self.error_with(&join(path, name), message, also);
        }
        scrape
    }

    pub(super) fn orca(&mut self, raw: Option<&RawOrca>, path: &str) -> Orca {
        let base = OrcaConfig::default();
        let Some(raw) = raw else { return Orca::default() };
        let metrics = raw.metrics.as_deref().unwrap_or_default().iter().enumerate();
        Orca {
            ask: self.field(&raw.ask, path, "ask", Default::default()),
            metrics: metrics
                .filter_map(|(index, metric)| self.scalar(metric, &format!("{path}.metrics[{index}]")))
                .collect(),
            weights: OrcaConfig {
                blackout_period: self.field(
                    &raw.blackout_period,
                    path,
                    "blackout_period",
                    base.blackout_period,
                ),
                weight_expiration_period: self.field(
                    &raw.weight_expiration_period,
                    path,
                    "weight_expiration_period",
                    base.weight_expiration_period,
                ),
                weight_update_period: self.field(
                    &raw.weight_update_period,
                    path,
                    "weight_update_period",
                    base.weight_update_period,
                ),
                error_utilization_penalty: self.field(
                    &raw.error_utilization_penalty,
                    path,
                    "error_utilization_penalty",
                    base.error_utilization_penalty,
                ),
            },
        }
    }

    pub(super) fn signals(&mut self, raw: Option<&Named<RawSignal>>, path: &str) -> Vec<NamedSignal> {
        let Some(Named(raw)) = raw else { return Vec::new() };
        if raw.len() > MAX_CUSTOM {
            let message = format!("has {} signals; at most {MAX_CUSTOM} are read", raw.len());
            self.error(path, message);
        }
        let mut signals = Vec::new();
        for (name, raw) in raw {
            let path = join(path, &printable(name));
            if let Some(problem) = signal_name_problem(name) {
                self.error_at_name(&path, format!("{} {problem}", quote(name)));
            }
            let signal = self.signal(raw, &path);
            signals.push(NamedSignal { name: name.clone(), signal });
        }
        signals
    }

    fn signal(&mut self, raw: &RawSignal, path: &str) -> CustomSignal {
        let raw = match raw {
            RawSignal::Nothing | RawSignal::List => {
                let found = if matches!(raw, RawSignal::List) { "is a list" } else { "has no value" };
                self.error(path, format!("{found}; write a metric's name, or a mapping with metric"));
                return CustomSignal {
                    metric: String::new(),
                    labels: Vec::new(),
                    combine: Combine::default(),
                };
            }
            RawSignal::Metric(metric) => {
                let metric = self.scalar(metric, path).unwrap_or_default();
                return CustomSignal { metric, labels: Vec::new(), combine: Combine::default() };
            }
            RawSignal::Mapping(raw) => raw,
        };
        let metric = self.required(&raw.metric, path, "metric").unwrap_or_default();
        let combine = self.field(&raw.combine, path, "combine", Combine::default());
        let mut labels = Vec::new();
        for (name, value) in raw.labels.iter().flat_map(|labels| &labels.0) {
            let path = join(&join(path, "labels"), &printable(name));
            if let Some(problem) = label_name_problem(name) {
                self.error_at_name(&path, format!("{} {problem}", quote(name)));
            }
            labels.push((name.clone(), self.scalar(value, &path).unwrap_or_default()));
        }
        CustomSignal { metric, labels, combine }
    }
}
