//! Faults on command.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::Fields;

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Inference requests get this status at once.
    Status {
        /// 400 to 599.
        code: u16,
        /// Seconds for the `Retry-After` header; no header without.
        retry_after: Option<u32>,
    },
    /// Inference requests are taken (a stream gets its head) and never served;
    /// gauges do not count them.
    Hang,
    /// The connection ends after this many events of a stream, or in the
    /// middle of the body of another answer.
    Cut {
        /// Events that still go out.
        after: u32,
        /// With a reset instead of an end.
        reset: bool,
    },
    /// A stream gives an error object and `[DONE]` after this many events;
    /// other requests get 500.
    StreamError {
        /// Events that still go out.
        after: u32,
    },
    /// A stream ends with `finish_reason` "abort" after this many events, other
    /// answers after as many tokens.
    Abort {
        /// Events that still go out.
        after: u32,
    },
    /// Steps take this many times as long.
    Slow {
        /// 1 is normal speed.
        factor: f64,
    },
    /// The engine's time stands still, also for what is in flight; `/health`
    /// stays good.
    Freeze,
    /// The process is killed: the port and every connection close.
    Crash,
    /// The process is killed, and a new one takes its address after this many
    /// seconds of real time: nothing in its cache, counters and the numbers of
    /// KV events from 0.
    Restart {
        /// From 0 to 86,400.
        seconds: f64,
    },
    /// The network to it is gone for this many seconds of real time: every
    /// connection is reset, new ones are refused, KV events reach nobody. The
    /// engine lives on, and its cache is as it was.
    CutOff {
        /// From 0 to 86,400.
        seconds: f64,
    },
    /// The engine process behind the API server is killed: streams get an
    /// error object and `[DONE]`, other requests 500, then the port closes.
    EngineDead,
    /// Back to normal.
    None,
}

/// A fault and how often it strikes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// To how many of the next inference requests; to all until the next
    /// command when None. Only for faults that strike single requests.
    pub count: Option<u32>,
}

/// An order to be unreachable for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Away {
    pub(crate) time: Duration,
    /// Whether only the network is gone.
    pub(crate) alive: bool,
}

impl Away {
    pub(crate) fn new(seconds: f64, alive: bool) -> Away {
        let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, LONGEST_AWAY) };
        Away { time: Duration::from_secs_f64(seconds), alive }
    }
}

/// In seconds.
const LONGEST_AWAY: f64 = 86_400.0;

/// A fault that one request has drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RequestFault {
    Hang,
    Cut { after: u32, reset: bool },
    StreamError { after: u32 },
    Abort { after: u32 },
}

impl Fault {
    /// Reads the body of `POST /fault`.
    pub(crate) fn parse(map: &Map<String, Value>) -> Result<Fault, ApiError> {
        let mut fields = Fields::new(map);
        let mut small = |name: &str| {
            let value = fields.integer(name)?;
            let number = u32::try_from(value).ok();
            if number.is_none() {
                fields.complain("int_range", name, "Input should be between 0 and 4294967295");
            }
            number
        };
        let (count, code, after) = (small("count"), small("code"), small("after").unwrap_or(1));
        let retry_after = small("retry_after");
        let factor = match (fields.number("factor"), fields.number("speed")) {
            (Some(factor), _) => factor,
            (None, Some(speed)) if speed > 0.0 => 1.0 / speed,
            (None, Some(_)) => {
                fields.complain("greater_than", "speed", "Input should be greater than 0");
                1.0
            }
            (None, None) => 2.0,
        };
        let seconds = fields.number("seconds").unwrap_or(1.0);
        if !(0.0..=LONGEST_AWAY).contains(&seconds) {
            fields.complain("range", "seconds", "Input should be between 0 and 86400");
        }
        let how = fields.string("how").unwrap_or("fin");
        if !["fin", "rst"].contains(&how) {
            fields.complain("enum", "how", "Input should be fin or rst");
        }
        let kind = match fields.string("kind") {
            Some("status") => {
                let code = code.unwrap_or(503);
                if !(400..600).contains(&code) {
                    fields.complain("int_range", "code", "Input should be between 400 and 599");
                }
                FaultKind::Status { code: code as u16, retry_after }
            }
            Some("hang") => FaultKind::Hang,
            Some("cut") => FaultKind::Cut { after, reset: how == "rst" },
            Some("stream_error") => FaultKind::StreamError { after },
            Some("abort") => FaultKind::Abort { after },
            Some("slow") => FaultKind::Slow { factor },
            Some("freeze") => FaultKind::Freeze,
            Some("crash") => FaultKind::Crash,
            Some("restart") => FaultKind::Restart { seconds },
            Some("cut_off") => FaultKind::CutOff { seconds },
            Some("engine_dead") => FaultKind::EngineDead,
            Some("none") => FaultKind::None,
            other => {
                if other.is_none() && fields.get("kind").is_none() {
                    fields.missing("kind");
                } else if other.is_some() {
                    let kinds = "Input should be status, hang, cut, stream_error, abort, slow, freeze, crash, \
                                 engine_dead or none";
                    fields.complain("enum", "kind", kinds);
                }
                FaultKind::None
            }
        };
        fields.finish()?;
        Ok(Fault { kind, count })
    }

    /// Takes one strike. `Err` is the answer of a request that fails at once.
    pub(crate) fn strike(&mut self) -> Result<Option<RequestFault>, (ApiError, Option<u32>)> {
        match &mut self.count {
            Some(0) => return Ok(None),
            Some(n) => *n -= 1,
            None => {}
        }
        Ok(match self.kind {
            FaultKind::Status { code, retry_after } => {
                let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Err((ApiError::injected(status), retry_after));
            }
            FaultKind::Hang => Some(RequestFault::Hang),
            FaultKind::Cut { after, reset } => Some(RequestFault::Cut { after, reset }),
            FaultKind::StreamError { after } => Some(RequestFault::StreamError { after }),
            FaultKind::Abort { after } => Some(RequestFault::Abort { after }),
            FaultKind::Slow { .. }
            | FaultKind::Freeze
            | FaultKind::Crash
            | FaultKind::Restart { .. }
            | FaultKind::CutOff { .. }
            | FaultKind::EngineDead
            | FaultKind::None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<Fault, String> {
        Fault::parse(value.as_object().unwrap()).map_err(|e| e.message)
    }

    #[test]
    fn commands_are_read() {
        let fault = parse(json!({"kind": "status", "code": 429, "count": 2, "retry_after": 3})).unwrap();
        assert_eq!(fault.kind, FaultKind::Status { code: 429, retry_after: Some(3) });
        assert_eq!(fault.count, Some(2));
        let fault = parse(json!({"kind": "cut", "after": 5, "how": "rst"})).unwrap();
        assert_eq!(fault.kind, FaultKind::Cut { after: 5, reset: true });
        assert_eq!(
            parse(json!({"kind": "slow", "factor": 4})).unwrap().kind,
            FaultKind::Slow { factor: 4.0 }
        );
        assert_eq!(
            parse(json!({"kind": "slow", "speed": 0.8})).unwrap().kind,
            FaultKind::Slow { factor: 1.25 }
        );
        assert_eq!(
            parse(json!({"kind": "cut_off", "seconds": 10})).unwrap().kind,
            FaultKind::CutOff { seconds: 10.0 }
        );
        assert_eq!(parse(json!({"kind": "restart"})).unwrap().kind, FaultKind::Restart { seconds: 1.0 });
    }

    #[test]
    fn mistakes_are_named() {
        for (body, field) in [
            (json!({}), "body.kind"),
            (json!({"kind": "explode"}), "body.kind"),
            (json!({"kind": 3}), "body.kind"),
            (json!({"kind": "status", "code": 200}), "body.code"),
            (json!({"kind": "hang", "count": -1}), "body.count"),
            (json!({"kind": "cut", "how": "softly"}), "body.how"),
            (json!({"kind": "slow", "speed": 0}), "body.speed"),
            (json!({"kind": "restart", "seconds": -1}), "body.seconds"),
            (json!({"kind": "cut_off", "seconds": 1e9}), "body.seconds"),
        ] {
            let message = parse(body.clone()).unwrap_err();
            assert!(message.contains(field), "{body}: {message}");
        }
    }

    #[test]
    fn a_counted_fault_wears_out() {
        let mut fault = Fault { kind: FaultKind::Hang, count: Some(1) };
        assert_eq!(fault.strike().unwrap(), Some(RequestFault::Hang));
        assert_eq!(fault.strike().unwrap(), None);
    }
}
