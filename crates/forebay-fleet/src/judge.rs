//! From evidence to a state. Pure: times are passed in.

use std::time::Duration;

use forebay_core::{EndpointState, Time};

#[cfg(test)]
mod tests;

/// What a probe said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Healthy.
    Good,
    /// Reached and not healthy, or not in time.
    Bad,
    /// Nobody listens.
    Refused,
}

/// What real traffic said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// The last time the endpoint answered a real request well.
    pub(crate) succeeded: Option<Time>,
    /// The last time a connection to it could not be made.
    pub(crate) refused: Option<Time>,
}

/// The state of one endpoint and how near it is to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    state: EndpointState,
    interval: Duration,
    fall: u32,
    rise: u32,
    /// Probes of the kind that speaks against `state`, in a row.
    streak: u32,
}

impl Judge {
    /// An endpoint in `state`; `fall` and `rise` count as at least 1.
    pub(crate) fn new(state: EndpointState, interval: Duration, fall: u32, rise: u32) -> Judge {
        Judge { state, interval, fall: fall.max(1), rise: rise.max(1), streak: 0 }
    }

    /// Takes in a probe that ran from `started` to `now`; gives the new state when it changes.
    pub(crate) fn probed(
        &mut self,
        verdict: Verdict,
        started: Time,
        now: Time,
        traffic: Traffic,
    ) -> Option<EndpointState> {
        let needed = match (self.state, verdict) {
            // The first good answer is enough: nothing speaks against it yet.
            (EndpointState::Starting, Verdict::Good) => 1,
            (EndpointState::Starting, Verdict::Refused) => 1,
            (EndpointState::Unready, Verdict::Good) => self.rise,
            (EndpointState::Starting | EndpointState::Ready, Verdict::Bad) => self.fall,
            // Real traffic could not connect either: two witnesses are enough.
            (EndpointState::Ready, Verdict::Refused) if suspected(now, traffic, self.interval) => 1,
            (EndpointState::Ready, Verdict::Refused) => self.fall,
            // It confirms the state, or an operator decides and not a probe.
            _ => {
                self.streak = 0;
                return None;
            }
        };
        if verdict != Verdict::Good && self.contradicted(verdict, started, now, traffic) {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        if self.streak < needed {
            return None;
        }
        self.streak = 0;
        self.state = if verdict == Verdict::Good { EndpointState::Ready } else { EndpointState::Unready };
        Some(self.state)
    }

    /// True when a real request succeeded while the probe failed, or within
    /// the last interval. After a refused connection only a success that came
    /// later counts: a process that has just ended did well until then.
    fn contradicted(&self, verdict: Verdict, started: Time, now: Time, traffic: Traffic) -> bool {
        let Some(succeeded) = traffic.succeeded else { return false };
        let recent = succeeded >= started || now.since(succeeded) <= self.interval;
        match (verdict, traffic.refused) {
            (Verdict::Refused, Some(refused)) => recent && succeeded > refused,
            _ => recent,
        }
    }
}

/// True when real traffic was refused within the last interval and has not succeeded since.
fn suspected(now: Time, traffic: Traffic, interval: Duration) -> bool {
    traffic.refused.is_some_and(|refused| {
        now.since(refused) <= interval && traffic.succeeded.is_none_or(|s| s <= refused)
    })
}
