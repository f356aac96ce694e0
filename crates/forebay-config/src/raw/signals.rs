//! `signals`: any metric under a name of the user's own.

use std::borrow::Cow;
use std::fmt;

use forebay_wire::signals::{Combine, MAX_CUSTOM};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Field;
use crate::kinds::{Line, Metric, Word};
use crate::scalar::{Kind, Scalar};
use crate::schema::order;

/// A mapping whose names are the user's, in the file's order.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) Vec<(String, T)>);

/// One signal, short or long.
#[derive(Debug)]
pub(crate) enum RawSignal {
    Nothing,
    List,
    Metric(Scalar<Metric>),
    Mapping(RawSignalMapping),
}

/// One signal of your own.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Signal", transform = order::<RawSignalMapping>)]
pub(crate) struct RawSignalMapping {
    /// The metric as the page has it, such as `my_queue_depth`. Alone, it can stand in place of
    /// this mapping.
    #[schemars(required)]
    pub(crate) metric: Field<Metric>,

    /// Labels that a line must carry, with these values. Other labels do not matter.
    pub(crate) labels: Option<Named<Scalar<Line>>>,

    /// How several lines become one number.
    #[schemars(extend("default" = "sum"))]
    pub(crate) combine: Field<Word<Combine>>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor(std::marker::PhantomData))
    }
}

struct NamedVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
    type Value = Named<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping (lines of NAME: VALUE)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = map.next_entry()? {
            items.push(item);
        }
        Ok(Named(items))
    }
}

impl<K: Kind> JsonSchema for Named<Scalar<K>> {
    fn schema_name() -> Cow<'static, str> {
        "Named".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<Scalar<K>>();
        json_schema!({
            "type": "object",
            "additionalProperties": value,
            "x-kind": format!("mapping of names to {}", K::describe()),
        })
    }
}

impl JsonSchema for Named<RawSignal> {
    fn schema_name() -> Cow<'static, str> {
        "Signals".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let short = generator.subschema_for::<Scalar<Metric>>();
        let long = generator.subschema_for::<RawSignalMapping>();
        json_schema!({
            "type": "object",
            "additionalProperties": { "anyOf": [short, long] },
            "maxProperties": MAX_CUSTOM,
            "x-kind": format!("mapping of up to {MAX_CUSTOM} names to a metric's name or a mapping"),
        })
    }
}

impl<'de> Deserialize<'de> for RawSignal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SignalVisitor)
    }
}

/// Reads one signal; numbers are texts that `Metric` will complain about.
struct SignalVisitor;

fn short<T: fmt::Display>(text: T) -> RawSignal {
    RawSignal::Metric(Scalar::new(text.to_string()))
}

impl<'de> Visitor<'de> for SignalVisitor {
    type Value = RawSignal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metric's name or a mapping with `metric`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawSignal, E> {
        Ok(short(text))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RawSignal, E> {
        Ok(short(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RawSignal, E> {
        Ok(short(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<RawSignal, E> {
        Ok(short(number))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<RawSignal, E> {
        Ok(short(flag))
    }

    fn visit_unit<E: Error>(self) -> Result<RawSignal, E> {
        Ok(RawSignal::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawSignal, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(RawSignal::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawSignal, A::Error> {
        Deserialize::deserialize(MapAccessDeserializer::new(map)).map(RawSignal::Mapping)
    }
}
