use super::*;
use crate::Tokenizer;

fn template(jinja: &str) -> ChatTemplate {
    ChatTemplate::new(None, Some(jinja), TemplateOptions::default()).unwrap()
}

fn show(jinja: &str, body: &str) -> Result<String, RenderError> {
    template(jinja).render(body.as_bytes()).map(|prompt| prompt.text)
}

const ONE: &str = r#"{"messages":[{"role":"user","content":"x"}]}"#;

#[test]
fn templates_and_tokens_are_found_in_the_configuration() {
    let config = r#"{"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
        "extra_special_tokens": {"image_token": "<img>"},
        "chat_template": [{"name": "default", "template": "{{ bos_token }}D{{ pad_token is defined }}"},
                          {"name": "tool_use", "template": "{{ image_token }}T{{ tools|length }}"}, {"name": "other", "template": "{% x"}]}"#;
    let template = ChatTemplate::new(Some(config), None, TemplateOptions::default()).unwrap();
    let text = |body: &str| template.render(body.as_bytes()).unwrap().text;
    assert_eq!(text(ONE), "<s>DFalse");
    assert_eq!(
        text(
            r#"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#
        ),
        "<img>T1"
    );
    let plain = r#"{"chat_template": "{{ bos_token }}{{ messages[0].content }}"}"#;
    let plain = ChatTemplate::new(Some(plain), None, TemplateOptions::default()).unwrap();
    assert_eq!(plain.render(ONE.as_bytes()).unwrap().text, "x");
    for (config, jinja) in
        [(None, None), (Some("{}"), None), (Some(r#"{"chat_template":[{"name":"a","template":""}]}"#), None)]
    {
        assert!(matches!(
            ChatTemplate::new(config, jinja, TemplateOptions::default()),
            Err(TemplateError::Absent)
        ));
    }
    assert!(matches!(
        ChatTemplate::new(Some("{"), None, TemplateOptions::default()),
        Err(TemplateError::Json(_))
    ));
    let Err(bad) = ChatTemplate::new(None, Some("a\n{% for %}"), TemplateOptions::default()) else {
        panic!("no template");
    };
    assert!(bad.to_string().contains("the chat template") && bad.to_string().contains(":2)"), "{bad}");
}

#[test]
fn files_are_read_as_their_names_say() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let load = |name: &str| {
        let template = ChatTemplate::load(&folder.path().join(name), TemplateOptions::default())?;
        Ok::<_, TemplateError>(template.render(ONE.as_bytes()).unwrap().text)
    };
    write("chat_template.jinja", "{{ bos_token }}J");
    assert_eq!(load("chat_template.jinja").unwrap(), "J");
    write("tokenizer_config.json", r#"{"bos_token": "<s>", "chat_template": "{{ bos_token }}C"}"#);
    assert_eq!(load("chat_template.jinja").unwrap(), "<s>J");
    assert_eq!(load("tokenizer_config.json").unwrap(), "<s>C");
    assert!(matches!(load("none.jinja"), Err(TemplateError::Read(_))));
}

#[test]
fn what_is_not_rendered_says_why() {
    let jinja = "{{ messages[0].content }}";
    let unsupported = [
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"x","uuid":"1"}]}]}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"chat_template":"{{ 1 }}"}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"truncate_prompt_tokens":3}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"tokenize":true}}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":1}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"custom","custom":{"name":"x"}}]}"#,
        r#"{"messages":[{"role":"assistant","tool_calls":[{"type":"custom","id":"1","custom":{}}]}]}"#,
    ];
    for body in unsupported {
        assert!(matches!(show(jinja, body), Err(RenderError::Unsupported(_))), "{body}");
    }
    let refused = [
        r#"{"messages":[]}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"tools":[]}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"continue_final_message":true}"#,
    ];
    for body in refused {
        assert!(matches!(show(jinja, body), Err(RenderError::Refused(_))), "{body}");
    }
    let bodies = [
        "",
        "[]",
        "{",
        "3",
        "{}",
        r#"{"messages":{}}"#,
        r#"{"messages":["x"]}"#,
        r#"{"messages":[{"content":"x"}]}"#,
        r#"{"messages":[{"role":"user","content":3}]}"#,
        r#"{"messages":[{"role":"user","content":"\ud800"}]}"#,
        r#"{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":[]}"#,
    ];
    for body in bodies {
        assert!(matches!(show(jinja, body), Err(RenderError::Body(_))), "{body}: {:?}", show(jinja, body));
    }
}

#[test]
fn failures_of_a_template_quote_no_prompt() {
    let secret = r#"{"messages":[{"role":"user","content":"hunter2"}]}"#;
    for jinja in [
        "{{ raise_exception(messages[0].content) }}",
        "{{ messages[0].content + 1 }}",
        "\n{{ messages[0].content.nothing() }}",
        "{{ messages[0].content|int(base='x') }}",
    ] {
        let error = show(jinja, secret).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    assert_eq!(
        show("{{ raise_exception('no') }}", ONE),
        Err(RenderError::Refused("the template raised an exception"))
    );
    let Err(RenderError::Template { line, .. }) = show("\n{{ messages[0].content.nothing() }}", ONE) else {
        panic!("strings have no such method");
    };
    assert_eq!(line, 2);
    assert!(matches!(show("{{ strftime_now('%d') }}", ONE), Err(RenderError::Unsupported(_))));
}

#[test]
fn templates_without_end_are_stopped() {
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{{ c }}{% endfor %}{% endfor %}{% endfor %}";
    let recursive = "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}";
    let wide = "{{ 'x' * 100000 * 100000 }}";
    for jinja in [endless, recursive, wide] {
        assert!(matches!(show(jinja, ONE), Err(RenderError::Template { .. })), "{jinja}");
    }
}

#[test]
fn strings_and_dictionaries_have_the_methods_of_python() {
    let cases = [
        ("{{ ' \x1c x\\n'.strip() }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'xyaxy'.rstrip('yx') }}", "x|axx|xya"),
        (
            "{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1)[0] }}",
            "['a', 'b', '', 'c']['a', 'b,c']a,b",
        ),
        ("{{ '  a \\n b '.split() }}{{ ''.split(',') }}{{ ''.split() }}", "['a', 'b'][''][]"),
        ("{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'bc')) }}", "TrueTrue"),
        ("{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'.replace('X', '-', 1) }}", "a-b-a-bX"),
        (
            "{{ ', '.join(['a', 'b']) }}{{ 'é-a'.find('a') }}{{ 'a'.find('b') }}{{ 'aXbX'.rfind('X') }}{{ 'aa'.count('a') }}",
            "a, b2-132",
        ),
        (
            "{{ 'aB'.upper() }}{{ 'aB'.lower() }}{{ 'ab cd'.title() }}{{ 'ab CD'.capitalize() }}",
            "ABabAb CdAb cd",
        ),
        (
            "{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ 'a1'.isalnum() }}{{ 'a1'.isalpha() }}{{ ' '.isspace() }}",
            "TrueFalseTrueFalseTrue",
        ),
        ("{{ 'a\\r\\nb\\n\\nc\\n'.splitlines() }}", "['a', 'b', '', 'c']"),
        (
            "{% set d = {'b': 1, 'a': none} %}{{ d.get('b') }}{{ d.get('z') }}{{ d.get('z', 2) }}{{ d.keys()|list }}{{ d.values()|list }}",
            "1None2['b', 'a'][1, None]",
        ),
        ("{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "b1a2"),
        ("{{ [1, 2, 1].count(1) }}{{ '{} {x}'.format(1, x=2) }}", "21 2"),
        ("{{ ' a '|trim }}|{{ 'xax'|trim('x') }}|{{ [1]|string }}|{{ none|string }}", "a|a|[1]|None"),
        (
            "{{ 'x' is sequence }}{{ {} is sequence }}{{ none is iterable }}{{ 'x' is iterable }}{{ {} is mapping }}",
            "TrueTrueFalseTrueTrue",
        ),
        (
            "{{ {'b': [1, {}], 'a': '<é>'}|tojson }}{{ [1]|tojson(indent=1) }}{{ 'é'|tojson(true) }}",
            "{\"b\": [1, {}], \"a\": \"<é>\"}[\n 1\n]\"\\u00e9\"",
        ),
        ("{{ {'b': 1, 'a': 2}|tojson(separators=(',', ':'), sort_keys=true) }}", "{\"a\":2,\"b\":1}"),
    ];
    for (jinja, text) in cases {
        assert_eq!(show(jinja, ONE).as_deref(), Ok(text), "{jinja}");
    }
}

#[test]
fn blocks_take_their_lines_along_and_generation_marks_nothing() {
    let jinja = "{% if true %}\n  {% generation %}\na{% set x = 1 %}\n  {%- endgeneration +%}\n  {# a note #}\n{% endif %}\n b {{ x is defined }}\n";
    assert_eq!(show(jinja, ONE).as_deref(), Ok("a\n b False"));
    assert_eq!(show("a\r\nb\rc{{ 'x\r\ny' }}{{ 'x\\r' }}", ONE).as_deref(), Ok("a\nb\ncx\nyx\r"));
}

#[test]
fn only_prompts_of_one_text_are_completed() {
    let one = |body: &str| render(None, body.as_bytes(), Api::Completions);
    assert_eq!(one(r#"{"prompt":"a"}"#), Ok(Prompt { text: "a".to_owned(), add_special: true }));
    assert_eq!(
        one(r#"{"prompt":["a"],"add_special_tokens":false}"#),
        Ok(Prompt { text: "a".to_owned(), add_special: false })
    );
    for body in [
        r#"{"prompt":["a","b"]}"#,
        r#"{"prompt":[1,2]}"#,
        r#"{"prompt":[[1]]}"#,
        r#"{"prompt":"a","suffix":"b"}"#,
        r#"{"prompt":[]}"#,
    ] {
        assert!(matches!(one(body), Err(RenderError::Unsupported(_))), "{body}");
    }
    assert!(matches!(one("{}"), Err(RenderError::Body(_))));
    assert!(matches!(render(None, ONE.as_bytes(), Api::Chat), Err(RenderError::Unsupported(_))));
    assert!(matches!(
        render(Some(&template("x")), ONE.as_bytes(), Api::Messages),
        Err(RenderError::Unsupported(_))
    ));
}

proptest::proptest! {
    #[test]
    fn no_body_makes_it_panic(body in "[\\x00-\\x7f]{0,200}", text in ".{0,60}", role in ".{0,10}") {
        let template = template("{% for m in messages %}{{ m.role + m.content|trim }}{% endfor %}");
        let _ = template.render(body.as_bytes());
        let chat = serde_json::json!({"messages": [{"role": role, "content": text}]}).to_string();
        let _ = template.render(chat.as_bytes());
        let _ = template.render(&chat.as_bytes()[..chat.len() / 2]);
        let _ = ChatTemplate::new(None, Some(&body), TemplateOptions::default());
        let _ = ChatTemplate::new(Some(&body), None, TemplateOptions::default());
        let _ = Tokenizer::from_json(body.as_bytes());
    }
}
