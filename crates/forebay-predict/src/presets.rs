//! Step models by name: what an endpoint is taken for until it has answered.

use crate::StepModel;

/// Most tokens per step unless something else is known: vLLM's usual
/// `max_num_batched_tokens` with chunked prefill.
const BUDGET: f64 = 2048.0;

impl StepModel {
    /// An 8B model on one H100. Linear part from Vidur's profiles (MLSys'24),
    /// attention from peak compute and memory bandwidth.
    pub const H100_8B: StepModel =
        StepModel { a: 8.0, b: 0.0235, c: 0.87e-6, d: 0.049e-3, e: 0.02, cap: 427_000.0, budget: BUDGET };
    /// An 8B model on one A100 (80 GB); the same source.
    pub const A100_8B: StepModel =
        StepModel { a: 11.5, b: 0.0672, c: 2.2e-6, d: 0.082e-3, e: 0.02, cap: 427_000.0, budget: BUDGET };
    /// A 70B model on four H100s; the same source.
    pub const H100_70B_TP4: StepModel =
        StepModel { a: 22.5, b: 0.0626, c: 1.09e-6, d: 0.030e-3, e: 0.02, cap: 475_000.0, budget: BUDGET };
    /// A 32B model on two H100s; the same source.
    pub const H100_32B_TP2: StepModel =
        StepModel { a: 18.0, b: 0.0556, c: 1.1e-6, d: 0.048e-3, e: 0.02, cap: 300_000.0, budget: BUDGET };

    /// The measured preset of exactly that name: `h100-8b`, `a100-8b`,
    /// `h100-70b-tp4` or `h100-32b-tp2`.
    pub fn preset(name: &str) -> Option<StepModel> {
        match name {
            "h100-8b" => Some(Self::H100_8B),
            "a100-8b" => Some(Self::A100_8B),
            "h100-70b-tp4" => Some(Self::H100_70B_TP4),
            "h100-32b-tp2" => Some(Self::H100_32B_TP2),
            _ => None,
        }
    }

    /// The best guess for a model on an accelerator, from words such as
    /// `NVIDIA H100 80GB HBM3`, `a100`, `l4` and `Llama-3.1-8B-Instruct`.
    ///
    /// `accelerator` may also be a preset's name or carry the size and the
    /// tensor parallelism itself (`h100-70b-tp4`). What is not understood is
    /// taken for an H100 and an 8B model; the learned speed repairs it.
    pub fn guess(accelerator: &str, model: &str) -> StepModel {
        if let Some(preset) = Self::preset(accelerator) {
            return preset;
        }
        let device = words(accelerator).find_map(|w| device(&w)).unwrap_or(DEVICES[0]);
        let billions = words(accelerator).chain(words(model)).find_map(|w| billions(&w)).unwrap_or(8.0);
        let tp = words(accelerator).find_map(|w| parallel(&w)).unwrap_or_else(|| device.needed_for(billions));
        device.model(billions, tp)
    }
}

/// One accelerator, relative to the H100 (SXM) whose constants were measured.
#[derive(Clone, Copy)]
struct Device {
    name: &'static str,
    /// Times as long for compute: prefill.
    compute: f64,
    /// Times as long for memory traffic: decode.
    memory: f64,
    /// Gigabytes of memory.
    gigabytes: f64,
}

/// From the vendors' data sheets: dense 16-bit matrix throughput (989 TFLOP/s
/// for the H100) and memory bandwidth (3.35 TB/s). The A100's factors are
/// measured ones (Vidur), and newer or other vendors' hardware is taken to
/// reach 80 % of what its sheet promises beyond an H100. Names that begin with
/// another name stand before it.
const DEVICES: [Device; 14] = [
    Device { name: "h100", compute: 1.0, memory: 1.0, gigabytes: 80.0 },
    Device { name: "h200", compute: 1.0, memory: 0.72, gigabytes: 141.0 },
    Device { name: "gh200", compute: 1.0, memory: 0.85, gigabytes: 96.0 },
    Device { name: "b200", compute: 0.52, memory: 0.48, gigabytes: 180.0 },
    Device { name: "a100", compute: 2.86, memory: 1.67, gigabytes: 80.0 },
    Device { name: "l40s", compute: 2.7, memory: 3.9, gigabytes: 48.0 },
    Device { name: "l40", compute: 5.5, memory: 3.9, gigabytes: 48.0 },
    Device { name: "l4", compute: 8.2, memory: 11.2, gigabytes: 24.0 },
    Device { name: "a10g", compute: 12.0, memory: 5.6, gigabytes: 24.0 },
    Device { name: "a10", compute: 7.9, memory: 5.6, gigabytes: 24.0 },
    Device { name: "v100", compute: 7.9, memory: 3.7, gigabytes: 32.0 },
    Device { name: "t4", compute: 15.2, memory: 10.5, gigabytes: 16.0 },
    Device { name: "mi300x", compute: 0.95, memory: 0.79, gigabytes: 192.0 },
    Device { name: "mi250", compute: 2.7, memory: 2.0, gigabytes: 64.0 },
];

fn device(word: &str) -> Option<Device> {
    DEVICES.iter().find(|d| word == d.name).copied()
}

impl Device {
    /// The least power of two whose memory is twice the weights in 16 bits.
    fn needed_for(&self, billions: f64) -> f64 {
        [1.0, 2.0, 4.0].into_iter().find(|tp| tp * self.gigabytes >= 4.0 * billions).unwrap_or(8.0)
    }

    /// Scales the 8B constants by size, tensor parallelism and hardware.
    ///
    /// Compute grows with the parameters, the part of a step that reads the
    /// weights too; the KV bytes of a token grow about with the square root
    /// (131,072 at 8B, 327,680 at 70B). Splitting a layer costs about a fifth.
    fn model(&self, billions: f64, tp: f64) -> StepModel {
        let base = StepModel::H100_8B;
        let size = billions / 8.0;
        let split = if tp > 1.0 { 1.2 / tp } else { 1.0 };
        let kv = size.powf(0.42);
        let (host, weights) = (2.0, base.a - 2.0);
        let kv_gigabytes = (0.9 * self.gigabytes * tp - 2.0 * billions).max(0.05 * self.gigabytes * tp);
        StepModel {
            a: host + weights * size * split * self.memory,
            b: base.b * size * split * self.compute,
            c: base.c * size.sqrt() * split * self.compute,
            d: base.d * kv / tp * self.memory,
            e: base.e,
            cap: (kv_gigabytes / (131_072e-9 * kv)).round(),
            budget: BUDGET,
        }
    }
}

/// The words of a name, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .filter(|w| !w.is_empty())
        .map(str::to_ascii_lowercase)
}

/// `8b`, `1.5b`, `70b`: the size, when the word is one.
fn billions(word: &str) -> Option<f64> {
    let size: f64 = word.strip_suffix('b')?.parse().ok()?;
    (0.05..=2000.0).contains(&size).then_some(size)
}

/// `tp4`: the tensor parallelism, when the word says one.
fn parallel(word: &str) -> Option<f64> {
    let tp: f64 = word.strip_prefix("tp")?.parse().ok()?;
    (1.0..=64.0).contains(&tp).then_some(tp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_published_constants() {
        assert_eq!(StepModel::preset("h100-8b"), Some(StepModel::H100_8B));
        assert_eq!(StepModel::guess("h100-70b-tp4", "x"), StepModel::H100_70B_TP4);
        assert_eq!(StepModel::preset("h100"), None);
        let a100 = StepModel::preset("a100-8b").unwrap();
        assert!((a100.b / StepModel::H100_8B.b - 2.86).abs() < 0.01);
    }

    #[test]
    fn guesses_come_near_the_measured_presets() {
        for (accelerator, model, want) in [
            ("NVIDIA H100 80GB HBM3", "meta-llama/Llama-3.1-8B-Instruct", StepModel::H100_8B),
            ("nvidia-a100-sxm4-80gb", "tide-8b", StepModel::A100_8B),
            ("h100", "llama-3-70b", StepModel::H100_70B_TP4),
            ("h100", "Qwen3-32B", StepModel::H100_32B_TP2),
        ] {
            let got = StepModel::guess(accelerator, model);
            for (got, want) in
                [(got.a, want.a), (got.b, want.b), (got.c, want.c), (got.d, want.d), (got.cap, want.cap)]
            {
                let ratio: f64 = got / want;
                assert!((0.6..1.6).contains(&ratio), "{accelerator} {model}: {got} for {want}");
            }
        }
    }

    #[test]
    fn every_name_gives_a_valid_model() {
        for accelerator in ["", "h200", "b200", "v100", "l4", "mi300x", "abacus", "a100-tp8", "tp0-nan", "€"]
        {
            for model in ["", "gpt", "0b", "-3b", "nanb", "1e9b", "405b-fp8", "1.5B"] {
                let m = StepModel::guess(accelerator, model);
                assert!(m.valid(), "{accelerator} {model}: {m:?}");
            }
        }
        assert!(StepModel::guess("v100", "8b").b > 5.0 * StepModel::H100_8B.b);
        assert!(StepModel::guess("h200", "8b").cap > StepModel::H100_8B.cap);
        assert_eq!(StepModel::guess("what", "ever"), StepModel::guess("h100", "8b"));
    }
}
