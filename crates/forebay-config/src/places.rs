//! Where each field stands in the file.
//!
//! The text is read once more, into a bare tree with positions, so that the typed
//! structures need not carry a position in every field.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::error::moves_the_terminal;

/// A line and a column, both from 1.
pub(crate) type Position = (u32, u32);

/// What stands at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Nothing,
    Value,
    List,
    Mapping,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Nothing => "nothing",
            Shape::Value => "a single value",
            Shape::List => "a list",
            Shape::Mapping => "a mapping",
        })
    }
}

/// One field or list item of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// The name's position; list items and the file as a whole have none.
    pub(crate) key: Option<Position>,
    /// The value's position.
    pub(crate) value: Position,
    /// What the value is.
    pub(crate) shape: Shape,
}

/// Every path of the file, such as `pools[0].endpoints[1].url`; the whole file is "".
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<String, Spot>);

impl Places {
    /// Reads the positions; fails where the text is not YAML.
    pub(crate) fn read(text: &str, options: serde_saphyr::Options) -> Result<Places, serde_saphyr::Error> {
        let root: Spanned<Node> = serde_saphyr::from_str_with_options(text, options)?;
        let mut places = Places::default();
        places.add(String::new(), None, root);
        Ok(places)
    }

    fn add(&mut self, path: String, key: Option<Position>, node: Spanned<Node>) {
        let shape = match &node.value {
            Node::Nothing => Shape::Nothing,
            Node::Value => Shape::Value,
            Node::List(_) => Shape::List,
            Node::Mapping(_) => Shape::Mapping,
        };
        let spot = Spot { key, value: position(node.referenced), shape };
        match node.value {
            Node::Nothing | Node::Value => {}
            Node::List(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    self.add(format!("{path}[{index}]"), None, item);
                }
            }
            Node::Mapping(fields) => {
                for (name, value) in fields {
                    let key = Some(position(name.referenced));
                    self.add(join(&path, &printable(&name.value)), key, value);
                }
            }
        }
        self.0.insert(path, spot);
    }

    /// What stands at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<Spot> {
        self.0.get(path).copied()
    }

    /// Where to point for an error about `path`: a value's own position, a section's
    /// name, and for a field that is not there, what it is missing from.
    pub(crate) fn point(&self, path: &str) -> Position {
        let mut path = path;
        loop {
            if let Some(spot) = self.get(path) {
                return match spot.shape {
                    Shape::Value => spot.value,
                    _ => spot.key.unwrap_or(spot.value),
                };
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None if path.is_empty() => return (1, 1),
                None => path = "",
            }
        }
    }

    /// The path whose name stands at this position.
    pub(crate) fn path_of_key(&self, at: Position) -> Option<&str> {
        self.0.iter().find(|(_, spot)| spot.key == Some(at)).map(|(path, _)| path.as_str())
    }

    /// The path whose value stands at this position.
    pub(crate) fn path_of_value(&self, at: Position) -> Option<&str> {
        self.0.iter().find(|(path, spot)| !path.is_empty() && spot.value == at).map(|(path, _)| path.as_str())
    }
}

/// A name that is safe to print; the names of real fields are so already.
pub(crate) fn printable(name: &str) -> String {
    name.chars().map(|c| if moves_the_terminal(c) { '\u{FFFD}' } else { c }).collect()
}

/// The path of a field of `parent`.
pub(crate) fn join(parent: &str, field: &str) -> String {
    if parent.is_empty() { field.to_owned() } else { format!("{parent}.{field}") }
}

pub(crate) fn position(location: Location) -> Position {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    (narrow(location.line()), narrow(location.column()))
}

/// A YAML node, its scalar's text forgotten.
enum Node {
    Nothing,
    Value,
    List(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Value)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = map.next_entry()? {
            fields.push(entry);
        }
        Ok(Node::Mapping(fields))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, data: A) -> Result<Node, A::Error> {
        let _ = data.variant::<IgnoredAny>()?;
        Err(A::Error::custom("a tag that is not supported here"))
    }
}
