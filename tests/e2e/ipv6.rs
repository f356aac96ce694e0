//! B58: IPv6 addresses, in brackets where they must be and one identity each.

use forebay_tests::backend::Backend;
use forebay_tests::bodies::{CHAT, OK_JSON, polite};
use forebay_tests::client;
use forebay_tests::config::Config;
use forebay_tests::exposition;
use forebay_tests::gateway::{Gateway, binary};
use forebay_tests::http1;
use forebay_tests::tempdir::TempDir;

use crate::common::wait_endpoints;

#[tokio::test]
async fn b58_ipv6_endpoint_and_listener() {
    let backend = Backend::start_at("[::1]:0", polite).await;
    let port = backend.addr().port();
    let config = Config::chat([backend.url().as_str()])
        .listen("\"[::1]:0\"")
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    assert!(gateway.addr().is_ipv6());
    let request = http1::request("POST", CHAT, &[("Host", &gateway.addr().to_string())], OK_JSON);
    let response = client::exchange(gateway.addr(), &request).await;
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.head.all("x-forebay-endpoint"), [format!("http://[::1]:{port}")]);
    assert_eq!(backend.request(0).await.head.all("host"), [format!("[::1]:{port}")]);
    // Its probes worked (it is ready), and its series can be parsed and say its name in one form.
    let page = gateway.metrics().await;
    let name = format!("http://[::1]:{port}");
    assert_eq!(exposition::sum(&page, "forebay_endpoint_inflight", &[("endpoint", &name)]), Some(0.0));
    assert_eq!(
        exposition::sum(&page, "forebay_endpoint_state", &[("endpoint", &name), ("state", "ready")]),
        Some(1.0)
    );
}

#[tokio::test]
async fn b58_listener_on_all_addresses_serves_both_families() {
    let backend = Backend::start(polite).await;
    let gateway = Gateway::start(&Config::chat([backend.url().as_str()]).listen("\"[::]:0\"")).await;
    let port = gateway.addr().port();
    for addr in [format!("[::1]:{port}"), format!("127.0.0.1:{port}")] {
        let response = client::post(addr.parse().unwrap(), CHAT, OK_JSON).await;
        assert_eq!(response.status(), 200, "{addr}");
    }
}

#[tokio::test]
async fn b58_ipv4_mapped_address_reaches_the_ipv4_engine() {
    let backend = Backend::start(polite).await;
    let url = format!("http://[::ffff:127.0.0.1]:{}", backend.addr().port());
    let gateway = Gateway::start(&Config::chat([url.as_str()])).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn b58_other_spellings_are_the_same_endpoint() {
    let backend = Backend::start_at("[::1]:0", polite).await;
    let port = backend.addr().port();
    for spelling in [
        format!("http://[0:0:0:0:0:0:0:1]:{port}"),
        format!("http://[0000:0000:0000:0000:0000:0000:0000:0001]:{port}"),
        format!("http://[0::1]:{port}/"),
    ] {
        // Alone, it is shown in the canonical form.
        let gateway = Gateway::start(&Config::chat([spelling.as_str()])).await;
        wait_endpoints(&gateway, 1).await;
        let page = gateway.metrics().await;
        let name = format!("http://[::1]:{port}");
        assert_eq!(exposition::sum(&page, "forebay_endpoint_inflight", &[("endpoint", &name)]), Some(0.0));
        // Beside the canonical form it is the same endpoint twice, which the configuration refuses.
        let dir = TempDir::new();
        let file = dir.write("twice.yaml", &Config::chat([name.as_str(), spelling.as_str()]).yaml());
        let output =
            std::process::Command::new(binary()).args(["check", "--config"]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{spelling}");
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&format!("[::1]:{port}")), "{said}");
    }
}

#[tokio::test]
async fn b58_upper_case_address_is_the_same_endpoint() {
    let dir = TempDir::new();
    let config = Config::chat(["http://[2001:DB8::A]:8000", "http://[2001:db8:0:0::a]:8000"]);
    let file = dir.write("twice.yaml", &config.yaml());
    let output =
        std::process::Command::new(binary()).args(["check", "--config"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("twice.yaml") && said.contains("twice; spellings of one address"), "{said}");
}

#[tokio::test]
async fn b58_address_without_brackets_is_refused_with_its_place() {
    let dir = TempDir::new();
    let file = dir.write("bare.yaml", &Config::chat(["http://::1:8000"]).yaml());
    let output =
        std::process::Command::new(binary()).args(["check", "--config"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("bare.yaml") && said.contains("::1"), "{said}");
}
