//! The JSON Schema of the file, from the types and doc comments of what the user writes.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

use crate::raw::RawConfig;

/// The JSON Schema (2020-12) of a configuration file.
///
/// Three keywords of its own serve the reference page: `x-kind` describes a value and its
/// range in words, `x-order` lists an object's fields in the order of the documentation,
/// and `default` is what an absent field means.
pub fn json_schema() -> serde_json::Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<RawConfig>();
    schema.insert("title".to_owned(), "Forebay configuration".into());
    let mut schema = schema.to_value();
    unwrap_descriptions(&mut schema);
    schema
}

/// Takes the line breaks of the source out of the descriptions; empty lines stay.
fn unwrap_descriptions(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    serde_json::Value::String(text) if name == "description" => {
                        let paragraphs: Vec<String> =
                            text.split("\n\n").map(|p| p.replace('\n', " ")).collect();
                        *text = paragraphs.join("\n\n");
                    }
                    _ => unwrap_descriptions(value),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(unwrap_descriptions),
        _ => {}
    }
}

/// Adds `x-order`: schemas sort their properties by name, people by meaning.
pub(crate) fn order<T: for<'de> Deserialize<'de> + JsonSchema>(schema: &mut Schema) {
    let names = field_names::<T>();
    schema.insert("x-order".to_owned(), names.iter().copied().collect());
}

/// The fields of a structure in the order of its declaration, as its derived
/// `Deserialize` names them.
fn field_names<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It always fails: it only listens to what the structure asks for.
    let _ = T::deserialize(Listening(&mut names));
    names
}

struct Listening<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Listening<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom(Silent))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom(Silent))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
