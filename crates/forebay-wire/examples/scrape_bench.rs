//! Prints what reading a metrics page costs:
//! `cargo run --release -p forebay-wire --example scrape_bench`.
//!
//! The page is one of a real vLLM, whole: 72 kB, 868 lines. As a floor, the
//! ends of its lines are counted.

use std::{hint::black_box, time::Duration};

use forebay_wire::signals::{Combine, CustomSignal, Dialect, Reader, detect, read_dcgm, read_loads};

const PAGE: &[u8] = include_bytes!("../tests/signals/vllm_loaded.prom");

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Prints the median microseconds of one call, of 31 batches of about 5 ms.
fn measure(what: &str, bytes: usize, mut call: impl FnMut()) {
    let mut batch = 1u32;
    loop {
        let start = now();
        (0..batch).for_each(|_| call());
        if start.elapsed() > Duration::from_millis(5) || batch > 1 << 24 {
            break;
        }
        batch *= 2;
    }
    let mut times: Vec<f64> = (0..31)
        .map(|_| {
            let start = now();
            (0..batch).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e6 / f64::from(batch)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{what:<44} {bytes:>6} bytes {:>8.2} us {:>6.2} GB/s",
        times[15],
        bytes as f64 / times[15] / 1e3
    );
}

fn main() {
    measure("count its lines", PAGE.len(), || {
        black_box(memchr::memchr_iter(b'\n', black_box(PAGE)).count());
    });
    let signal =
        |metric: &str| CustomSignal { metric: metric.to_owned(), labels: vec![], combine: Combine::Sum };
    let long = signal("vllm:num_requests_waiting_by_reason");
    let short = signal("my_queue");
    for (what, model, custom) in [
        ("vLLM page", None, vec![]),
        ("vLLM page, one model of it", Some("tiny"), vec![]),
        ("vLLM page, a signal of the user's", Some("tiny"), vec![long]),
        ("vLLM page, a signal with a short name", Some("tiny"), vec![short]),
    ] {
        let reader = Reader::new(Dialect::Vllm, model, &custom);
        measure(what, PAGE.len(), || {
            black_box(reader.read(black_box(PAGE)));
        });
    }
    measure("which engine is it", PAGE.len(), || {
        black_box(detect(black_box(PAGE)));
    });
    let sglang: &[u8] = include_bytes!("../tests/signals/sglang_tp_dp.prom");
    let reader = Reader::new(Dialect::Sglang, Some("tide-7b"), &[]);
    measure("SGLang page, wanted lines only", sglang.len(), || {
        black_box(reader.read(black_box(sglang)));
    });
    let loads: &[u8] = include_bytes!("../tests/signals/sglang_loads.json");
    measure("SGLang /v1/loads, two ranks", loads.len(), || {
        black_box(read_loads(black_box(loads)).is_ok());
    });
    let dcgm: &[u8] = include_bytes!("../tests/signals/dcgm.prom");
    measure("DCGM, two GPUs", dcgm.len(), || {
        black_box(read_dcgm(black_box(dcgm), Some(&["0"])));
    });
}
