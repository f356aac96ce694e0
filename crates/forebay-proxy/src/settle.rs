//! Telling everyone how a request ended, exactly once.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndKind, Failure, Outcome, Usage};
use forebay_live::Ticket;
use forebay_metrics::OutcomeLabel;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::model_route::Route;
use crate::orca;
use crate::proxy::Proxy;

/// What a client that left is counted as; nginx's number.
const CLIENT_CLOSED: u16 = 499;

/// An admitted request and everything that must be told of its end. Dropping
/// it before [`Settle::end`] means that the client went away.
pub(crate) struct Settle {
    proxy: Arc<Proxy>,
    route: Arc<Route>,
    pub(crate) request_id: HeaderValue,
    ticket: Option<Ticket<Endpoint>>,
    /// When the request's head came.
    pub(crate) started: Instant,
    forwarded: Instant,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    tokens: u64,
    status: Option<StatusCode>,
    answered: bool,
    asked: Asked,
}

/// What a request asked for, which its answer is held against.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// Bytes of its prompt; 0 when they say nothing of its tokens.
    pub(crate) prompt_bytes: usize,
    /// Tokens of its prompt as they were told before it was sent; 0 when they were not.
    pub(crate) rendered: u32,
    /// Choices of each of its prompts; 0 where nothing is generated.
    pub(crate) answers: u32,
}

impl Settle {
    pub(crate) fn new(
        proxy: Arc<Proxy>,
        route: Arc<Route>,
        request_id: HeaderValue,
        ticket: Ticket<Endpoint>,
        started: Instant,
        asked: Asked,
    ) -> Settle {
        Settle {
            proxy,
            route,
            request_id,
            ticket: Some(ticket),
            started,
            forwarded: Instant::now(),
            first_token: None,
            last_token: None,
            tokens: 0,
            status: None,
            answered: false,
            asked,
        }
    }

    pub(crate) fn ticket(&mut self) -> Option<&mut Ticket<Endpoint>> {
        self.ticket.as_mut()
    }

    pub(crate) fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        self.ticket.as_ref().map(Ticket::member)
    }

    pub(crate) fn proxy(&self) -> &Arc<Proxy> {
        &self.proxy
    }

    pub(crate) fn forwarded_again(&mut self) {
        self.forwarded = Instant::now();
    }

    /// Tells the Gate what the endpoint says of its load in these fields, and
    /// takes that out of them.
    pub(crate) fn report(&mut self, fields: &mut HeaderMap) {
        orca::take(fields, &self.route.pool, self.ticket.as_mut());
    }

    /// The head of an answer came, which proves nothing yet.
    pub(crate) fn head(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// The first byte of an answer came: the endpoint works.
    pub(crate) fn first_byte(&mut self) {
        let works = self.status.is_some_and(|status| !status.is_server_error());
        if !std::mem::replace(&mut self.answered, true)
            && works
            && let Some(endpoint) = self.endpoint()
        {
            endpoint.succeeded();
        }
    }

    /// So many token events have passed in all.
    pub(crate) fn tokens(&mut self, tokens: u64, now: Instant) {
        if tokens > self.tokens {
            self.tokens = tokens;
            self.first_token.get_or_insert(now);
            self.last_token = Some(now);
            if let Some(ticket) = &mut self.ticket {
                ticket.progress(u32::try_from(tokens).unwrap_or(u32::MAX));
            }
        }
    }

    /// A whole answer went by.
    pub(crate) fn end_whole(&mut self, usage: Option<Usage>, error_event: bool) {
        let status = self.status.unwrap_or(StatusCode::OK);
        let (end, label) = if error_event {
            (EndKind::Failed(Failure::StreamError), OutcomeLabel::StreamError)
        } else {
            match status.as_u16() {
                429 | 503 => (EndKind::Backpressure, OutcomeLabel::Backpressure),
                500.. => (EndKind::Failed(Failure::Status), OutcomeLabel::UpstreamError),
                400..=499 => (EndKind::Finished, OutcomeLabel::ClientError),
                _ => (EndKind::Finished, OutcomeLabel::Ok),
            }
        };
        self.end(end, label, status.as_u16(), usage, "");
    }

    /// The client went away, after so much of the answer.
    pub(crate) fn cancelled(&mut self, usage: Option<Usage>) {
        self.end(EndKind::Cancelled, OutcomeLabel::ClientCancelled, CLIENT_CLOSED, usage, "");
    }

    /// It ended, however it did. A second call does nothing.
    pub(crate) fn end(
        &mut self,
        end: EndKind,
        label: OutcomeLabel,
        code: u16,
        mut usage: Option<Usage>,
        message: &str,
    ) {
        let Some(ticket) = self.ticket.take() else { return };
        let now = Instant::now();
        let metrics = &self.route.metrics;
        metrics.request(code, label, now - self.started);
        if let Some(first) = self.first_token {
            metrics.ttft(first - self.started);
            if let (Some(last), Some(gaps)) = (self.last_token, gaps(self.tokens, self.asked.answers)) {
                metrics.tpot((last - first) / gaps);
            }
        }
        if let Some(usage) = usage.as_mut().filter(|_| label == OutcomeLabel::Ok && self.asked.answers > 0) {
            // Most clients do not ask for usage: counted events are better than
            // never to learn from them.
            let per_event = &self.route.pool.tokens_per_event;
            if usage.estimated {
                usage.completion_tokens = per_event.tokens(usage.completion_tokens);
            } else {
                per_event.learn(self.tokens, usage.completion_tokens);
            }
            self.route.learn_output(ticket.facts().tenant, usage.completion_tokens, self.asked.answers);
        }
        match usage {
            Some(usage) if usage.estimated => {
                // Of an answer that was cut nobody can state more than what came;
                // of a whole one its engine could have.
                if label != OutcomeLabel::Ok {
                    metrics.tokens(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
                }
                metrics.usage_unknown();
            }
            Some(usage) => {
                metrics.tokens(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
                if usage.cached_known && !ticket.facts().prefix.chain.is_empty() {
                    metrics.prefix_prediction(u64::from(ticket.held_tokens()), usage.cached_tokens);
                }
                self.learn_ratio(&ticket, usage);
                if let (1.., Some(tokens)) = (self.asked.rendered, self.route.pool.tokens.get()) {
                    tokens.counted(self.asked.rendered, usage.prompt_tokens);
                }
            }
            None if label == OutcomeLabel::Ok => metrics.usage_unknown(),
            None => {}
        }
        self.log(&ticket, label, code, now - self.started, message);
        let outcome = Outcome {
            end,
            ttft: self.first_token.map(|first| first - self.forwarded),
            duration: now - self.forwarded,
            usage,
        };
        ticket.settle(outcome);
    }

    /// What the answer says of how text becomes tokens.
    fn learn_ratio(&self, ticket: &Ticket<Endpoint>, usage: Usage) {
        if self.asked.prompt_bytes == 0 {
            return;
        }
        let (prefix, ratio) = (&ticket.facts().prefix, &self.route.pool.bytes_per_token);
        let chain = if prefix.exact { &[][..] } else { &prefix.chain };
        if usage.cached_known && !chain.is_empty() {
            let held = (ticket.held_tokens() as f32 / prefix.block_tokens) as usize;
            ratio.found(&chain[..held.min(chain.len())], usage.cached_tokens);
        }
        ratio.learn(self.asked.prompt_bytes, usage.prompt_tokens, chain);
    }

    fn log(&self, ticket: &Ticket<Endpoint>, label: OutcomeLabel, code: u16, took: Duration, message: &str) {
        let access = self.proxy.settings().access_log;
        let fault = matches!(
            label,
            OutcomeLabel::UpstreamError
                | OutcomeLabel::UpstreamTruncated
                | OutcomeLabel::StreamError
                | OutcomeLabel::TimeoutConnect
                | OutcomeLabel::TimeoutFirstByte
                | OutcomeLabel::TimeoutIdle
                | OutcomeLabel::TimeoutTotal
        );
        if !fault && !access {
            return;
        }
        let id = self.request_id.to_str().unwrap_or("");
        let (pool, model) = (&*self.route.pool.name, &*self.route.model);
        let endpoint = &*ticket.member().name;
        let (outcome, ms) = (label.as_str(), (took.as_secs_f64() * 1e6).round() / 1e3);
        let (tokens, ttft_ms) =
            (self.tokens, self.first_token.map(|at| ((at - self.started).as_secs_f64() * 1e6).round() / 1e3));
        if fault {
            tracing::warn!(
                id,
                pool,
                model,
                endpoint,
                outcome,
                code,
                ms,
                ttft_ms,
                tokens,
                message,
                "request failed"
            );
        } else {
            tracing::info!(id, pool, model, endpoint, outcome, code, ms, ttft_ms, tokens, "request");
        }
    }
}

/// Gaps between the tokens of one of so many answers side by side; none when
/// it has no two.
fn gaps(tokens: u64, answers: u32) -> Option<u32> {
    let each = u32::try_from(tokens / u64::from(answers.max(1))).unwrap_or(u32::MAX);
    each.checked_sub(1).filter(|gaps| *gaps > 0)
}

impl Drop for Settle {
    fn drop(&mut self) {
        self.cancelled(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_side_by_side_have_their_own_gaps() {
        let cases = [((0, 1), None), ((1, 1), None), ((2, 1), Some(1)), ((8, 0), Some(7)), ((8, 4), Some(1))];
        for ((tokens, answers), wanted) in cases {
            assert_eq!(gaps(tokens, answers), wanted, "{tokens} tokens of {answers}");
        }
        assert_eq!(gaps(4, 4), None);
        assert_eq!(gaps(u64::MAX, 1), Some(u32::MAX - 1));
    }
}
