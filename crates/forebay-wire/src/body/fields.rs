//! Which top-level fields are read, per API.

use super::Api;

/// A top-level field that routing reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Model,
    Stream,
    N,
    BestOf,
    MaxCompletionTokens,
    MaxTokens,
    MaxOutputTokens,
    Messages,
    Prompt,
    PromptEmbeds,
    Input,
    System,
    Instructions,
    Tools,
    User,
    StreamOptions,
    CacheSalt,
    /// Text that only adds to the prompt's size.
    Query,
    Documents,
    Text1,
    Text2,
}

use Field::*;

const ALL: [Field; 21] = [
    Model,
    Stream,
    N,
    BestOf,
    MaxCompletionTokens,
    MaxTokens,
    MaxOutputTokens,
    Messages,
    Prompt,
    PromptEmbeds,
    Input,
    System,
    Instructions,
    Tools,
    User,
    StreamOptions,
    CacheSalt,
    Query,
    Documents,
    Text1,
    Text2,
];

impl Field {
    /// The name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Model => "model",
            Stream => "stream",
            N => "n",
            BestOf => "best_of",
            MaxCompletionTokens => "max_completion_tokens",
            MaxTokens => "max_tokens",
            MaxOutputTokens => "max_output_tokens",
            Messages => "messages",
            Prompt => "prompt",
            PromptEmbeds => "prompt_embeds",
            Input => "input",
            System => "system",
            Instructions => "instructions",
            Tools => "tools",
            User => "user",
            StreamOptions => "stream_options",
            CacheSalt => "cache_salt",
            Query => "query",
            Documents => "documents",
            Text1 => "text_1",
            Text2 => "text_2",
        }
    }

    /// The field called `key`, when `api` reads it.
    pub(super) fn read_by(api: Api, key: &[u8]) -> Option<Field> {
        ALL.into_iter().find(|f| f.name().as_bytes() == key && f.is_read_by(api))
    }

    pub(super) const fn is_read_by(self, api: Api) -> bool {
        let bare = !api.generates() && !matches!(api, Api::Embeddings);
        match self {
            Model | Stream | User | CacheSalt => true,
            N => api.generates() || matches!(api, Api::Images),
            BestOf | PromptEmbeds => matches!(api, Api::Completions),
            MaxCompletionTokens | MaxTokens | MaxOutputTokens | StreamOptions => api.generates(),
            Messages => matches!(
                api,
                Api::Chat | Api::Messages | Api::CountTokens | Api::Embeddings | Api::Pooling | Api::Score
            ),
            Prompt => matches!(api, Api::Completions) || (bare && !matches!(api, Api::Pooling | Api::Score)),
            Input => matches!(api, Api::Responses | Api::Embeddings) || bare,
            System => matches!(api, Api::Messages | Api::CountTokens),
            Instructions => matches!(api, Api::Responses | Api::Audio),
            Tools => matches!(api, Api::Chat | Api::Responses | Api::Messages | Api::CountTokens),
            Query | Documents | Text1 | Text2 => {
                matches!(api, Api::Rerank | Api::Score | Api::Pooling | Api::Other)
            }
        }
    }

    /// Which part of the prompt its text belongs to, in the order of a template.
    /// No API reads two fields of one part.
    pub(super) const fn part(self) -> usize {
        match self {
            System | Instructions => 0,
            Input => 2,
            _ => 1,
        }
    }

    /// How many ranks there are.
    pub(super) const RANKS: usize = 4;

    /// Its place among the fields that are rendered, in the order of a template.
    /// No API reads two fields of one rank.
    pub(super) const fn rank(self) -> usize {
        match self {
            Tools => 0,
            _ => 1 + self.part(),
        }
    }

    /// This field's bit in a set.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}
