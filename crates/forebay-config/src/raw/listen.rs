//! `listen`: one address, a list of them, or mappings.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Field;
use crate::kinds::{Address, Flag};
use crate::scalar::Scalar;
use crate::schema::order;

/// Every listener, and whether the file has them as a list.
#[derive(Debug)]
pub(crate) struct RawListeners {
    pub(crate) items: Vec<RawListener>,
    pub(crate) is_list: bool,
}

/// One listener, short or long.
#[derive(Debug)]
pub(crate) enum RawListener {
    Address(Scalar<Address>),
    Mapping(RawListenerMapping),
}

/// An address that clients connect to, and how it behaves.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Listener", transform = order::<RawListenerMapping>)]
pub(crate) struct RawListenerMapping {
    /// The address to listen on. Port 0 takes any free port.
    #[schemars(required)]
    pub(crate) address: Field<Address>,

    /// Whether a client that has closed its sending side still waits for the answer. If not, end
    /// of input means that the client is gone, and its request is cancelled at once.
    #[schemars(extend("default" = false))]
    pub(crate) client_half_close: Field<Flag>,
}

impl<'de> Deserialize<'de> for RawListeners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ManyVisitor)
    }
}

impl<'de> Deserialize<'de> for RawListener {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneVisitor)
    }
}

impl JsonSchema for RawListeners {
    fn schema_name() -> Cow<'static, str> {
        "Listeners".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let short = generator.subschema_for::<Scalar<Address>>();
        let long = generator.subschema_for::<RawListenerMapping>();
        json_schema!({
            "anyOf": [short, long, { "type": "array", "items": { "anyOf": [short, long] }, "minItems": 1 }],
            "x-kind": "`ADDRESS:PORT`, mapping, or list of these",
        })
    }
}

/// Reads one listener; numbers are texts that `Address` will complain about.
struct OneVisitor;

fn short<T: fmt::Display>(text: T) -> RawListener {
    RawListener::Address(Scalar::new(text.to_string()))
}

impl<'de> Visitor<'de> for OneVisitor {
    type Value = RawListener;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address or a mapping with `address`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawListener, E> {
        Ok(short(text))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RawListener, E> {
        Ok(short(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RawListener, E> {
        Ok(short(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<RawListener, E> {
        Ok(short(number))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<RawListener, E> {
        Ok(short(flag))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawListener, A::Error> {
        Deserialize::deserialize(MapAccessDeserializer::new(map)).map(RawListener::Mapping)
    }
}

/// Reads one listener or a list of them.
struct ManyVisitor;

fn one(item: RawListener) -> RawListeners {
    RawListeners { items: vec![item], is_list: false }
}

impl<'de> Visitor<'de> for ManyVisitor {
    type Value = RawListeners;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address, a mapping with `address`, or a list of these")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawListeners, E> {
        OneVisitor.visit_str(text).map(one)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RawListeners, E> {
        OneVisitor.visit_u64(number).map(one)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RawListeners, E> {
        OneVisitor.visit_i64(number).map(one)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<RawListeners, E> {
        OneVisitor.visit_f64(number).map(one)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<RawListeners, E> {
        OneVisitor.visit_bool(flag).map(one)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawListeners, A::Error> {
        OneVisitor.visit_map(map).map(one)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawListeners, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(RawListeners { items, is_list: true })
    }
}
