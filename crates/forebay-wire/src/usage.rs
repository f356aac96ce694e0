//! Token usage, in every shape in which engines state it.

use forebay_core::Usage;
use memchr::memmem::rfind;

use crate::json::{Event, JsonError, Pull, lenient_u64};

/// The top-level `usage` of a whole JSON answer: chat, completions,
/// embeddings, responses, messages. None when it states none. What is not JSON
/// gives none as a rule: the part before the usage is not checked.
pub fn usage_from_json(body: &[u8]) -> Option<Usage> {
    // It stands near the end as a rule, and an answer can be megabytes of
    // numbers: when the text from there on closes one object and ends, that
    // object is the answer.
    let last = rfind(body, b"\"usage\"")?;
    let is_key = last.checked_sub(1).is_some_and(|before| body[before] != b'\\');
    if is_key && let Ok(counts) = read_top(Pull::at_key(body, last), body) {
        return counts.usage();
    }
    let mut pull = Pull::new(body);
    if pull.next().ok()? != Event::ObjectStart {
        return None;
    }
    read_top(pull, body).ok()?.usage()
}

/// Reads the rest of a top-level object and checks that nothing follows it.
fn read_top(mut pull: Pull<'_>, body: &[u8]) -> Result<Counts, JsonError> {
    let mut counts = Counts::default();
    while let Event::Key(key) = pull.next()? {
        if key.is(body, b"usage") {
            counts.read(&mut pull, body)?;
        } else {
            pull.skip_value()?;
        }
    }
    pull.end()?;
    Ok(counts)
}

/// The figures as stated, before the shapes are brought together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    prompt: Option<u64>,
    input: Option<u64>,
    completion: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    /// Anthropic counts these two beside `input_tokens`, not within.
    cache_creation: Option<u64>,
    cache_read: Option<u64>,
}

impl Counts {
    /// Reads the value that comes next: a usage object, or anything else,
    /// which is passed over. Returns whether it was an object.
    pub(crate) fn read(&mut self, pull: &mut Pull<'_>, buf: &[u8]) -> Result<bool, JsonError> {
        let outside = pull.depth();
        match pull.next()? {
            Event::ObjectStart => {}
            Event::ArrayStart => {
                pull.skip_to_depth(outside)?;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        while let Event::Key(key) = pull.next()? {
            let place = match key.raw(buf) {
                b"prompt_tokens" => &mut self.prompt,
                b"input_tokens" => &mut self.input,
                b"completion_tokens" => &mut self.completion,
                b"output_tokens" => &mut self.output,
                b"cached_tokens" | b"prompt_cache_hit_tokens" => &mut self.cached,
                b"cache_creation_input_tokens" => &mut self.cache_creation,
                b"cache_read_input_tokens" => &mut self.cache_read,
                b"prompt_tokens_details" | b"input_tokens_details" => {
                    self.read_details(pull, buf)?;
                    continue;
                }
                _ => {
                    pull.skip_value()?;
                    continue;
                }
            };
            read_number(pull, buf, place)?;
        }
        Ok(true)
    }

    fn read_details(&mut self, pull: &mut Pull<'_>, buf: &[u8]) -> Result<(), JsonError> {
        let outside = pull.depth();
        match pull.next()? {
            Event::ObjectStart => {}
            Event::ArrayStart => return pull.skip_to_depth(outside),
            _ => return Ok(()),
        }
        while let Event::Key(key) = pull.next()? {
            if key.raw(buf) == b"cached_tokens" {
                read_number(pull, buf, &mut self.cached)?;
            } else {
                pull.skip_value()?;
            }
        }
        Ok(())
    }

    /// The usage, when any figure of prompt or answer was stated.
    pub(crate) fn usage(&self) -> Option<Usage> {
        if [self.prompt, self.input, self.completion, self.output].iter().all(Option::is_none) {
            return None;
        }
        let beside = self.cache_creation.unwrap_or(0).saturating_add(self.cache_read.unwrap_or(0));
        let prompt_tokens = self.prompt.unwrap_or_else(|| self.input.unwrap_or(0).saturating_add(beside));
        Some(Usage {
            prompt_tokens,
            cached_tokens: self.cached.or(self.cache_read).unwrap_or(0).min(prompt_tokens),
            cached_known: self.cached.or(self.cache_read).is_some(),
            completion_tokens: self.completion.or(self.output).unwrap_or(0),
            estimated: false,
        })
    }
}

fn read_number(pull: &mut Pull<'_>, buf: &[u8], place: &mut Option<u64>) -> Result<(), JsonError> {
    let outside = pull.depth();
    match pull.next()? {
        Event::Number(at) => *place = lenient_u64(&buf[at]).or(*place),
        Event::ObjectStart | Event::ArrayStart => pull.skip_to_depth(outside)?,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
