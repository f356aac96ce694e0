//! Owning a request's place: released by drop, settled exactly once.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Outcome, TicketId};
use forebay_gate::{Decision, Event, Refusal, RepickReason};
use tokio::sync::oneshot;

use crate::live::{Live, Woken};

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
    /// Tokens last reported to the Gate.
    reported: u32,
    settled: bool,
    waited: bool,
}

impl<M> Ticket<M> {
    pub(crate) fn new(live: Arc<Live<M>>, gate: u32, decision: Decision, member: Arc<M>) -> Ticket<M> {
        Ticket { live, gate, decision, member, reported: 0, settled: false, waited: false }
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
        self.live.apply(self.gate, Event::Outcome(self.decision.ticket, outcome));
    }
}

impl<M> Drop for Ticket<M> {
    fn drop(&mut self) {
        if !self.settled {
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
    over: bool,
}

impl<M> Waiting<M> {
    pub(crate) fn new(
        live: Arc<Live<M>>,
        gate: u32,
        id: TicketId,
        woken: oneshot::Receiver<Woken<M>>,
    ) -> Waiting<M> {
        Waiting { live, gate, id, woken, over: false }
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
                               return match woken {
                                   Ok(Ok((decision, member))) => {
                                       let mut ticket = Ticket::new(Arc::clone(&self.live), self.gate, decision, member);
            ticket.waited = true;
            Ok(ticket)
                                   }
                                   Ok(Err(refusal)) => Err(refusal),
                                   Err(_) => Err(Refusal {
                                       reason: forebay_gate::RefuseReason::Exhausted,
                                       retry_after: Duration::from_secs(1),
                                   }),
                               };
                           }
                           () = sleep => self.live.apply(self.gate, Event::Timer),
                       }
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
