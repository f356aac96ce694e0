//! The same expressions through the interpreter of the `cel` crate: a value
//! that it gives is ours, and where it fails ours is unknown.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelBool, CelDouble, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::{Context, Value};
use proptest::prelude::*;

use crate::check::{Scope, cost, filter};
use crate::values::Values;
use crate::{EndpointVars, RequestVars};

struct Resolver<'a>(Values<'a>);

impl VariableResolver for Resolver<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let entry = crate::variables::TABLE.iter().find(|entry| entry.name == name)?;
        Some(match entry.kind {
            crate::variables::Kind::Number => CowVal::owned(CelDouble::from(self.0.number(entry.variable)?)),
            crate::variables::Kind::Flag => CowVal::owned(CelBool::from(self.0.flag(entry.variable)?)),
            crate::variables::Kind::Text => CowVal::owned(CelString::from(self.0.text(entry.variable))),
        })
    }
}

/// Every number is a double.
fn to_doubles(at: &mut IdedExpr) {
    match &mut at.expr {
        Expr::Literal(literal) => {
            if let LiteralValue::Int(value) = literal {
                *literal = LiteralValue::Double(CelDouble::from(*value.inner() as f64));
            }
        }
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).for_each(to_doubles),
        Expr::List(list) => list.elements.iter_mut().for_each(to_doubles),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| {
            if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                to_doubles(&mut entry.value);
            }
        }),
        _ => {}
    }
}

fn of_cel(text: &str, values: Values<'_>) -> Option<Value> {
    let mut tree = cel::parser::Parser::new().parse(text).unwrap();
    to_doubles(&mut tree);
    let resolver = Resolver(values);
    let mut context = Context::default();
    context.set_variable_resolver(&resolver);
    Value::resolve(&tree, &context).ok()
}

fn number() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        (0..6).prop_map(|n: i32| n.to_string()),
        prop::sample::select(vec!["0.5", "1.0", "running", "waiting", "kv_usage", "in_flight", "priority"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["+", "-", "*", "/"]), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            inner.clone().prop_map(|a| format!("(-{a})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} < {b} ? {b} : {c})")),
        ]
    })
    .boxed()
}

fn flag() -> BoxedStrategy<String> {
    let text = || prop::sample::select(vec!["zone", "model", "\"a\"", "'ab'", "''"]);
    let compare = || prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let leaf = prop_oneof![
        prop::sample::select(vec!["true", "false", "stream", "gpu_throttled"]).prop_map(str::to_owned),
        (number(), compare(), number()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        (text(), compare(), text()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        (text(), prop::sample::select(vec!["startsWith", "endsWith", "contains"]), text())
            .prop_map(|(a, test, b)| format!("{a}.{test}({b})")),
        (number(), number(), number()).prop_map(|(a, b, c)| format!("({a} in [{b}, {c}])")),
        (text(), text(), text()).prop_map(|(a, b, c)| format!("({a} in [{b}, {c}])")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["&&", "||", "==", "!="]), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            inner.clone().prop_map(|a| format!("!{a}")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
    .boxed()
}

fn figure() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop::sample::select(vec![0.0, 0.5, 1.0, 2.0, 3.0]))
}

proptest! {
    #[test]
    fn values_are_those_of_cel(
        flag in flag(),
        number in number(),
        figures in [figure(), figure(), figure()],
        throttled in prop::option::of(any::<bool>()),
        stream in any::<bool>(),
        zone in prop::sample::select(vec!["", "a", "ab"]),
    ) {
        let endpoint = EndpointVars {
            running: figures[0], waiting: figures[1], kv_usage: figures[2],
            gpu_throttled: throttled, zone, in_flight: 2.0, ..EndpointVars::default()
        };
        let request = RequestVars { stream, model: "ab", priority: 1.0, ..RequestVars::default() };
        let values = Values { request: &request, endpoint: &endpoint };
        let mut scope = Scope::new(&[]);
        let ours = filter(&flag, &mut scope).unwrap().value(&values);
        prop_assert_eq!(ours.map(Value::Bool), of_cel(&flag, values), "{}", flag);
        let ours = cost(&number, &mut scope).unwrap().value(&values);
        match (ours, of_cel(&number, values)) {
            (Some(ours), Some(Value::Float(theirs))) => {
                prop_assert!(ours == theirs || ours.is_nan() && theirs.is_nan(), "{}: {} {}", number, ours, theirs);
            }
            (ours, theirs) => prop_assert!(ours.is_none() && theirs.is_none(), "{}: {:?} {:?}", number, ours, theirs),
        }
    }

    /// Whatever is written there, an answer comes back.
    #[test]
    fn no_text_is_too_much(text in "[a-z0-9 ().,+*/<>=&|!?:'\"\\[\\]{}%`\\\\\n-]{0,60}", any in any::<String>()) {
        for text in [text, any] {
            let _ = crate::Rule::compile(Some(&text), Some(&text), &["a", "b"]);
        }
    }

    #[test]
    fn pieces_of_the_language_in_any_order_are_no_trouble(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "waiting", "zone", "1", "2.5", "'a'", "(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "&&", "||",
            "!", "-", "+", "*", "/", "%", "<", "<=", "==", "in", "known", "min", "value_or", "has", "null", "true",
            "0x", "1e9", "1u", "b''", "r'a'", "\"", "'''", "//", "`a`", ".?", "[?", " ", "\n",
        ]), 0..40),
    ) {
        let text = pieces.concat();
        let _ = crate::Rule::compile(Some(&text), Some(&pieces.join(" ")), &["a"]);
    }
}
