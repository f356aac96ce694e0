use std::sync::Weak;

use forebay_config::{Config, Endpoint as Configured, Listener, Pool};
use forebay_core::{Outcome, Prefix, RequestFacts, Usage};
use forebay_prefix::{Kind, chain, seed, token_blocks};
use forebay_wire::kv_events::{Attention, KvEvent, Removed, Stored, Tier};

use super::*;
use crate::gateway::Gateway;

const URL: &str = "http://127.0.0.1:1";

/// A gateway before one endpoint, and what engines' events would come to.
struct Bench {
    gateway: Gateway,
    caches: Arc<Caches>,
    key: EndpointKey,
    seq: std::cell::Cell<u64>,
}

impl Bench {
    fn new() -> Bench {
        let mut pool = Pool::new("chat", "m");
        pool.health.enabled = false;
        pool.scrape.enabled = false;
        pool.endpoints.push(Configured::new(URL.parse().unwrap()));
        let free = ([127, 0, 0, 1], 0).into();
        let config = Config {
            listen: vec![Listener { address: free, client_half_close: false }],
            admin: free,
            workers: 1,
            pools: vec![pool],
            ..Config::default()
        };
        let gateway = Gateway::start(config, None, Some(1)).map_err(|e| e.to_string()).unwrap();
        let proxy = Arc::clone(gateway.proxy());
        let views = proxy.live().endpoints();
        let key = views[0].key;
        let caches =
            Arc::new(Caches::new(Arc::clone(&proxy), views.into_iter().map(|view| (view, "m")), 64 << 20));
        let told: Arc<dyn EngineCaches> = Arc::<Caches>::clone(&caches);
        let told: Weak<dyn EngineCaches> = Arc::downgrade(&told);
        proxy.live().set_engine_caches(told);
        Bench { gateway, caches, key, seq: std::cell::Cell::new(0) }
    }

    fn live(&self) -> &Arc<Live<Endpoint>> {
        self.gateway.proxy().live()
    }

    fn end(self) {
        self.gateway.proxy().set_phase(forebay_proxy::DrainPhase::Closing);
    }

    fn batch(&self, rank: u32, events: Vec<KvEvent>) {
        let seq = self.seq.replace(self.seq.get() + 1);
        self.caches.batch(URL, rank, seq, &Batch { ts: 0.0, dp_rank: Some(rank), events, skipped: 0 });
    }

    /// A rank stores the whole of a prompt, under names of its process.
    fn stores(&self, rank: u32, process: u64, prompt: u32) {
        self.batch(rank, vec![stored(process, prompt)]);
    }

    /// Of the prompt's ten blocks, those that the endpoint is thought to hold.
    fn held(&self, prompt: u32) -> u32 {
        let mut facts = facts(prompt);
        self.live().look_up(&mut facts);
        facts.prefix.matches.first().map_or(0, |held| held.tokens / 64)
    }

    /// A prompt is sent and answered, with so many of its tokens cached.
    async fn serve(&self, prompt: u32, cached: u64) {
        let ticket = self.live().admit(facts(prompt)).await.unwrap();
        let usage = Usage {
            prompt_tokens: 700,
            completion_tokens: 5,
            cached_tokens: cached,
            cached_known: true,
            estimated: false,
        };
        ticket.settle(Outcome {
            end: forebay_core::EndKind::Finished,
            ttft: Some(Duration::from_millis(5)),
            duration: Duration::from_millis(9),
            usage: Some(usage),
        });
    }
}

fn tokens(prompt: u32) -> Vec<u32> {
    (0..640).map(|n| prompt * 10_000 + n).collect()
}

fn facts(prompt: u32) -> RequestFacts {
    let blocks = token_blocks(&tokens(prompt), 64);
    let chain = chain(seed("m", None, None, Kind::Tokens), &blocks);
    let prefix = Prefix { chain, block_tokens: 64.0, exact: true, ..Prefix::default() };
    RequestFacts { prompt_tokens: 700, prefix, ..RequestFacts::default() }
}

fn names(process: u64, prompt: u32) -> Vec<u64> {
    (0..40).map(|n| process << 40 | u64::from(prompt) << 20 | n).collect()
}

fn stored(process: u64, prompt: u32) -> KvEvent {
    KvEvent::Stored(Stored {
        hashes: names(process, prompt),
        parent: None,
        tokens: tokens(prompt),
        block_size: 16,
        declared: true,
        adapter: None,
        salt: None,
        tier: Tier::Gpu,
        group: None,
        attention: Attention::Unknown,
        identified: 40,
    })
}

#[test]
fn a_rank_that_began_anew_takes_nothing_of_the_others() {
    let bench = Bench::new();
    bench.stores(0, 1, 1);
    bench.stores(1, 1, 2);
    assert_eq!((bench.held(1), bench.held(2)), (10, 10));
    // The engine restarts. Its first rank says so at once …
    bench.caches.reset(URL, 0, KvReset::Restarted);
    assert_eq!(bench.held(1), 0);
    bench.stores(0, 2, 3);
    bench.stores(0, 2, 1);
    // … and the second with its first batch, seconds later.
    bench.caches.reset(URL, 1, KvReset::Restarted);
    bench.stores(1, 2, 4);
    assert_eq!([1, 2, 3, 4].map(|prompt| bench.held(prompt)), [10, 0, 10, 10]);
    // Later only one of them crashes.
    bench.caches.reset(URL, 0, KvReset::Restarted);
    assert_eq!([1, 3, 4].map(|prompt| bench.held(prompt)), [0, 0, 10]);
    bench.stores(0, 3, 1);
    assert_eq!([1, 3, 4].map(|prompt| bench.held(prompt)), [10, 0, 10]);
    bench.end();
}

#[test]
fn ranks_that_begin_anew_together_are_one_restart() {
    let (mut ranks, at) = (Ranks::default(), |s| Time::ZERO + Duration::from_secs(s));
    (0..3).for_each(|rank| ranks.speaks(rank));
    assert!(ranks.restarted(0, at(1)));
    assert!(!ranks.restarted(1, at(500)), "an idle rank shows it late");
    ranks.speaks(3);
    assert!(!ranks.restarted(2, at(501)));
    assert!(ranks.restarted(3, at(502)), "it was not there before");
    assert!(!ranks.restarted(0, at(503)));
    assert!(ranks.restarted(0, at(504)), "again and again");
    assert!(ranks.restarted_just_now(0, at(505)) && !ranks.restarted_just_now(2, at(600)));
}

#[test]
fn a_restart_that_pages_show_first_is_known_to_the_map() {
    let bench = Bench::new();
    bench.stores(0, 1, 1);
    bench.live().restarted(bench.key);
    assert_eq!(bench.held(1), 0);
    // SGLang's names are the same in every process.
    bench.stores(0, 1, 1);
    assert_eq!(bench.held(1), 10, "what is stored again is there again");
    let blocks = bench.caches.blocks();
    assert_eq!((blocks.stored, blocks.repeated), (80, 0), "nothing of it was there");
    bench.end();
}

#[test]
fn a_restart_that_pages_show_later_takes_the_ranks_that_were_silent_about_it() {
    let bench = Bench::new();
    bench.stores(0, 1, 1);
    bench.stores(1, 1, 2);
    bench.caches.reset(URL, 0, KvReset::Restarted);
    bench.stores(0, 2, 3);
    bench.live().restarted(bench.key);
    assert_eq!([1, 2, 3].map(|prompt| bench.held(prompt)), [0, 0, 10]);
    bench.end();
}

#[tokio::test]
async fn answers_tell_what_a_silent_engine_holds() {
    let bench = Bench::new();
    bench.stores(0, 1, 1);
    bench.stores(0, 1, 2);
    // What the engine says is so, and what it does not say is not there.
    bench.serve(1, 0).await;
    bench.serve(3, 0).await;
    assert_eq!((bench.held(1), bench.held(3)), (10, 0));

    bench.caches.silent(URL, 0);
    assert!(bench.held(1) >= 7 && bench.held(2) >= 7, "it should be there still");
    bench.serve(3, 0).await;
    assert!(bench.held(3) >= 7, "what is served is held");
    let ticket = bench.live().admit(facts(1)).await.unwrap();
    let usage = Usage { prompt_tokens: 700, cached_known: true, ..Usage::default() };
    let outcome = Outcome::without_answer(forebay_core::EndKind::Cancelled, Duration::from_millis(9));
    ticket.settle(Outcome { usage: Some(usage), ..outcome });
    assert_eq!(bench.held(1), 0, "the answer had none of it");

    // Nothing was missed, so that the engine's word counts again.
    bench.caches.heard(URL, 0);
    bench.batch(
        0,
        vec![KvEvent::Removed(Removed { hashes: names(1, 2), tier: Some(Tier::Gpu), group: None })],
    );
    assert_eq!((bench.held(1), bench.held(2)), (10, 0));
    bench.serve(4, 0).await;
    assert_eq!(bench.held(4), 0, "what is served is the engine's to tell");

    // It falls silent again and was another process when it came back.
    bench.caches.silent(URL, 0);
    bench.caches.reset(URL, 0, KvReset::Restarted);
    bench.caches.heard(URL, 0);
    bench.stores(0, 2, 5);
    assert_eq!([1, 2, 3, 5].map(|prompt| bench.held(prompt)), [0, 0, 0, 10]);
    bench.end();
}

#[tokio::test]
async fn an_engine_is_heard_when_all_of_its_ranks_are() {
    let bench = Bench::new();
    bench.stores(0, 1, 1);
    bench.stores(1, 1, 2);
    bench.caches.silent(URL, 1);
    bench.stores(0, 1, 3);
    assert!(bench.held(3) >= 8, "the other rank goes on telling");
    bench.serve(4, 0).await;
    assert!(bench.held(4) > 0, "the silent one may have it");
    bench.caches.silent(URL, 0);
    bench.caches.heard(URL, 1);
    bench.serve(5, 0).await;
    assert!(bench.held(5) > 0);
    bench.caches.heard(URL, 0);
    bench.serve(6, 0).await;
    assert_eq!([1, 2, 3, 6].map(|prompt| bench.held(prompt)), [10, 10, 10, 0]);
    bench.end();
}

#[test]
fn what_is_not_indexed_is_counted() {
    let bench = Bench::new();
    bench.stores(0, 1, 1);
    let KvEvent::Stored(first) = stored(1, 2) else { unreachable!() };
    let unplaced = Stored { parent: Some(9), ..first.clone() };
    let opaque = Stored { identified: 4, ..first };
    bench.batch(0, vec![KvEvent::Stored(unplaced), KvEvent::Stored(opaque)]);
    let blocks = bench.caches.blocks();
    assert_eq!((blocks.stored, blocks.unplaced, blocks.opaque), (44, 40, 36));
    assert!(bench.caches.bytes() > 44 * 100);
    bench.end();
}
