use std::sync::mpsc;

use super::*;
use crate::{ChatTemplate, ModelLimits, TemplateOptions, Tokenizer};

const JINJA: &str =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";

fn tokenizer() -> Tokenizer {
    Tokenizer::from_json(include_bytes!("../../tests/data/bpe.json")).unwrap()
}

fn model(jinja: &str, options: TemplateOptions) -> Arc<Model> {
    let template = ChatTemplate::new(None, Some(jinja), options).unwrap();
    Arc::new(Model::new(tokenizer(), Some(template), ModelLimits::default()))
}

/// A model whose template waits until it is told to go on, and says when it waits.
fn slow() -> (Arc<Model>, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (go, gone) = mpsc::channel::<()>();
    let (at, there) = mpsc::channel();
    let ends = Mutex::new((gone, at));
    let options = TemplateOptions::default().clock(move |_| {
        let ends = ends.lock();
        let _ = ends.1.send(());
        ends.0.recv().ok().map(|()| "now".to_owned())
    });
    (model("{{ strftime_now('%Y') }}{{ messages[0].content }}", options), go, there)
}

fn body(text: &str) -> Bytes {
    Bytes::from(serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string())
}

fn limits() -> PoolLimits {
    PoolLimits { timeout: Duration::from_secs(60), ..PoolLimits::default() }
}

#[tokio::test]
async fn tokens_come_from_a_thread() {
    let pool = Pool::start(PoolLimits { workers: 0, ..limits() }).unwrap();
    let model = model(JINJA, TemplateOptions::default());
    let tokens = pool.tokens(&model, body("hello"), Api::Chat).await.unwrap();
    let text = "<|im_start|>user\nhello<|im_end|>\n";
    assert_eq!(*tokens, tokenizer().encode(text, false).unwrap());
    assert!(model.memo_bytes() > 0);
    let failed = |result: Result<_, NoTokens>| matches!(result, Err(NoTokens::Failed(Failure::Render(_))));
    assert!(failed(pool.tokens(&model, body("hello"), Api::Messages).await));
    assert!(failed(pool.tokens(&model, Bytes::from_static(b"{"), Api::Chat).await));
}

/// A request whose caller does not wait.
async fn left(pool: &Pool, model: &Arc<Model>, body: Bytes) {
    let answer = pool.tokens_within(Duration::ZERO, model, body, Api::Chat).await;
    assert_eq!(answer, Err(NoTokens::Slow));
}

#[tokio::test]
async fn who_waits_goes_first_and_late_answers_are_remembered() {
    let (slow, go, there) = slow();
    let fast = model(JINJA, TemplateOptions::default());
    let pool = Pool::start(limits()).unwrap();
    left(&pool, &slow, body("x")).await;
    there.recv().unwrap();
    left(&pool, &slow, body("y")).await;
    let known = slow.memo_bytes();
    let (answer, ()) = tokio::join!(pool.tokens(&fast, body("z"), Api::Chat), async { go.send(()).unwrap() });
    // Although `y` came before.
    assert!(answer.is_ok());
    assert_eq!(pool.late(), 1);
    assert!(slow.memo_bytes() > known);
    there.recv().unwrap();
    go.send(()).unwrap();
    // There is one thread, so that `y` is done when this is.
    assert!(pool.tokens(&fast, body("z"), Api::Chat).await.is_ok());
    assert_eq!((pool.late(), pool.waiting()), (2, 0));
}

#[tokio::test]
async fn a_full_queue_is_said_at_once() {
    let (slow, go, there) = slow();
    let fast = model(JINJA, TemplateOptions::default());
    let pool = Pool::start(PoolLimits { queue: 2, ..limits() }).unwrap();
    left(&pool, &slow, body("x")).await;
    there.recv().unwrap();
    // The thread is at that one; two more may wait, and those that nobody waits
    // for make room.
    for text in ["a", "b", "c"] {
        left(&pool, &fast, body(text)).await;
    }
    assert_eq!((pool.waiting(), pool.dropped()), (2, 1));
    let (d, e, f) = tokio::join!(
        pool.tokens(&fast, body("d"), Api::Chat),
        pool.tokens(&fast, body("e"), Api::Chat),
        async {
            let answer = pool.tokens(&fast, body("f"), Api::Chat).await;
            go.send(()).unwrap();
            answer
        }
    );
    assert!(d.is_ok() && e.is_ok());
    assert_eq!(f, Err(NoTokens::Busy));
    assert_eq!((pool.dropped(), pool.late(), pool.waiting(), pool.panics()), (3, 1, 0, 0));
}

#[tokio::test]
async fn waiting_bodies_are_bounded_in_bytes() {
    let (slow, go, there) = slow();
    let pool = Pool::start(PoolLimits { timeout: Duration::ZERO, queue_bytes: 300, ..PoolLimits::default() })
        .unwrap();
    assert_eq!(pool.tokens(&slow, body("x"), Api::Chat).await, Err(NoTokens::Slow));
    there.recv().unwrap();
    let large = body(&"x".repeat(300));
    assert_eq!(pool.tokens(&slow, large, Api::Chat).await, Err(NoTokens::Busy));
    for _ in 0..2 {
        assert_eq!(pool.tokens(&slow, body(&"x".repeat(200)), Api::Chat).await, Err(NoTokens::Slow));
    }
    assert_eq!((pool.waiting(), pool.dropped()), (1, 1));
    drop(go);
}

#[tokio::test]
async fn a_panic_costs_one_answer() {
    let pool = Pool::start(limits()).unwrap();
    // As a panic, but without a word on standard error.
    let options = TemplateOptions::default().clock(|_| std::panic::resume_unwind(Box::new(())));
    let broken = model("{{ strftime_now('%Y') }}", options);
    let answer = pool.tokens(&broken, body("x"), Api::Chat).await;
    assert_eq!(answer, Err(NoTokens::Failed(Failure::Encode)));
    assert_eq!(pool.panics(), 1);
    assert!(pool.tokens(&model(JINJA, TemplateOptions::default()), body("x"), Api::Chat).await.is_ok());
}

#[tokio::test]
async fn a_model_that_is_off_is_not_asked() {
    let pool = Pool::start(limits()).unwrap();
    let model = model(JINJA, TemplateOptions::default());
    for _ in 0..3 {
        model.observe(5, 6);
    }
    assert_eq!(pool.tokens(&model, body("x"), Api::Chat).await, Err(NoTokens::Off));
    assert_eq!(model.exactness().different(), 3);
}

#[tokio::test]
async fn threads_end_with_the_pool() {
    let pool = Pool::start(PoolLimits { workers: 3, ..limits() }).unwrap();
    let shared = Arc::downgrade(&pool.shared);
    drop(pool);
    // Each thread holds the queue until it ends.
    while shared.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}
