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

#[tokio::test]
async fn a_late_answer_is_remembered_and_a_full_queue_is_said_at_once() {
    let (slow, go, there) = slow();
    let fast = model(JINJA, TemplateOptions::default());
    let patient = Pool::start(PoolLimits { queue: 2, ..limits() }).unwrap();
    let pool = Pool {
        shared: Arc::clone(&patient.shared),
        limits: PoolLimits { timeout: Duration::from_millis(1), ..patient.limits },
    };
    assert_eq!(pool.tokens(&slow, body("x"), Api::Chat).await, Err(NoTokens::Slow));
    there.recv().unwrap();
    // The thread is at that one; two more may wait.
    assert_eq!(pool.tokens(&fast, body("a"), Api::Chat).await, Err(NoTokens::Slow));
    assert_eq!(pool.tokens(&fast, body("b"), Api::Chat).await, Err(NoTokens::Slow));
    assert_eq!((pool.waiting(), fast.memo_bytes()), (2, 0));
    assert_eq!(patient.tokens(&fast, body("c"), Api::Chat).await, Err(NoTokens::Busy));
    go.send(()).unwrap();
    // Served after the others, since there is one thread.
    let served = async {
        loop {
            match patient.tokens(&fast, body("d"), Api::Chat).await {
                Err(NoTokens::Busy) => tokio::task::yield_now().await,
                served => return served,
            }
        }
    };
    assert!(served.await.is_ok());
    assert_eq!((patient.late(), patient.waiting(), patient.panics()), (3, 0, 0));
    assert!(slow.memo_bytes() > 0 && fast.memo_bytes() > 0);
}

#[tokio::test]
async fn waiting_bodies_are_bounded_in_bytes() {
    let (slow, go, there) = slow();
    let pool = Pool::start(PoolLimits { timeout: Duration::ZERO, queue_bytes: 300, ..PoolLimits::default() })
        .unwrap();
    assert_eq!(pool.tokens(&slow, body("x"), Api::Chat).await, Err(NoTokens::Slow));
    there.recv().unwrap();
    assert_eq!(pool.tokens(&slow, body(&"x".repeat(200)), Api::Chat).await, Err(NoTokens::Slow));
    assert_eq!(pool.tokens(&slow, body(&"x".repeat(200)), Api::Chat).await, Err(NoTokens::Busy));
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
