//! What a request asks of the stub.

use std::time::Duration;

/// A stream of `events`, one every `pace`, then its end, or with `hold` no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) events: u32,
    pub(crate) pace: Duration,
    pub(crate) hold: bool,
}

impl Wish {
    /// The wish as the value of a request's `user` field: the body goes
    /// through every proxy unchanged, which a header of our own might not.
    pub(crate) fn to_user(self) -> String {
        let Wish { events, pace, hold } = self;
        format!("events={events} pace_us={} hold={}", pace.as_micros(), u8::from(hold))
    }

    /// Finds a wish in the start of a body; `None` asks for a whole answer.
    pub(crate) fn parse(start: &[u8]) -> Option<Wish> {
        let text = String::from_utf8_lossy(start);
        let number = |name: &str| {
            let rest = text.split_once(name)?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
        };
        Some(Wish {
            events: number("events=")?,
            pace: Duration::from_micros(number("pace_us=")?.into()),
            hold: number("hold=")? != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote() {
        let wish = Wish { events: 20, pace: Duration::from_millis(3), hold: true };
        let body = format!("{{\"user\":\"{}\"}}", wish.to_user());
        assert_eq!(Wish::parse(body.as_bytes()), Some(wish));
        assert_eq!(Wish::parse(b"{\"messages\":[]}"), None);
    }
}
