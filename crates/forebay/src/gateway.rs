//! The gateway: wires the data plane, the fleet and the control plane together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_config::{Config, Engine, Host, Pool, Protocol};
use forebay_core::{EndpointFacts, EndpointState, PoolId};
use forebay_fleet::kv::{KvFeeds, KvSettings};
use forebay_fleet::{Fleet, HttpProbe, ScrapeTarget, Target};
use forebay_live::{EndpointKey, EngineCaches, Live, LogOptions};
use forebay_metrics::{EndpointStateLabel, Metrics};
use forebay_net::upstream::{Upstream, UpstreamOptions};
use forebay_prefix::IndexConfig;
use forebay_proxy::{DrainPhase, Endpoint, Proxy, RegistryBuilder, Settings, Versions};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cli::Failure;
use crate::control::Watched;
use crate::kv::{Caches, KvSources};
use crate::members::{Members, Traffic};
use crate::pools::{gate_config, scrape_target};
use crate::prefix_snapshot::{self, Keeper};
use crate::signals_table::SignalsTable;
use crate::status::{self, Sources, StatusPage};
use crate::tokenizers;

/// Unused connections to engines are closed after this; uvicorn, and with it
/// vLLM, closes them after 5 s.
const UPSTREAM_IDLE: Duration = Duration::from_secs(4);

/// A running gateway.
pub(crate) struct Gateway {
    proxy: Arc<Proxy>,
    page: Arc<StatusPage>,
    config: Config,
    listen: Vec<SocketAddr>,
    admin: SocketAddr,
    /// Each worker holds a sender; all are gone when all have ended.
    ended: mpsc::Receiver<()>,
    admin_listener: Option<std::net::TcpListener>,
    _fleet: Arc<Fleet<Members>>,
    _feeds: Option<Feeds>,
    /// Dropped at the end: the last snapshot is what the next process reads.
    _snapshot: Option<Keeper>,
}

/// How a drain ended.
pub(crate) enum Drained {
    /// Everything that was under way was finished.
    Whole,
    /// The limit was reached with so many requests and connections left.
    Cut { requests: u32, connections: u32 },
}

impl Gateway {
    /// Binds, starts the workers and the probes. Without a seed one is drawn.
    #[expect(clippy::disallowed_methods, reason = "model cards carry the Unix time of the start")]
    pub(crate) fn start(config: Config, file: Option<String>, seed: Option<u64>) -> Result<Gateway, Failure> {
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let workers = match config.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        // Bound before anything is started: an address in use must cost nothing.
        let mut sockets: Vec<Vec<(std::net::TcpListener, bool)>> = (0..workers).map(|_| Vec::new()).collect();
        let mut listen = Vec::new();
        for listener in &config.listen {
            let doing = |e| Failure::Failed(format!("cannot listen on {}: {e}", listener.address));
            forebay_net::ensure_free(listener.address).map_err(doing)?;
            let bound = forebay_net::bind(listener.address, workers).map_err(doing)?;
            if let Some(first) = bound.first() {
                listen.push(first.local_addr().map_err(doing)?);
            }
            for (worker, socket) in sockets.iter_mut().zip(bound) {
                worker.push((socket, listener.client_half_close));
            }
        }
        let doing =
            |e: std::io::Error| Failure::Failed(format!("cannot listen on {} (admin): {e}", config.admin));
        let admin_listener = std::net::TcpListener::bind(config.admin).map_err(doing)?;
        admin_listener.set_nonblocking(true).map_err(doing)?;
        let admin = admin_listener.local_addr().map_err(doing)?;

        let shares = config.prefix_index.shares(&config.pools);
        let index = IndexConfig { max_bytes: shares.indexes, ..IndexConfig::default() };
        let live = Arc::new(Live::new(forebay_config::groups(&config.pools), seed, index));
        if let Some(log) = &config.decision_log {
            let options = LogOptions { path: log.path.clone(), max_bytes: log.max_bytes };
            live.record(&options).map_err(|e| {
                Failure::Failed(format!("cannot write the decision log {}: {e}", log.path.display()))
            })?;
        }
        let targets = join_endpoints(&config, &live, &metrics, workers);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let registry = RegistryBuilder::build(&config, &metrics, created);
        tokenizers::load(&config, &registry, &metrics)?;
        let settings = Settings {
            limits: config.limits,
            endpoint_header: config.response_headers.endpoint,
            server_timing: config.response_headers.server_timing,
            held_tokens_header: config.response_headers.held_tokens,
            trust_control_headers: config.trust_control_headers,
            access_log: config.log.access,
        };
        let id_seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
        let proxy = Arc::new(Proxy::new(Arc::clone(&live), registry, settings, metrics, id_seed));

        let snapshot = match &config.prefix_index.snapshot {
            Some(path) => {
                prefix_snapshot::check(path, &live).map_err(|why| {
                    Failure::Usage(format!("prefix_index.snapshot: {}: {why}", path.display()))
                })?;
                prefix_snapshot::restore(path, &live);
                let every = config.prefix_index.snapshot_interval;
                let keeper = Keeper::start(path.clone(), every, Arc::clone(&live));
                Some(keeper.map_err(Failure::doing("cannot start writing snapshots"))?)
            }
            None => None,
        };
        let table = Arc::new(SignalsTable::default());
        let members = Arc::new(Members::new(Arc::clone(&proxy), Arc::clone(&table), &config));
        let fleet = Fleet::start(Arc::clone(&members), HttpProbe::new(), id_seed)
            .map_err(Failure::doing("cannot start the probes"))?;
        let fleet = Arc::new(fleet);
        members.set_warm_ups(Arc::downgrade(fleet.warm_ups()));
        fleet.set_targets(targets.probes.clone());
        for (key, endpoint) in members.endpoints() {
            if let Some(evidence) = fleet.evidence(key) {
                let fleet = Arc::downgrade(&fleet);
                endpoint.set_signals(Arc::new(Traffic { evidence, fleet, id: key }));
            }
        }
        fleet.set_scrape_targets(targets.scrapes.clone());
        let feeds = Feeds::start(&config, &proxy)?;

        let (alive, ended) = mpsc::channel(1);
        for (worker, sockets) in sockets.into_iter().enumerate() {
            start_worker(worker, sockets, Arc::clone(&proxy), alive.clone())?;
        }
        let sources = Sources {
            proxy: Arc::clone(&proxy),
            members,
            fleet: Arc::downgrade(&fleet),
            watched: targets,
            table,
            feeds: feeds.as_ref().map(|feeds| Arc::clone(&feeds.feeds)),
            caches: feeds.as_ref().map(|feeds| Arc::clone(&feeds.caches)),
        };
        let page = Arc::new(StatusPage::new(sources, config.clone(), file));
        Ok(Gateway {
            proxy,
            page,
            config,
            listen,
            admin,
            ended,
            admin_listener: Some(admin_listener),
            _fleet: fleet,
            _feeds: feeds,
            _snapshot: snapshot,
        })
    }

    /// Where clients connect.
    pub(crate) fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// Where the control plane listens.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The data plane.
    pub(crate) fn proxy(&self) -> &Arc<Proxy> {
        &self.proxy
    }

    /// What the control plane shows and changes.
    #[cfg(test)]
    pub(crate) fn page(&self) -> &Arc<StatusPage> {
        &self.page
    }

    /// Serves the control plane from the runtime this is called on.
    pub(crate) fn serve_admin(&mut self) -> Result<(), Failure> {
        let Some(listener) = self.admin_listener.take() else { return Ok(()) };
        let listener = TcpListener::from_std(listener).map_err(Failure::doing("control plane"))?;
        let page: Arc<StatusPage> = Arc::clone(&self.page);
        tokio::spawn(status::watch_fallbacks(Arc::clone(&page)));
        // It answers until the process ends, also while draining.
        tokio::spawn(forebay_admin::serve(listener, page, std::future::pending::<()>()));
        Ok(())
    }

    /// Ends gracefully: says so, goes on accepting for a while, then finishes
    /// what is under way within the limit.
    pub(crate) async fn drain(mut self) -> Drained {
        let drain = self.config.drain;
        self.proxy.metrics().set_draining(true);
        self.proxy.set_phase(DrainPhase::Announcing);
        tokio::time::sleep(drain.delay).await;
        self.proxy.set_phase(DrainPhase::Closing);
        let drained = match tokio::time::timeout(drain.limit, self.ended.recv()).await {
            Ok(_) => Drained::Whole,
            Err(_) => Drained::Cut {
                requests: self.proxy.requests_in_flight(),
                connections: self.proxy.open_connections(),
            },
        };
        self.proxy.live().end_record();
        drained
    }
}

/// Makes pools and endpoints known to their Gates; returns what is to be
/// probed and scraped.
fn join_endpoints(config: &Config, live: &Live<Endpoint>, metrics: &Metrics, workers: usize) -> Watched {
    let versions = Versions::of(config);
    let mut probes: BTreeMap<EndpointKey, Target<_>> = BTreeMap::new();
    let mut scrapes: BTreeMap<EndpointKey, ScrapeTarget<_>> = BTreeMap::new();
    for (i, pool) in config.pools.iter().enumerate() {
        let id = PoolId(i as u32);
        live.configure(id, gate_config(pool));
        for endpoint in &pool.endpoints {
            let upstream = upstream(pool, endpoint, metrics, workers);
            let member = Endpoint::new(
                endpoint.name.clone(),
                endpoint.url.authority(),
                endpoint.url.path_prefix.clone(),
                Arc::new(upstream),
            );
            member.set_names_adapters_on_base(pool.engine == Engine::Sglang);
            // Without probes and warm-up there is nobody to wait for.
            let watched = pool.health.enabled || pool.warm_up.requests > 0;
            let state = if watched { EndpointState::Starting } else { EndpointState::Ready };
            if let Some(label) = EndpointStateLabel::from_word(state.as_str()) {
                member.upstream().metrics().state(label);
            }
            let facts = EndpointFacts {
                name: endpoint.name.clone(),
                weight: endpoint.weight,
                accelerator: endpoint.accelerator.clone(),
                version: endpoint.version.as_deref().and_then(|version| versions.id(version)),
            };
            let Some(key) = live.join(id, facts, state, Arc::new(member)) else { continue };
            if pool.scrape.enabled {
                scrapes.entry(key).or_insert_with(|| scrape_target(key, pool, endpoint));
            }
            if watched {
                // An endpoint that speaks only HTTP/2 must be asked in it.
                let url = match pool.protocol {
                    Protocol::H2c => endpoint.url.to_string().replacen("http://", "h2c://", 1),
                    Protocol::Http1 => endpoint.url.to_string(),
                };
                let health = pool.health.clone();
                probes.entry(key).or_insert(Target {
                    id: key,
                    url,
                    health,
                    key: pool.engine_key.clone(),
                    paused: false,
                });
            }
        }
    }
    Watched { probes: probes.into_values().collect(), scrapes: scrapes.into_values().collect() }
}

/// Subscriptions to what engines say of their caches, on a runtime of their own.
struct Feeds {
    feeds: Arc<KvFeeds>,
    caches: Arc<Caches>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Feeds {
    fn drop(&mut self) {
        // Nobody waits for it: it may be dropped where nothing may block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Feeds {
    /// None when no engine is configured to say anything.
    fn start(config: &Config, proxy: &Arc<Proxy>) -> Result<Option<Feeds>, Failure> {
        let sources = KvSources::new(config).map_err(|e| Failure::Usage(format!("kv_events: {e}")))?;
        if sources.is_empty() {
            return Ok(None);
        }
        let followed = proxy.live().endpoints().into_iter().filter_map(|view| {
            let model = sources.models.get(&view.member.name)?;
            Some((view, &**model))
        });
        let most = config.prefix_index.shares(&config.pools).engines;
        let caches = Arc::new(Caches::new(Arc::clone(proxy), followed, most));
        let told: Arc<dyn EngineCaches> = Arc::<Caches>::clone(&caches);
        proxy.live().set_engine_caches(Arc::downgrade(&told));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("forebay-kv-events")
            .enable_all()
            .build()
            .map_err(Failure::doing("cannot start following KV events"))?;
        let sink = Arc::<Caches>::clone(&caches);
        let feeds = KvFeeds::new(runtime.handle().clone(), sink, KvSettings::default());
        sources.follow(&feeds);
        Ok(Some(Feeds { feeds: Arc::new(feeds), caches, runtime: Some(runtime) }))
    }
}

fn upstream(pool: &Pool, endpoint: &forebay_config::Endpoint, metrics: &Metrics, workers: usize) -> Upstream {
    let host = match &endpoint.url.host {
        Host::Ip(ip) => ip.to_string(),
        Host::Scoped(ip, zone) => format!("{ip}%{zone}"),
        Host::Name(name) => name.clone(),
    };
    let options = UpstreamOptions {
        host,
        port: endpoint.url.port,
        h2c: pool.protocol == Protocol::H2c,
        h2_connections: pool.h2_connections as usize,
        connect_timeout: pool.timeouts.connect,
        max_dials: pool.max_dials as usize,
        idle_timeout: UPSTREAM_IDLE,
        workers,
    };
    Upstream::new(options, metrics.endpoint(&pool.name, &endpoint.name))
}

/// One thread with a runtime of its own and its own accept sockets.
fn start_worker(
    worker: usize,
    sockets: Vec<(std::net::TcpListener, bool)>,
    proxy: Arc<Proxy>,
    alive: mpsc::Sender<()>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("cannot start a worker"))?;
    let listeners = {
        let _inside = runtime.enter();
        sockets
            .into_iter()
            .map(|(socket, half_close)| Ok((TcpListener::from_std(socket)?, half_close)))
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(Failure::doing("cannot start a worker"))?
    };
    std::thread::Builder::new()
        .name(format!("forebay-worker-{worker}"))
        .spawn(move || {
            runtime.block_on(forebay_proxy::serve(proxy, worker, listeners));
            drop(alive);
        })
        .map_err(Failure::doing("cannot start a worker"))?;
    Ok(())
}
