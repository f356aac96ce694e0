//! Owning a request's place: released by drop, settled exactly once.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{OrcaLoad, Outcome, RequestFacts, TicketId};
use forebay_gate::{Decision, Event, Refusal, RepickReason};
use tokio::sync::oneshot;

use crate::cell::Woken;
use crate::live::Live;

/// A request that was let go, and where to.
///
/// Dropping it settles the request as cancelled; [`Ticket::settle`] settles it
/// with an outcome. Either happens exactly once.
#[derive(Debug)]
pub struct Ticket<M> {
    live: Arc<Live<M>>,
    gate: u32,
    decision: Decision,
    member: Arc<M>,
    facts: Arc<RequestFacts>,
    /// Tokens last reported to the Gate.
    reported: u32,
    settled: bool,
    waited: bool,
}

impl<M> Ticket<M> {
    pub(crate) fn new(
        live: Arc<Live<M>>,
        gate: u32,
        decision: Decision,
        member: Arc<M>,
        facts: Arc<RequestFacts>,
    ) -> Ticket<M> {
        live.begin(gate, decision.endpoint, &facts);
        Ticket { live, gate, decision, member, facts, reported: 0, settled: false, waited: false }
    }

    /// What the decision was made from.
    pub fn facts(&self) -> &RequestFacts {
        &self.facts
    }

    /// Prompt tokens that the picked endpoint was taken to hold.
    pub fn held_tokens(&self) -> u32 {
        let endpoint = self.decision.endpoint;
        self.facts.prefix.matches.iter().find(|held| held.endpoint == endpoint).map_or(0, |held| held.tokens)
    }

    /// An answer carried what its endpoint said of itself.
    pub fn orca(&self, load: OrcaLoad) {
        self.live.orca(self.gate, self.decision.endpoint, load);
    }

    /// What the shell keeps of the picked endpoint.
    pub fn member(&self) -> &Arc<M> {
        &self.member
    }

    /// Whether it had to wait for its turn.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// What was decided and why.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The endpoint could not take the request: moves to another one.
    ///
    /// # Errors
    /// The refusal when there is no other; the ticket is then still to be settled.
    pub fn repick(&mut self, why: RepickReason) -> Result<(), Refusal> {
        let (decision, member) = self.live.repick(self.gate, self.decision.ticket, why)?;
        self.live.over(self.gate, self.decision.endpoint, &self.facts, None);
        self.live.begin(self.gate, decision.endpoint, &self.facts);
        self.decision = decision;
        self.member = member;
        self.reported = 0;
        Ok(())
    }

    /// Says how many tokens have come out in all. The Gate hears of the first
    /// and then of every 32nd, which keeps its lock out of the token path while
    /// its idea of the work left is never more than that off.
    pub fn progress(&mut self, tokens: u32) {
        if tokens > 0 && (self.reported == 0 || tokens - self.reported.min(tokens) >= 32) {
            self.reported = tokens;
            self.live.progress(self.gate, self.decision.ticket, tokens);
        }
    }

    /// The request has ended.
    pub fn settle(mut self, outcome: Outcome) {
        self.settled = true;
        self.live.over(self.gate, self.decision.endpoint, &self.facts, Some(&outcome));
        self.live.apply(self.gate, Event::Outcome(self.decision.ticket, outcome));
    }
}

impl<M> Drop for Ticket<M> {
    fn drop(&mut self) {
        if !self.settled {
            self.live.over(self.gate, self.decision.endpoint, &self.facts, None);
            self.live.apply(self.gate, Event::Cancelled(self.decision.ticket));
        }
    }
}

/// A request that waits for its turn. Dropping it gives the place up.
#[derive(Debug)]
pub struct Waiting<M> {
    live: Arc<Live<M>>,
    gate: u32,
    id: TicketId,
    woken: oneshot::Receiver<Woken<M>>,
    facts: Arc<RequestFacts>,
    over: bool,
}

impl<M> Waiting<M> {
    pub(crate) fn new(
        live: Arc<Live<M>>,
        gate: u32,
        id: TicketId,
        woken: oneshot::Receiver<Woken<M>>,
        facts: Arc<RequestFacts>,
    ) -> Waiting<M> {
        Waiting { live, gate, id, woken, facts, over: false }
    }

    /// Waits until the Gate lets it go or refuses it.
    ///
    /// Whoever waits also turns the Gate's clock: each sleeps until the Gate's
    /// next timer and then tells it so. No timer task is needed, and none can
    /// be forgotten.
    pub(crate) async fn wait(mut self) -> Result<Ticket<M>, Refusal> {
        loop {
            let timer = self.live.next_timer(self.gate);
            let sleep = async {
                match timer {
                    Some(at) => tokio::time::sleep_until(self.live.clock().instant(at).into()).await,
                    None => tokio::time::sleep(Duration::from_secs(1)).await,
                }
            };
            tokio::select! {
                biased;
                woken = &mut self.woken => {
                    self.over = true;
                    return self.take(woken);
                }
                () = sleep => self.live.apply(self.gate, Event::Timer),
            }
        }
    }

    fn take(&self, woken: Result<Woken<M>, oneshot::error::RecvError>) -> Result<Ticket<M>, Refusal> {
        match woken {
            Ok(Ok((decision, member))) => {
                let (live, facts) = (Arc::clone(&self.live), Arc::clone(&self.facts));
                let mut ticket = Ticket::new(live, self.gate, decision, member, facts);
                ticket.waited = true;
                Ok(ticket)
            }
            Ok(Err(refusal)) => Err(refusal),
            Err(_) => Err(Refusal {
                reason: forebay_gate::RefuseReason::Exhausted,
                retry_after: Duration::from_secs(1),
            }),
        }
    }
}

impl<M> Drop for Waiting<M> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // It may have been let go in the very moment it is given up; then the
        // place it was given must be given back.
        match self.woken.try_recv() {
            Ok(Ok((decision, _))) => self.live.apply(self.gate, Event::Cancelled(decision.ticket)),
            Ok(Err(_)) => {}
            Err(_) => self.live.withdraw(self.gate, self.id),
        }
    }
}
