//! Chat templates: from a request's body to the text that the engine makes of it.

mod content_format;
mod environment;
mod error;
mod final_message;
mod messages;
mod methods;
mod source;

use std::path::Path;
use std::sync::Arc;

use forebay_wire::body::Api;
use minijinja::Environment;
use minijinja::value::{Value, ValueKind};

pub use content_format::ContentFormat;
pub use error::{RenderError, TemplateError};

use environment::{Clock, NO_CLOCK, RAISED};
use messages::field;
use source::Sources;

/// Names that a request's `chat_template_kwargs` may not set: the engine
/// refuses them, or they change more than the text.
const RESERVED: [&str; 11] = [
    "chat_template",
    "conversation",
    "max_length",
    "messages",
    "padding",
    "return_assistant_tokens_mask",
    "return_dict",
    "return_tensors",
    "tokenize",
    "tokenizer_kwargs",
    "truncation",
];

/// A prompt as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompt {
    /// The text that the engine tokenises.
    pub text: String,
    /// Whether it then adds the model's special tokens around it.
    pub add_special: bool,
}

/// The chat template of one model, ready to render.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// `bos_token` and its like, which every template may use.
    special: Vec<(String, Value)>,
    plain: Form,
    /// For requests with tools, where the model has a template of its own for them.
    with_tools: Option<Form>,
}

/// What is known of one template text.
struct Form {
    name: &'static str,
    content: ContentFormat,
    /// It says "developer" somewhere.
    developer: bool,
    /// It says "content" somewhere, so that a final message can be continued.
    says_content: bool,
}

impl Form {
    fn new(name: &'static str, source: &str, content: Option<ContentFormat>) -> Form {
        Form {
            name,
            content: content.unwrap_or_else(|| ContentFormat::of(source)),
            developer: source.contains("\"developer\"") || source.contains("'developer'"),
            says_content: source.contains("content"),
        }
    }
}

/// What a template is loaded with.
#[derive(Clone, Default)]
pub struct TemplateOptions {
    clock: Option<Clock>,
    content: Option<ContentFormat>,
}

impl TemplateOptions {
    /// Answers `strftime_now` with what `clock` makes of a `strftime` format.
    /// Without a clock, or where it answers nothing, a template that asks for
    /// the time renders nothing.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Hands contents over in this format, whatever the template looks like: the
    /// engine was told so (`--chat-template-content-format`).
    #[must_use]
    pub fn content_format(mut self, format: ContentFormat) -> Self {
        self.content = Some(format);
        self
    }
}

impl ChatTemplate {
    /// Reads a file: a `tokenizer_config.json`, or a Jinja text, beside which a
    /// `tokenizer_config.json` may stand that names the special tokens.
    ///
    /// # Errors
    /// A file that cannot be read, and what [`ChatTemplate::new`] refuses.
    pub fn load(path: &Path, options: TemplateOptions) -> Result<ChatTemplate, TemplateError> {
        let text = std::fs::read_to_string(path)?;
        if path.extension().is_some_and(|extension| extension == "json") {
            return ChatTemplate::new(Some(&text), None, options);
        }
        let config = match std::fs::read_to_string(path.with_file_name("tokenizer_config.json")) {
            Ok(config) => Some(config),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        ChatTemplate::new(config.as_deref(), Some(&text), options)
    }

    /// From the texts of `tokenizer_config.json` and of a Jinja file, which goes
    /// before the template in the former.
    ///
    /// # Errors
    /// Neither holds a template, or it is none that can be read.
    pub fn new(
        config: Option<&str>,
        jinja: Option<&str>,
        options: TemplateOptions,
    ) -> Result<ChatTemplate, TemplateError> {
        let Sources { plain, with_tools, special } = Sources::read(config, jinja)?;
        let mut environment = environment::environment(options.clock)?;
        let mut form = |name: &'static str, source: String| {
            let source = environment::as_read(&source);
            let form = Form::new(name, &source, options.content);
            environment.add_template_owned(name, source).map(|()| form)
        };
        let plain = form("default", plain)?;
        let with_tools = with_tools.map(|source| form("tool_use", source)).transpose()?;
        Ok(ChatTemplate { environment, special, plain, with_tools })
    }

    /// The prompt of a chat.
    ///
    /// # Errors
    /// A body that is no chat, has more than text, or that the engine refuses;
    /// and a failure of the template.
    pub fn render(&self, body: &[u8]) -> Result<Prompt, RenderError> {
        self.render_chat(&parse(body)?)
    }

    fn render_chat(&self, body: &Value) -> Result<Prompt, RenderError> {
        if field(body, "chat_template").is_some() {
            return Err(RenderError::Unsupported("a template of the request's own"));
        }
        if field(body, "truncate_prompt_tokens").is_some() {
            return Err(RenderError::Unsupported("a prompt cut to a length"));
        }
        let generate = flag(body, "add_generation_prompt", true)?;
        let go_on = flag(body, "continue_final_message", false)?;
        if generate && go_on {
            return Err(RenderError::Refused("add_generation_prompt with continue_final_message"));
        }
        let tools = messages::tools(body)?;
        let form = self.with_tools.as_ref().filter(|_| tools.is_some()).unwrap_or(&self.plain);
        let listed = body.get_attr("messages").unwrap_or_default();
        let mut conversation = messages::conversation(&listed, form.content)?;
        if conversation.is_empty() {
            return Err(RenderError::Refused("no messages"));
        }
        if !form.developer && conversation.iter().any(|message| message.role == "developer") {
            conversation = messages::without_developer(conversation);
        }
        let end = if go_on {
            if !form.says_content {
                return Err(RenderError::Refused("the template has no content to continue"));
            }
            Some(final_message::mark(&mut conversation)?)
        } else {
            None
        };
        let mut context = self.context(body, tools)?;
        let conversation: Vec<Value> = conversation.into_iter().map(messages::Message::into_value).collect();
        set(&mut context, "messages", Value::from(conversation));
        set(&mut context, "add_generation_prompt", Value::from(generate));
        let mut text = self.run(form, context)?;
        if let Some(end) = end {
            text = end.cut(text)?;
        }
        Ok(Prompt { text, add_special: flag(body, "add_special_tokens", false)? })
    }

    /// What the template may use beside the messages.
    fn context(&self, body: &Value, tools: Option<Value>) -> Result<Vec<(String, Value)>, RenderError> {
        let null = || Value::from(());
        let mut context = self.special.clone();
        set(&mut context, "tools", tools.unwrap_or_else(null));
        set(&mut context, "documents", null());
        let mut thinking = None;
        if let Some(effort) = field(body, "reasoning_effort") {
            thinking = Some(Value::from(effort.as_str() != Some("none")));
            set(&mut context, "reasoning_effort", effort);
        }
        if let Some(own) = field(body, "chat_template_kwargs") {
            if own.kind() != ValueKind::Map {
                return Err(RenderError::Body("chat_template_kwargs is no object"));
            }
            for key in own.try_iter().into_iter().flatten() {
                let Some(name) = key.as_str() else { continue };
                if RESERVED.contains(&name) {
                    return Err(RenderError::Unsupported(
                        "an argument of the tokenizer's in chat_template_kwargs",
                    ));
                }
                if name == "enable_thinking" {
                    thinking = None;
                }
                let value = own.get_item(&key).unwrap_or_default();
                // The engine drops what is null or "auto", and sets the effort itself.
                let fixed = name == "reasoning_effort" && field(body, name).is_some();
                if !value.is_none() && value.as_str() != Some("auto") && !fixed {
                    set(&mut context, name, value);
                }
            }
        }
        if let Some(thinking) = thinking {
            set(&mut context, "enable_thinking", thinking);
        }
        if let Some(documents) = field(body, "documents") {
            set(&mut context, "documents", documents);
        }
        Ok(context)
    }

    fn run(&self, form: &Form, context: Vec<(String, Value)>) -> Result<String, RenderError> {
        let template = self.environment.get_template(form.name);
        template.and_then(|template| template.render(Value::from_pairs(context))).map_err(|error| {
            match error.detail() {
                Some(RAISED) => RenderError::Refused("the template raised an exception"),
                Some(NO_CLOCK) => RenderError::Unsupported("a template that asks for the time"),
                // Details of other errors may quote the prompt.
                _ => RenderError::Template { kind: error.kind(), line: error.line().unwrap_or(0) },
            }
        })
    }
}

/// The prompt of a request to an API that takes text. `template` is asked for
/// chats; without one they are unsupported.
///
/// # Errors
/// As [`ChatTemplate::render`]; and bodies of other APIs, prompts that come as
/// token ids or as several texts, and those with a `suffix`.
pub fn render(template: Option<&ChatTemplate>, body: &[u8], api: Api) -> Result<Prompt, RenderError> {
    match (api, template) {
        (Api::Chat, Some(template)) => template.render(body),
        (Api::Chat, None) => Err(RenderError::Unsupported("a chat without a template")),
        (Api::Completions, _) => completion(&parse(body)?),
        _ => Err(RenderError::Unsupported("this API")),
    }
}

fn completion(body: &Value) -> Result<Prompt, RenderError> {
    for name in ["suffix", "prompt_embeds", "truncate_prompt_tokens"] {
        if field(body, name).is_some() {
            return Err(RenderError::Unsupported("a prompt that is more than its text"));
        }
    }
    let prompt = field(body, "prompt").ok_or(RenderError::Body("no prompt"))?;
    let text = match messages::items(&prompt) {
        None => prompt,
        Some(prompts) => match <[Value; 1]>::try_from(prompts.collect::<Vec<_>>()) {
            Ok([only]) => only,
            Err(_) => return Err(RenderError::Unsupported("several prompts, or token ids")),
        },
    };
    let text = text.as_str().ok_or(RenderError::Unsupported("a prompt of token ids"))?.to_owned();
    Ok(Prompt { text, add_special: flag(body, "add_special_tokens", true)? })
}

fn parse(body: &[u8]) -> Result<Value, RenderError> {
    let body: Value = serde_json::from_slice(body).map_err(|_| RenderError::Body("no JSON"))?;
    if body.kind() == ValueKind::Map { Ok(body) } else { Err(RenderError::Body("no object")) }
}

fn flag(body: &Value, name: &'static str, otherwise: bool) -> Result<bool, RenderError> {
    match field(body, name) {
        None => Ok(otherwise),
        Some(value) if value.kind() == ValueKind::Bool => Ok(value.is_true()),
        Some(_) => Err(RenderError::Unsupported("a flag that is neither true nor false")),
    }
}

fn set(context: &mut Vec<(String, Value)>, name: &str, value: Value) {
    match context.iter_mut().find(|(key, _)| key == name) {
        Some((_, old)) => *old = value,
        None => context.push((name.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests;
