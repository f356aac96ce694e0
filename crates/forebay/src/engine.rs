//! `forebay engine`

use std::process::ExitCode;
use std::time::Duration;

use forebay_engine::{Engine, EngineOptions, Exit};
use forebay_sim::engine::Profile;

use crate::cli::{EngineArgs, Failure};
use crate::signals::Signals;
use crate::{listening, logging};

/// The hardware profile of a name.
pub(crate) fn profile(name: &str) -> Result<&'static Profile, Failure> {
    Profile::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name).collect();
        Failure::Usage(format!("unknown profile \"{name}\"; there are {}", known.join(", ")))
    })
}

/// Runs a simulated model server until it is told to end.
pub(crate) fn run(args: EngineArgs) -> Result<ExitCode, Failure> {
    logging::start(&forebay_config::Log::default());
    crate::files::raise_limit();
    if !(args.time_scale.is_finite() && args.time_scale > 0.0) {
        return Err(Failure::Usage(format!("--time-scale: {} is not a number above 0", args.time_scale)));
    }
    let mut options = EngineOptions::new(args.model, profile(&args.profile)?);
    options.listen = args.listen;
    options.time_scale = args.time_scale;
    options.seed = args.seed;
    options.adapters = args.adapter;
    options.max_loras = args.max_loras;
    options.adapter_load = Duration::from_millis(args.adapter_load_ms);
    options.max_num_seqs = args.max_num_seqs;
    options.kv_tokens = args.kv_tokens;
    options.max_queued = args.max_queued;
    options.dialect = args.dialect;
    options.faults = args.faults;
    options.kv_events = args.kv_events;
    options.kv_replay = args.kv_replay;
    options.kv_topic = args.kv_topic;
    if let Some(len) = args.max_model_len {
        options.max_model_len = len;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("cannot start"))?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(Failure::doing("cannot wait for signals"))?;
        let engine = Engine::bind(options)
            .await
            .map_err(Failure::doing(format!("cannot listen on {}", args.listen)))?;
        listening::engine(engine.local_addr());
        match engine.run(signals.next()).await {
            Exit::Shutdown => Ok(ExitCode::SUCCESS),
            Exit::Crashed => Err(Failure::Failed("crashed, as commanded".to_owned())),
        }
    })
}
