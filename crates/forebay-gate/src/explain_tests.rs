use super::*;

fn id(slot: u32) -> EndpointId {
    EndpointId { slot, generation: 0 }
}

/// A decision between candidates with these terms, the first one chosen.
fn record(profile: Profile, candidates: &[Terms]) -> DecisionRecord {
    let mut record =
        DecisionRecord::new(Time::ZERO, TicketId { slot: 0, generation: 0 }, id(0), PolicyKind::Predictive);
    record.weights = profile.weights();
    let weights = profile.weights();
    record.set_top(candidates.iter().enumerate().map(|(slot, terms)| {
        let total_ms = weights.ttft * terms.ttft_ms
            + weights.decode * terms.decode_ms
            + weights.harm * terms.harm_ms
            + terms.price_ms
            + terms.miss_ms;
        Candidate { endpoint: id(slot as u32), terms: Terms { total_ms, ..*terms } }
    }));
    record
}

fn reason(record: &DecisionRecord) -> String {
    record.reason(|endpoint| format!("e{}", endpoint.slot))
}

#[test]
fn only_terms_that_count_are_named() {
    // Much later by its own decoding and by others', a little by the rest.
    let chosen = Terms::default();
    let other = Terms { decode_ms: 900.0, harm_ms: 800.0, ttft_ms: 10.0, price_ms: 20.0, ..chosen };
    for (profile, more, most) in [
        (Profile::Balanced, 1430, "own decoding"),
        (Profile::Lean, 50, "first token"),
        (Profile::Batch, 1730, "own decoding"),
    ] {
        let line = reason(&record(profile, &[chosen, other]));
        let end = format!("; e1 would cost {more} ms more, most of it {most}");
        assert!(line.ends_with(&end), "{profile}: {line}");
    }
    // A first token counts once where nobody waits for it, else three times.
    let other = Terms { ttft_ms: 100.0, harm_ms: 150.0, ..chosen };
    assert!(reason(&record(Profile::Balanced, &[chosen, other])).ends_with("most of it first token"));
    assert!(reason(&record(Profile::Batch, &[chosen, other])).ends_with("most of it delay of others"));
}

#[test]
fn the_cheapest_of_the_others_is_what_the_choice_is_measured_by() {
    let at = |ttft_ms| Terms { ttft_ms, ..Terms::default() };
    let line = reason(&record(Profile::Balanced, &[at(50.0), at(80.0), at(20.0), at(60.0)]));
    assert!(line.ends_with("; e2 would have cost 90 ms less, most of it first token"), "{line}");
    let alone = reason(&record(Profile::Balanced, &[at(50.0)]));
    assert!(alone.ends_with("fixed 0)"), "{alone}");
}
