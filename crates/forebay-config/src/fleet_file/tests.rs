use super::*;

fn read(text: &str) -> Result<FleetFile, Errors> {
    parse_fleet("f.yaml", text, &["h100-8b", "a100-8b"], &|_| None)
}

fn one(group: &str) -> FleetGroup {
    read(&format!("version: 1\nendpoints:\n  - {group}\n")).unwrap().groups.remove(0)
}

#[test]
fn the_smallest_file_has_the_documented_defaults() {
    let fleet = read("version: 1\nendpoints: [{class: h100-8b, count: 2}]\n").unwrap();
    assert_eq!(fleet.groups[0].name, "h100-8b");
    assert_eq!(fleet.groups[0].hardware, Hardware::Class("h100-8b".to_owned()));
    assert_eq!((fleet.groups[0].speed, fleet.groups[0].weight), (1.0, 1.0));
    assert_eq!((fleet.gateways, fleet.share_interval, fleet.kv_events_delay), (1, None, None));
    assert_eq!((fleet.pools, fleet.scrape_interval), (1, Duration::from_secs(1)));
    assert_eq!(fleet.endpoint_name(0, 1).as_deref(), Some("h100-8b-2"));
    assert_eq!(fleet.endpoint_name(0, 2), None);
}

#[test]
fn each_pool_needs_an_endpoint() {
    let pools = |count: &str| {
        read(&format!("version: 1\npools: {count}\nendpoints: [{{class: h100-8b, count: 2}}]\n"))
    };
    assert_eq!(pools("2").unwrap().pools, 2);
    assert!(pools("3").unwrap_err().to_string().contains("3 pools for 2 endpoints"));
    assert!(pools("0").is_err() && pools("1001").is_err() && pools("many").is_err());
}

#[test]
fn memory_becomes_tokens() {
    // (0.9 × 80 − 16) GiB at 128 KiB a token = 56 × 8192.
    let group = one("{class: h100-8b, count: 1, memory: {total: 80GiB, weights: 16GiB, per_token: 128KiB}}");
    assert_eq!(group.kv_tokens, Some(458_752));
}

#[test]
fn own_times_and_zones_are_kept() {
    let fleet = read(
        "version: 1
zones: [{name: far, round_trip: 30ms}]
endpoints:
  - name: mine
    count: 3
    zone: far
    kv_tokens: 100000
    step: {base_ms: 5, token_ms: 0.02, stream_ms: 0.01}
    host_tier: {tokens: 1000000}
    adapters: {slots: 2, load: 500ms}
  - {class: a100-8b, count: 1, speed: 0.5, zone: far, round_trip: 1ms}
",
    )
    .unwrap();
    let mine = &fleet.groups[0];
    let step = StepTimes { base_ms: 5.0, token_ms: 0.02, stream_ms: 0.01, ..StepTimes::default() };
    assert_eq!(mine.hardware, Hardware::Step(step));
    assert_eq!((mine.round_trip, mine.host_tokens), (Duration::from_millis(30), 1_000_000));
    assert_eq!((mine.adapter_slots, mine.adapter_load), (Some(2), Some(Duration::from_millis(500))));
    assert_eq!(fleet.groups[1].round_trip, Duration::from_millis(1));
}

#[test]
fn events_name_a_group_or_one_endpoint() {
    let fleet = read(
        "version: 1
endpoints: [{name: a-1, class: h100-8b, count: 2}, {name: a, class: h100-8b, count: 1}]
events:
  - {at: 10s, endpoint: a-1, change: speed, speed: 0.8}
  - {at: 20s, endpoint: a-1-2, change: crash, back_after: 30s, keep_cache: true}
  - {at: 0s, endpoint: a, change: join}
",
    )
    .unwrap();
    let whose: Vec<_> = fleet.events.iter().map(|event| (event.group, event.member)).collect();
    assert_eq!(whose, [(0, None), (0, Some(1)), (1, None)]);
    assert_eq!(fleet.events[0].change, FleetFileChange::Speed(0.8));
    let back_after = Some(Duration::from_secs(30));
    assert_eq!(fleet.events[1].change, FleetFileChange::Crash { back_after, keep_cache: true });
}

#[test]
fn a_groups_speed_is_no_percentage() {
    let speed = |speed: &str| {
        read(&format!(
            "version: 1\nendpoints:\n  - {{name: a, class: h100-8b, count: 1}}\n  - {{name: b, class: h100-8b, count: 1, speed: {speed}}}\n"
        ))
    };
    assert_eq!(speed("4").unwrap().groups[1].speed, 4.0);
    let said = speed("80").unwrap_err().to_string();
    assert!(said.contains("f.yaml:4") && said.contains("endpoints[1].speed"), "{said}");
    assert!(said.contains("0.8 for 80 %") && said.contains("`step`"), "{said}");
}

#[test]
fn an_events_speed_is_no_percentage() {
    let speed = |speed: &str| {
        read(&format!(
            "version: 1\nendpoints: [{{name: a, class: h100-8b, count: 1}}]\nevents:\n  - {{at: 1s, endpoint: a, change: speed, speed: {speed}}}\n"
        ))
    };
    assert!(speed("4").is_ok());
    let said = speed("80").unwrap_err().to_string();
    assert!(said.contains("f.yaml:4") && said.contains("0.8 for 80 %"), "{said}");
}
