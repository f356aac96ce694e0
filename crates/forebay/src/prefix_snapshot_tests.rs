use forebay_config::{Config, Endpoint as Configured, Listener, Pool};
use forebay_core::Time;

use super::*;
use crate::gateway::Gateway;

/// A gateway before pools of one endpoint each, by the ports of those.
fn gateway(ports: &[u16]) -> Gateway {
    let pools = ports.iter().map(|port| {
        let mut pool = Pool::new(format!("p{port}"), format!("m{port}"));
        pool.health.enabled = false;
        pool.scrape.enabled = false;
        pool.endpoints.push(Configured::new(format!("http://127.0.0.1:{port}").parse().unwrap()));
        pool
    });
    let free = ([127, 0, 0, 1], 0).into();
    let config = Config {
        listen: vec![Listener { address: free, client_half_close: false }],
        admin: free,
        workers: 1,
        pools: pools.collect(),
        ..Config::default()
    };
    Gateway::start(config, None, Some(1)).map_err(|e| e.to_string()).unwrap()
}

async fn end(gateway: Gateway) {
    gateway.proxy().set_phase(forebay_proxy::DrainPhase::Closing);
    drop(gateway);
}

/// By port, the blocks that its endpoint holds ready.
fn committed(live: &Live<Endpoint>) -> BTreeMap<String, u64> {
    let blocks = |key: EndpointKey| live.index(key.gate).unwrap().stats().committed;
    live.endpoints().into_iter().map(|view| (view.member.name.clone(), blocks(view.key))).collect()
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("forebay-snapshot-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(&folder.0).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn pools_may_change_their_order_and_their_number() {
    let folder = folder("order");
    let path = folder.0.join("index");
    let first = gateway(&[1, 2, 3]);
    let live = first.proxy().live();
    for (n, view) in live.endpoints().into_iter().enumerate() {
        let chain: Vec<u64> = (1..=10 * (n as u64 + 1)).map(|block| block << 8 | n as u64).collect();
        live.index(view.key.gate).unwrap().commit(view.key.id, &chain, Time::from_nanos(1));
    }
    let before = committed(live);
    assert_eq!(before.values().copied().collect::<Vec<_>>(), [10, 20, 30]);
    write(&path, live);
    assert_eq!(names(&folder), ["index", "index.1", "index.2"]);
    end(first).await;

    let second = gateway(&[3, 1, 2]);
    check(&path, second.proxy().live()).unwrap();
    restore(&path, second.proxy().live());
    assert_eq!(committed(second.proxy().live()), before, "Gates have other numbers now");
    end(second).await;

    // One pool fewer: what is left of it goes, once the others are written.
    for stays in ["index.7.bak", "index.old", "index.01", "index.9"] {
        std::fs::write(folder.0.join(stays), "somebody's").unwrap();
    }
    std::fs::copy(&path, folder.0.join("index.5")).unwrap();
    let third = gateway(&[2, 3]);
    let live = third.proxy().live();
    restore(&path, live);
    assert_eq!(committed(live).into_values().collect::<Vec<_>>(), [20, 30]);
    write(&path, live);
    assert_eq!(names(&folder), ["index", "index.01", "index.1", "index.7.bak", "index.9", "index.old"]);
    end(third).await;
    let fourth = gateway(&[2, 3]);
    restore(&path, fourth.proxy().live());
    assert_eq!(committed(fourth.proxy().live()).into_values().collect::<Vec<_>>(), [20, 30]);
    end(fourth).await;
}

#[tokio::test]
async fn what_is_no_snapshot_is_not_overwritten_wherever_it_is() {
    let folder = folder("check");
    let path = folder.0.join("index");
    let gateway = gateway(&[1, 2]);
    check(&path, gateway.proxy().live()).unwrap();
    std::fs::write(folder.0.join("index.1"), "a letter").unwrap();
    let error = check(&path, gateway.proxy().live()).unwrap_err();
    assert!(error.contains("index.1: it is not a snapshot"), "{error}");
    end(gateway).await;
}
