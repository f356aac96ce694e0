//! `forebay demo`: engines, gateway and traffic in one process.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use forebay_config::{Config, Endpoint, Listener, PolicyKind, Pool};
use forebay_core::PoolId;
use forebay_engine::{Engine, EngineHandle, EngineOptions};
use forebay_load::{DemoOptions, DemoTraffic, EndpointShare, Finished, Live, run_demo_traffic};
use tokio::sync::watch;

use crate::cli::{DemoArgs, Failure};
use crate::engine::profile;
use crate::gateway::Gateway;
use crate::logging;
use crate::replay::report;
use crate::screen::{Screen, comparison};
use crate::signals::Signals;

/// The model that the demo's engines pretend to serve.
pub(crate) const MODEL: &str = "tide-7b";

/// The demo's hardware: half fast, half slower, as real fleets are.
const FLEET: [&str; 8] =
    ["h100-8b", "h100-8b", "h100-8b", "h100-8b", "a100-8b", "a100-8b", "a100-8b", "a100-8b"];

/// Engines, gateway and traffic until the time is over or Ctrl-C.
pub(crate) fn run(args: DemoArgs) -> Result<ExitCode, Failure> {
    let duration = match args.seconds {
        Some(s) if s.is_finite() && s > 0.0 && s < 1e6 => Some(Duration::from_secs_f64(s)),
        Some(s) => return Err(Failure::Usage(format!("--seconds: {s} is not a number above 0"))),
        None => None,
    };
    // What happens at the endpoints is on the screen; only trouble is logged.
    logging::start(&forebay_config::Log {
        level: forebay_config::LogLevel::Warn,
        ..forebay_config::Log::default()
    });
    crate::files::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::doing("cannot start"))?;
    let finished = runtime.block_on(demo(&args, duration));
    // Engines have nothing to finish that anyone waits for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    report(&finished?, args.json)
}

async fn demo(args: &DemoArgs, duration: Option<Duration>) -> Result<Finished, Failure> {
    let mut signals = Signals::new().map_err(Failure::doing("cannot wait for signals"))?;
    let engines = start_engines(args.seed).await?;
    let config = config(args.listen, args.policy, &engines)?;
    let mut gateway = Gateway::start(config, None, Some(args.seed))?;
    gateway.serve_admin()?;
    wait_ready(&gateway, engines.len()).await?;
    let url = match gateway.listen() {
        [first, ..] => format!("http://{first}"),
        [] => return Err(Failure::Failed("the gateway listens nowhere".to_owned())),
    };
    introduce(&url, &gateway, args, duration);

    let live = Arc::new(Live::default());
    let (stop, stopped) = watch::channel(false);
    let options = DemoOptions {
        url,
        model: MODEL.to_owned(),
        traffic: DemoTraffic::default(),
        seed: args.seed,
        duration,
        policy: Some(args.policy.to_string()),
        ..DemoOptions::default()
    };
    let mut screen = Screen::new(Arc::clone(&live), &engines, Arc::clone(gateway.proxy()), duration);
    let mut traffic = std::pin::pin!(run_demo_traffic(options, live, stopped));
    let mut asked_to_stop = false;
    let mut finished = loop {
        tokio::select! {
            finished = &mut traffic => break finished?,
            () = screen.tick() => {}
            () = signals.next() => {
                if asked_to_stop {
                    return Err(Failure::Failed("ended at once by a second signal".to_owned()));
                }
                asked_to_stop = true;
                screen.say("finishing what is in flight; Ctrl-C again ends at once");
                let _ = stop.send(true);
            }
        }
    };
    screen.clear();
    gateway.drain().await;
    name_engines(&mut finished.summary.endpoints, &engines);
    finished.remarks.push(comparison(&finished.summary, args.policy, args.seed, args.seconds));
    Ok(finished)
}

/// Names the engines as people know them, in their order, idle ones too.
fn name_engines(shares: &mut Vec<EndpointShare>, engines: &[DemoEngine]) {
    let named = engines.iter().map(|engine| {
        let address = engine.address.to_string();
        let share = shares.iter().find(|share| share.name.ends_with(&address)).cloned();
        let idle = EndpointShare { name: String::new(), requests: 0, share: 0.0, prefix_hit: None };
        EndpointShare { name: engine.label.clone(), ..share.unwrap_or(idle) }
    });
    *shares = named.collect();
}

/// One simulated engine of the demo.
pub(crate) struct DemoEngine {
    /// For people: which it is and what hardware.
    pub(crate) label: String,
    pub(crate) address: SocketAddr,
    pub(crate) handle: EngineHandle,
}

async fn start_engines(seed: u64) -> Result<Vec<DemoEngine>, Failure> {
    let mut engines = Vec::new();
    for (i, hardware) in FLEET.into_iter().enumerate() {
        let mut options = EngineOptions::new(MODEL, profile(hardware)?);
        options.seed = seed;
        let engine = Engine::bind(options).await.map_err(Failure::doing("cannot start an engine"))?;
        let label = format!("{}-{hardware}", i + 1);
        engines.push(DemoEngine { label, address: engine.local_addr(), handle: engine.handle() });
        tokio::spawn(engine.run(std::future::pending::<()>()));
    }
    Ok(engines)
}

fn config(listen: SocketAddr, policy: PolicyKind, engines: &[DemoEngine]) -> Result<Config, Failure> {
    let mut pool = Pool::new("demo", MODEL);
    pool.policy = policy;
    for engine in engines {
        let url =
            format!("http://{}", engine.address).parse().map_err(Failure::doing("cannot name an engine"))?;
        // No weights: what the hardware is worth is for the policy to find out.
        pool.endpoints.push(Endpoint::new(url));
    }
    let mut config = Config {
        listen: vec![Listener { address: listen, client_half_close: false }],
        admin: SocketAddr::from(([127, 0, 0, 1], 0)),
        pools: vec![pool],
        ..Config::default()
    };
    config.response_headers.endpoint = true;
    config.drain.delay = Duration::ZERO;
    Ok(config)
}

async fn wait_ready(gateway: &Gateway, engines: usize) -> Result<(), Failure> {
    let ready = async {
        while gateway.proxy().live().pool(PoolId(0)).map_or(0, |pool| pool.ready) < engines {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ready)
        .await
        .map_err(|_| Failure::Failed("the simulated engines did not become ready within 20 s".to_owned()))
}

fn introduce(url: &str, gateway: &Gateway, args: &DemoArgs, duration: Option<Duration>) {
    let until = duration.map_or_else(|| "until Ctrl-C".to_owned(), |d| format!("for {} s", d.as_secs_f64()));
    eprintln!("Forebay demo: 8 simulated engines (4 H100, 4 A100) behind one gateway, {until}");
    eprintln!("  policy   {}   seed {}", args.policy, args.seed);
    eprintln!("  gateway  {url}/v1        admin http://{}/", gateway.admin());
    eprintln!("  try      curl {url}/v1/chat/completions -H 'content-type: application/json' \\");
    eprintln!(
        "             -d '{{\"model\":\"{MODEL}\",\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}],\"stream\":true}}'"
    );
    eprintln!();
}
