//! Who serves which model name, and the aliases.

use std::collections::BTreeMap;

use super::Resolver;
use crate::config::{ModelAlias, Target};
use crate::error::quote;
use crate::kinds::Name;
use crate::places::join;
use crate::pool::Pool;
use crate::raw::{RawModel, RawPool, RawTarget};
use crate::scalar::{Scalar, nearest};
use crate::variables::expand;

/// Every name that clients can ask for so far.
#[derive(Default)]
pub(super) struct Names {
    claims: BTreeMap<String, Claim>,
    /// By a pool's path: its endpoints' versions, each with how it is written.
    versions: BTreeMap<String, BTreeMap<String, String>>,
}

/// Who has a name.
struct Claim {
    /// The field that gives it.
    path: String,
    /// The pool, as its path and as its name in messages; `None` for aliases.
    pool: Option<(String, String)>,
    /// The name as written: it may be a variable, whose value must not be shown.
    written: String,
}

impl Resolver<'_> {
    /// Notes a pool's model and adapters; each name belongs to one pool.
    pub(super) fn claim_models(&mut self, raw: &RawPool, pool: &Pool, path: &str, names: &mut Names) {
        let adapters = raw.adapters.as_deref().unwrap_or_default();
        let pool_path = path;
        let model = raw.model.iter().map(|written| (join(path, "model"), written, &pool.model));
        let adapters = adapters
            .iter()
            .zip(&pool.adapters)
            .enumerate()
            .map(|(index, (written, name))| (format!("{path}.adapters[{index}]"), written, name));
        let written = raw.endpoints.iter().flatten().filter_map(|endpoint| endpoint.version.as_ref());
        let versions = names.versions.entry(path.to_owned()).or_default();
        for written in written {
            // One that cannot be read has had its error.
            if let Ok(version) = expand(&written.text, self.lookup) {
                versions.entry(version.text).or_insert_with(|| written.text.clone());
            }
        }
        let shown_pool = raw.name.as_ref().map_or_else(|| path.to_owned(), |name| quote(&name.text));
        for (path, written, name) in model.chain(adapters) {
            if name.is_empty() {
                continue;
            }
            let written = written.text.clone();
            let claim = Claim { path, pool: Some((pool_path.to_owned(), shown_pool.clone())), written };
            let Some(first) = names.claims.get(name) else {
                names.claims.insert(name.clone(), claim);
                continue;
            };
            let shown = quote(&claim.written);
            let message = match &first.pool {
                Some((other, _)) if other == pool_path => {
                    format!("{shown} is already a model or adapter of this pool")
                }
                Some((_, other)) => format!(
                    "{shown} is served by pool {other} and by pool {shown_pool}; put all its endpoints into one \
                     pool, or give each pool its own model name and join them under `models`"
                ),
                None => format!("{shown} is already an alias"),
            };
            let first = first.path.clone();
            self.error_with(&claim.path, message, &[(&first, "the first one")]);
        }
    }

    pub(super) fn models(&mut self, raw: &[RawModel], names: &mut Names) -> Vec<ModelAlias> {
        let mut aliases = BTreeMap::new();
        let mut models = Vec::new();
        // All names first: an alias must not point to another alias, wherever that stands.
        for (index, raw) in raw.iter().enumerate() {
            let path = format!("models[{index}]");
            let name = self.required(&raw.name, &path, "name").unwrap_or_default();
            let written = raw.name.as_ref().map(|name| name.text.clone()).unwrap_or_default();
            let path = join(&path, "name");
            let taken =
                names.claims.get(&name).or_else(|| aliases.get(&name)).map(|first| match &first.pool {
                    Some((_, pool)) => (
                        first.path.clone(),
                        format!("hides a model or adapter of pool {pool}; choose another name"),
                    ),
                    None => (first.path.clone(), "is an alias twice".to_owned()),
                });
            if let Some((first, problem)) = taken {
                self.error_with(
                    &path,
                    format!("{} {problem}", quote(&written)),
                    &[(&first, "the first one")],
                );
            } else if !name.is_empty() {
                aliases.insert(name.clone(), Claim { path, pool: None, written });
            }
            models.push(ModelAlias { name, targets: Vec::new() });
        }
        for (index, (raw, model)) in raw.iter().zip(&mut models).enumerate() {
            model.targets = self.targets(raw, &format!("models[{index}]"), names, &aliases);
        }
        models
    }

    fn targets(
        &mut self,
        raw: &RawModel,
        path: &str,
        names: &Names,
        aliases: &BTreeMap<String, Claim>,
    ) -> Vec<Target> {
        let list = raw.targets.as_deref().unwrap_or_default();
        match (&raw.target, &raw.targets) {
            (None, None) => self.error(path, "has neither target nor targets".to_owned()),
            (None, Some(list)) if list.is_empty() => {
                self.error(&join(path, "targets"), "the list is empty; name at least one model".to_owned());
            }
            (Some(_), Some(_)) => {
                self.error(path, "has both target and targets; use one of them".to_owned());
                return Vec::new();
            }
            _ => {}
        }
        let mut targets = Vec::new();
        if let Some(model) = self.optional(&raw.target, path, "target") {
            let written = raw.target.as_ref().map(|target| target.text.as_str()).unwrap_or_default();
            self.check_target(&model, written, &join(path, "target"), names, aliases);
            targets.push(Target { model, version: None, weight: 1.0 });
        }
        for (index, raw) in list.iter().enumerate() {
            let path = format!("{path}.targets[{index}]");
            let RawTarget { model: written, version: written_version, weight } = raw;
            let model = self.required(written, &path, "model").unwrap_or_default();
            let version = self.optional(written_version, &path, "version");
            let weight = self.field(weight, &path, "weight", 1.0);
            let (path, version_path) = (join(&path, "model"), join(&path, "version"));
            let written = written.as_ref().map(|model| model.text.as_str()).unwrap_or_default();
            let same = |target: &Target| target.model == model && target.version == version;
            if targets.iter().any(same) && !model.is_empty() {
                self.error(&path, format!("{} is a target twice; add the weights", quote(written)));
            } else if !model.is_empty() {
                self.check_target(&model, written, &path, names, aliases);
            }
            if let (Some(version), Some(written)) = (&version, written_version) {
                self.check_version(&model, version, written, &version_path, names);
            }
            targets.push(Target { model, version, weight });
        }
        if !targets.is_empty() && targets.iter().all(|target| target.weight == 0.0) {
            let message = "every weight is 0; at least one must be above 0";
            self.error(&join(path, "targets"), message.to_owned());
        }
        targets
    }

    /// Checks that some endpoint of the target's pool has the version.
    fn check_version(
        &mut self,
        model: &str,
        version: &str,
        written: &Scalar<Name>,
        path: &str,
        names: &Names,
    ) {
        let Some((pool_path, pool)) = names.claims.get(model).and_then(|claim| claim.pool.as_ref()) else {
            return;
        };
        let Some(versions) = names.versions.get(pool_path).filter(|all| !all.contains_key(version)) else {
            return;
        };
        let plain = |text: &str| !text.contains("${");
        let known: Vec<&str> = versions.values().map(String::as_str).filter(|text| plain(text)).collect();
        let guess = match nearest(version, known.iter().copied()).filter(|_| plain(&written.text)) {
            Some(near) => format!("; did you mean {}?", quote(near)),
            None => String::new(),
        };
        let shown = quote(&written.text);
        self.error(path, format!("no endpoint of pool {pool} has the version {shown}{guess}"));
    }

    /// Checks that a target is a model or adapter.
    fn check_target(
        &mut self,
        model: &str,
        written: &str,
        path: &str,
        names: &Names,
        aliases: &BTreeMap<String, Claim>,
    ) {
        if names.claims.contains_key(model) {
            return;
        }
        let shown = quote(written);
        if let Some(alias) = aliases.get(model) {
            let alias = alias.path.clone();
            let message = format!("{shown} is itself an alias; name the model that it stands for");
            return self.error_with(path, message, &[(&alias, "the alias")]);
        }
        // Names that come from the environment are neither guessed at nor offered.
        let plain = |text: &str| !text.contains("${");
        let known: Vec<&str> =
            names.claims.values().map(|claim| claim.written.as_str()).filter(|name| plain(name)).collect();
        let guess = match nearest(model, known.iter().copied()).filter(|_| plain(written)) {
            Some(near) => format!("; did you mean {}?", quote(near)),
            None => String::new(),
        };
        self.error(path, format!("no pool serves {shown}{guess}"));
    }
}
