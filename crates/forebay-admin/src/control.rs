//! What can be changed while running.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use crate::error::ApiError;
use crate::model::{EndpointStatus, PoolStatus};

/// Who carries out what an operator asks for.
///
/// The calls come from the control plane's tasks, must not block, and change
/// all that is asked for or nothing.
pub trait FleetControl: Send + Sync + 'static {
    /// Changes an endpoint, named as [`EndpointStatus::id`] names it.
    ///
    /// # Errors
    /// There is no such endpoint, or the change cannot be made.
    fn patch_endpoint(&self, id: &str, patch: &EndpointPatch) -> Result<EndpointStatus, ControlError>;

    /// Changes how a pool decides. Waiting requests keep their place.
    ///
    /// # Errors
    /// There is no such pool, or a word means nothing.
    fn patch_pool(&self, name: &str, patch: &PoolPatch) -> Result<PoolStatus, ControlError>;
}

/// A change to an endpoint; what is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointPatch {
    /// What the operator wants of it.
    pub state: Option<OperatorState>,
    /// Its relative capacity, above 0.
    pub weight: Option<f64>,
}

/// What an operator can want of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorState {
    /// It serves as its probes say.
    Ready,
    /// It gets nothing new and keeps what it has.
    Draining,
    /// The same, and it is not probed.
    Disabled,
}

impl OperatorState {
    /// Every state.
    pub const ALL: [OperatorState; 3] =
        [OperatorState::Ready, OperatorState::Draining, OperatorState::Disabled];

    /// The word in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            OperatorState::Ready => "ready",
            OperatorState::Draining => "draining",
            OperatorState::Disabled => "disabled",
        }
    }
}

/// A change to how a pool decides; what is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolPatch {
    /// The name of the policy.
    pub policy: Option<String>,
    /// The name of the profile.
    pub profile: Option<String>,
    /// The name of the shadow policy, or `Some(None)` to have none.
    pub shadow_policy: Option<Option<String>>,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is no endpoint or pool with that name.
    #[error("it does not exist")]
    Unknown,
    /// A field has a value that means nothing.
    #[error("{field} is not one of {}", allowed.join(", "))]
    Invalid {
        /// Which field.
        field: &'static str,
        /// What it may be.
        allowed: Vec<&'static str>,
    },
}

/// Bounds of a weight, as in the configuration.
const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEndpoint {
    #[serde(default, deserialize_with = "present")]
    state: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    weight: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPool {
    #[serde(default, deserialize_with = "present")]
    policy: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    profile: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    shadow_policy: Option<Value>,
}

/// Tells `null` from an absent field.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Reads the body of `PATCH /api/v1/endpoints/{id}`.
pub(crate) fn endpoint_patch(body: &[u8]) -> Result<EndpointPatch, ApiError> {
    let raw: RawEndpoint = read(body)?;
    let state = raw.state.map(|value| {
        let word = value.as_str();
        let known = OperatorState::ALL.into_iter().find(|state| Some(state.as_str()) == word);
        known.ok_or_else(|| {
            let allowed: Vec<&str> = OperatorState::ALL.iter().map(|state| state.as_str()).collect();
            ApiError::field("state", format!("must be one of {}, not {value}", allowed.join(", ")))
        })
    });
    let weight = raw.weight.map(|value| {
        let number = value.as_f64().filter(|number| WEIGHTS.contains(number));
        number.ok_or_else(|| {
            ApiError::field("weight", format!("must be a number from 0.000001 to 1000000, not {value}"))
        })
    });
    let patch = EndpointPatch { state: state.transpose()?, weight: weight.transpose()? };
    if patch == EndpointPatch::default() {
        return Err(ApiError::body("nothing is to be changed: give state or weight".to_owned()));
    }
    Ok(patch)
}

/// Reads the body of `PATCH /api/v1/pools/{name}`.
pub(crate) fn pool_patch(body: &[u8]) -> Result<PoolPatch, ApiError> {
    let raw: RawPool = read(body)?;
    let word = |field: &'static str, value: Option<Value>| match value {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word)),
        Some(other) => Err(ApiError::field(field, format!("must be a name, not {other}"))),
    };
    let shadow_policy = match raw.shadow_policy {
        Some(Value::Null) => Some(None),
        other => word("shadow_policy", other)?.map(Some),
    };
    let patch = PoolPatch {
        policy: word("policy", raw.policy)?,
        profile: word("profile", raw.profile)?,
        shadow_policy,
    };
    if patch == PoolPatch::default() {
        return Err(ApiError::body(
            "nothing is to be changed: give policy, profile or shadow_policy".to_owned(),
        ));
    }
    Ok(patch)
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::body(format!("the body cannot be read: {error}")))
}
