//! What must hold for every event stream.

use bytes::Bytes;
use forebay_wire::sse::{Dialect, ModelEditor, Watcher, rewrite_model_json};
use forebay_wire::usage::usage_from_json;

/// Panics when a watcher or an editor of `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    // Every split point, thinned out where the square of the length would take long.
    let splits = || (0..data.len()).step_by(1 + data.len() * data.len() / 4_000_000);
    for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic] {
        let whole = watch(dialect, [data]);
        for step in [1, 2, 3, 7, 64] {
            assert_eq!(watch(dialect, data.chunks(step)), whole, "{dialect:?} in steps of {step}");
        }
        for at in splits() {
            assert_eq!(watch(dialect, [&data[..at], &data[at..]]), whole, "{dialect:?} at {at}");
        }
    }
    let whole = edit([data]);
    for step in [1, 2, 3, 7, 64] {
        assert!(edit(data.chunks(step)) == whole, "edited in steps of {step}");
    }
    for at in splits() {
        assert!(edit([&data[..at], &data[at..]]) == whole, "edited at {at}");
    }
    assert!(edit([&whole[..]]) == whole, "an edited stream has nothing left to edit");
    let _ = usage_from_json(data);
    let _ = rewrite_model_json(data, "new");
}

type Told = (u64, u64, bool, bool, bool, u64, Option<forebay_core::Usage>);

fn watch<'a>(dialect: Dialect, pieces: impl IntoIterator<Item = &'a [u8]>) -> Told {
    let mut w = Watcher::new(dialect);
    pieces.into_iter().for_each(|piece| w.feed(piece));
    w.finish();
    assert!(w.tokens() <= w.events());
    (w.events(), w.tokens(), w.saw_data(), w.done(), w.error(), w.finish_reasons_seen(), w.usage())
}

fn edit<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut editor = ModelEditor::new("a \"new\" name");
    let mut out = vec![];
    pieces.into_iter().for_each(|piece| editor.feed(Bytes::copy_from_slice(piece), &mut out));
    editor.finish(&mut out);
    out.concat()
}
