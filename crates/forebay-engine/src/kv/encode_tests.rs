use std::path::Path;

use serde_json::Value;

use super::encode::payload;
use super::*;

/// What an event says, as the engine would have it before it is written down.
fn event(value: &Value, block_size: &mut u32) -> KvEvent {
    let number = |v: &Value| v.as_u64().unwrap();
    let numbers = |name: &str| value[name].as_array().unwrap().iter().map(number).collect::<Vec<u64>>();
    match value["type"].as_str().unwrap() {
        "BlockStored" => {
            *block_size = number(&value["block_size"]) as u32;
            let parent = value["parent_block_hash"].as_u64();
            let first = u32::from(parent.is_some());
            let mut tokens = vec![0; (first * *block_size) as usize];
            tokens.extend(numbers("token_ids").iter().map(|id| *id as u32));
            let adapter =
                value["lora_name"].as_str().map(|n| (number(&value["lora_id"]) as u32, n.to_owned()));
            let salt = value["extra_keys"][0][0].as_str().filter(|_| adapter.is_none()).map(str::to_owned);
            let text = Arc::new(SeqText { tokens, adapter, salt });
            KvEvent::Stored { text, first, hashes: numbers("block_hashes"), parent }
        }
        "BlockRemoved" => KvEvent::Removed { hash: numbers("block_hashes")[0] },
        "AllBlocksCleared" => KvEvent::Cleared,
        other => panic!("{other}"),
    }
}

#[test]
fn recorded_batches_are_written_byte_for_byte() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kv_events.txt");
    let recorded = std::fs::read_to_string(path).unwrap();
    let values = |name| recorded.lines().filter_map(move |line| line.strip_prefix(name));
    let (mut kinds, mut compared) = (String::new(), 0);
    for (hex, decoded) in values("frame2_payload_hex=").zip(values("frame2_decoded=")) {
        // serde_json may be off by the last bit.
        let unix = decoded.split([',', '[']).nth(1).unwrap().parse().unwrap();
        let decoded: Value = serde_json::from_str(decoded).unwrap();
        let mut block_size = 0;
        let list = decoded[1].as_array().unwrap();
        let events = list.iter().map(|value| event(value, &mut block_size)).collect();
        let batch = KvBatch { unix, events };
        let written: String = payload(&batch, block_size).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(written, hex);
        kinds.push_str(&decoded.to_string());
        compared += 1;
    }
    assert_eq!(compared, 7);
    for seen in ["AllBlocksCleared", "tenant-a", "lora1"] {
        assert!(kinds.contains(seen), "the recording has {seen}");
    }
}

#[test]
fn an_eviction_is_as_in_the_format() {
    let batch = KvBatch { unix: 1.5, events: vec![KvEvent::Removed { hash: 7 }] };
    let written: String = payload(&batch, 16).iter().map(|b| format!("{b:02x}")).collect();
    // [1.5, [{"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU", "group_idx": 0}], 0]
    assert_eq!(
        written,
        "93cb3ff80000000000009184a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865739107a66d656469756d\
         a3475055a967726f75705f6964780000"
    );
}
