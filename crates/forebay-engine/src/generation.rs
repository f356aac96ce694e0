//! The answers of one request while they are made.

use std::sync::Arc;
use std::task::{Context, Poll};

use forebay_sim::engine::{EngineRequest, block_chain};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::answer::{Answer, FinishReason, LengthLimits, mix};
use crate::error::ApiError;
use crate::kv::SeqText;
use crate::shared::{SeqEvent, SeqEvents, Shared};
use crate::state::{Job, JobId};
use crate::tokens::cache_salt;

/// What to generate.
#[derive(Default)]
pub(crate) struct Spec {
    /// Token ids of each prompt.
    pub(crate) prompts: Vec<Vec<u32>>,
    /// Answers for each prompt.
    pub(crate) n: u32,
    /// The request's limit; the room that the model leaves when None.
    pub(crate) max_tokens: Option<u32>,
    pub(crate) min_tokens: u32,
    pub(crate) ignore_eos: bool,
    /// The request's own seed.
    pub(crate) seed: u64,
    pub(crate) adapter: Option<String>,
    pub(crate) salt: Option<String>,
    /// Compute the prompts only.
    pub(crate) prefill_only: bool,
}

/// One answer.
pub(crate) struct Choice {
    answer: Answer,
    /// Whether it is the first answer to its prompt, which then counts.
    first_of_prompt: bool,
    prompt_tokens: u32,
    cached: u32,
    pub(crate) produced: u32,
    pub(crate) ended: Option<FinishReason>,
}

/// What a [`Generation`] gives.
pub(crate) enum Step {
    /// One more token of an answer, and how the answer ended if it is the last.
    Token { choice: usize, word: [u8; 4], last: Option<FinishReason> },
    /// An answer ended early, without a token.
    Aborted { choice: usize },
    /// The engine is gone.
    Dead,
}

/// Token counts of a request so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) prompt: u32,
    pub(crate) cached: u32,
    /// Prompt tokens in blocks that this request added to the cache.
    pub(crate) created: u32,
    pub(crate) output: u32,
}

/// The sequences of one request. Dropping it stops those not finished, at
/// whatever stage they are: that is how a client that leaves is noticed.
pub(crate) struct Generation {
    shared: Arc<Shared>,
    ids: Vec<JobId>,
    rx: SeqEvents,
    pub(crate) choices: Vec<Choice>,
}

impl Generation {
    /// Checks the lengths and puts everything into the queue.
    pub(crate) fn start(shared: &Arc<Shared>, spec: Spec) -> Result<Generation, ApiError> {
        let salt = cache_salt(spec.adapter.as_deref(), spec.salt.as_deref());
        let (mut jobs, mut choices) = (Vec::new(), Vec::new());
        for prompt in &spec.prompts {
            let limits = limits(&spec, prompt.len(), shared.max_model_len)?;
            let prompt_tokens = prompt.len() as u32;
            let bytes: Vec<u8> = prompt.iter().flat_map(|t| t.to_le_bytes()).collect();
            let hash = xxh3_64_with_seed(&bytes, shared.options.seed ^ spec.seed.rotate_left(32));
            for k in 0..spec.n {
                let answer = match spec.prefill_only {
                    true => Answer::none(),
                    false => Answer::new(mix(hash.wrapping_add(u64::from(k))), limits),
                };
                let mut tokens = prompt.clone();
                tokens.extend(answer.tokens());
                let request = EngineRequest {
                    chain: block_chain(&tokens, shared.profile.block_size, salt),
                    prompt_tokens,
                    output_tokens: answer.len,
                    priority: 0,
                };
                let text = shared.kv.is_some().then(|| {
                    let adapter =
                        spec.adapter.as_deref().map(|name| (shared.adapter_number(name), name.into()));
                    Arc::new(SeqText { tokens, adapter, salt: spec.salt.clone() })
                });
                jobs.push(Job { request, finish: answer.finish, adapter: spec.adapter.clone(), text });
                choices.push(Choice {
                    answer,
                    first_of_prompt: k == 0,
                    prompt_tokens,
                    cached: 0,
                    produced: 0,
                    ended: None,
                });
            }
        }
        let (ids, rx) = shared.submit(jobs)?;
        Ok(Generation { shared: Arc::clone(shared), ids, rx, choices })
    }

    /// The next token of any answer; None once all have ended.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        while !self.done() {
            let Some((index, event)) = std::task::ready!(self.rx.poll_recv(cx)) else {
                return Poll::Ready(None);
            };
            let index = index as usize;
            let Some(choice) = self.choices.get_mut(index) else { continue };
            match event {
                SeqEvent::Started(cached) => choice.cached = cached,
                SeqEvent::Token => {
                    let word = choice.answer.word(choice.produced);
                    choice.produced += 1;
                    let last = (choice.produced == choice.answer.len).then_some(choice.answer.finish);
                    choice.ended = last;
                    return Poll::Ready(Some(Step::Token { choice: index, word, last }));
                }
                SeqEvent::Finished => choice.ended = choice.ended.or(Some(choice.answer.finish)),
                SeqEvent::Aborted => {
                    choice.ended = Some(FinishReason::Abort);
                    return Poll::Ready(Some(Step::Aborted { choice: index }));
                }
                SeqEvent::Dead => return Poll::Ready(Some(Step::Dead)),
            }
        }
        Poll::Ready(None)
    }

    /// Whether every answer has ended.
    pub(crate) fn done(&self) -> bool {
        self.choices.iter().all(|c| c.ended.is_some())
    }

    /// Waits for the end; gives the text of each answer. After `most` tokens in
    /// all, what is not finished is given up.
    pub(crate) async fn collect(&mut self, most: u32) -> Result<Vec<String>, ApiError> {
        let mut texts = vec![String::new(); self.choices.len()];
        while let Some(step) = std::future::poll_fn(|cx| self.poll_step(cx)).await {
            match step {
                Step::Token { choice, word, .. } => texts[choice].extend(word.map(char::from)),
                Step::Aborted { .. } => {}
                Step::Dead => return Err(ApiError::engine_dead()),
            }
            if self.choices.iter().map(|c| c.produced).sum::<u32>() >= most {
                self.abort();
            }
        }
        Ok(texts)
    }

    /// Counts so far.
    pub(crate) fn tokens(&self) -> Tokens {
        let block = self.shared.profile.block_size.max(1);
        let mut sum = Tokens::default();
        for choice in &self.choices {
            sum.output += choice.produced;
            if choice.first_of_prompt {
                sum.prompt += choice.prompt_tokens;
                sum.cached += choice.cached;
                sum.created += (choice.prompt_tokens / block * block).saturating_sub(choice.cached);
            }
        }
        sum
    }

    /// Stops what is not finished; gives the answers that were.
    pub(crate) fn abort(&mut self) -> Vec<usize> {
        let open: Vec<usize> = (0..self.choices.len()).filter(|i| self.choices[*i].ended.is_none()).collect();
        let ids: Vec<JobId> = open.iter().map(|i| self.ids[*i]).collect();
        self.shared.cancel(&ids);
        for i in &open {
            self.choices[*i].ended = Some(FinishReason::Abort);
        }
        open
    }

    /// How an answer ended.
    pub(crate) fn finish(&self, choice: usize) -> FinishReason {
        self.choices.get(choice).and_then(|c| c.ended).unwrap_or(FinishReason::Abort)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if !self.done() {
            self.abort();
        }
    }
}

/// The length limits for one prompt, or why it is too long.
fn limits(spec: &Spec, prompt: usize, max_model_len: u32) -> Result<LengthLimits, ApiError> {
    let most = max_model_len as usize;
    if prompt == 0 {
        return Err(ApiError::bad_request("The decoder prompt cannot be empty", Some("prompt")));
    }
    if let Some(asked) = spec.max_tokens.filter(|n| *n > max_model_len) {
        let message = format!(
            "max_tokens={asked} cannot be greater than max_model_len={most}. Please request fewer output tokens. \
             (parameter=max_tokens, value={asked})"
        );
        return Err(ApiError::bad_request(message, Some("max_tokens")));
    }
    let least = if spec.prefill_only { 0 } else { 1 };
    if prompt + least > most {
        let seen = most + 1;
        let message = format!(
            "This model's maximum context length is {most} tokens. However, your prompt contains at least {seen} \
             input tokens, which exceeds this limit even without any output tokens. Please reduce the length of \
             the input prompt. (parameter=input_tokens, value={seen})"
        );
        return Err(ApiError::bad_request(message, Some("input_tokens")));
    }
    let room = (most - prompt) as u32;
    let max_tokens = spec.max_tokens.unwrap_or(room);
    if max_tokens > room {
        let message = format!(
            "This model's maximum context length is {most} tokens. However, you requested {max_tokens} output \
             tokens and your prompt contains at least {prompt} input tokens, for a total of at least {} tokens. \
             Please reduce the length of the input prompt or the number of requested output tokens. \
             (parameter=input_tokens, value={prompt})",
            prompt + max_tokens as usize
        );
        return Err(ApiError::bad_request(message, Some("input_tokens")));
    }
    if spec.min_tokens > max_tokens {
        let message = format!(
            "min_tokens must be less than or equal to max_tokens={max_tokens}, got {}.",
            spec.min_tokens
        );
        return Err(ApiError::bad_request(message, Some("min_tokens")));
    }
    Ok(LengthLimits { max_tokens, min_tokens: spec.min_tokens, ignore_eos: spec.ignore_eos })
}
