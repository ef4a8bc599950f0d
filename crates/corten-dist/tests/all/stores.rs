//! Stores under threads and over connections.

use std::sync::Arc;
use std::thread::{scope, sleep};
use std::time::Duration;

use corten_dist::store::barrier;
use corten_dist::{
    DistErrorKind, FileStore, HashStore, PrefixStore, Store, TcpStore, TcpStoreOptions,
};

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(20);

fn served() -> TcpStore {
    TcpStore::new("127.0.0.1", TcpStoreOptions { is_server: true, ..Default::default() }).unwrap()
}

fn path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("corten-store-{}-{name}", std::process::id()))
}

/// Every kind of store.
fn each(name: &str, check: impl Fn(Arc<dyn Store>)) {
    let file = path(name);
    check(Arc::new(HashStore::new()));
    check(Arc::new(FileStore::new(&file, 1).unwrap()));
    check(Arc::new(served()));
    check(Arc::new(PrefixStore::new("part", Arc::new(HashStore::new()))));
    assert!(!file.exists(), "the last handle removes the file");
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn threads_count() {
    each("count", |store| {
        scope(|scope| {
            for _ in 0..8 {
                let own = store.duplicate().unwrap();
                scope.spawn(move || (0..50).for_each(|_| assert!(own.add("n", 1).unwrap() > 0)));
            }
        });
        assert_eq!(store.get("n").unwrap(), b"400");
        assert_eq!(store.add("n", -400).unwrap(), 0);
    });
}

#[test]
fn one_of_many_wins() {
    each("win", |store| {
        let won: Vec<Vec<u8>> = scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|rank: u8| {
                    let store = &store;
                    scope.spawn(move || store.compare_set("winner", b"", &[b'0' + rank]).unwrap())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(won.iter().all(|one| *one == won[0]), "{won:?}");
        assert_eq!(store.compare_set("winner", b"x", b"y").unwrap(), won[0]);
        assert_eq!(store.compare_set("absent", b"x", b"y").unwrap(), b"x");
    });
}

#[test]
fn a_handle_waits_and_works_at_once() {
    each("wait", |store| {
        scope(|scope| {
            let waiting = scope.spawn(|| store.get("late").unwrap());
            sleep(Duration::from_millis(5));
            store.set("other", b"1").unwrap();
            store.set("late", b"2").unwrap();
            assert_eq!(waiting.join().unwrap(), b"2");
        });
    });
}

#[test]
fn waits_end() {
    each("end", |store| {
        store.set_timeout(SHORT);
        for error in [
            store.get("absent").unwrap_err(),
            store.wait(&keys(&["absent"]), None).unwrap_err(),
            store.wait(&keys(&["absent"]), Some(Duration::from_millis(1))).unwrap_err(),
            store.multi_get(&keys(&["absent"])).unwrap_err(),
            barrier(&*store, "b", 2, None).unwrap_err(),
        ] {
            assert_eq!(error.kind(), DistErrorKind::Store, "{error}");
            assert!(error.message().to_lowercase().contains("timeout"), "{error}");
        }
        store.wait(&[], None).unwrap();
    });
}

#[test]
fn keys_come_and_go() {
    each("keys", |store| {
        store.multi_set(&keys(&["a", "b"]), &[b"1".to_vec(), Vec::new()]).unwrap();
        store.append("a", b"2").unwrap();
        assert_eq!(store.multi_get(&keys(&["b", "a"])).unwrap(), [Vec::new(), b"12".to_vec()]);
        let mut listed = store.list_keys().unwrap();
        listed.sort();
        assert_eq!(listed, ["a", "b"]);
        assert!(store.check(&keys(&["a", "b"])).unwrap());
        assert!(!store.check(&keys(&["a", "c"])).unwrap());
        assert!(store.delete_key("a").unwrap() && !store.delete_key("a").unwrap());
        assert!(store.multi_set(&keys(&["a"]), &[]).is_err());
    });
}

#[test]
fn barriers_let_all_go() {
    each("barrier", |store| {
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| barrier(&*store, "b", 4, Some(LONG)).unwrap());
            }
        });
    });
}

#[test]
fn queues() {
    for store in [Arc::new(HashStore::new()) as Arc<dyn Store>, Arc::new(served())] {
        assert_eq!(store.queue_pop("q", false).unwrap_err().kind(), DistErrorKind::QueueEmpty);
        let taken: usize = scope(|scope| {
            let take = || (0..10).map(|_| store.queue_pop("q", true).unwrap().len()).sum::<usize>();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            (0..30).for_each(|_| store.queue_push("q", b"x").unwrap());
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!((taken, store.queue_len("q").unwrap()), (30, 0));
    }
    let file = FileStore::new(path("queues"), 1).unwrap();
    assert!(file.queue_push("q", b"x").unwrap_err().message().contains("not implemented"));
}

#[test]
fn a_server_that_ends_is_noticed() {
    let server = served();
    let options = TcpStoreOptions { port: server.port(), ..Default::default() };
    let client = TcpStore::new("127.0.0.1", options).unwrap();
    scope(|scope| {
        let waiting = scope.spawn(|| client.get("absent").unwrap_err());
        sleep(Duration::from_millis(30));
        drop(server);
        assert_eq!(waiting.join().unwrap().kind(), DistErrorKind::Network);
    });
    client.set_timeout(SHORT);
    assert_eq!(client.set("k", b"v").unwrap_err().kind(), DistErrorKind::Network);
}

#[test]
fn ranks_join_a_server() {
    let options = TcpStoreOptions {
        is_server: true,
        world_size: Some(2),
        timeout: SHORT,
        ..Default::default()
    };
    let error = TcpStore::new("127.0.0.1", options).err().unwrap();
    assert!(error.message().contains("1/2 clients joined"), "{error}");
    let taken = served();
    let options = TcpStoreOptions { port: taken.port(), is_server: true, ..Default::default() };
    let error = TcpStore::new("127.0.0.1", options).err().unwrap();
    assert!(error.message().contains("EADDRINUSE"), "{error}");
}

#[test]
fn prefixes_nest() {
    let whole: Arc<dyn Store> = Arc::new(HashStore::new());
    let part: Arc<dyn Store> = Arc::new(PrefixStore::new("a", whole.clone()));
    let inner = PrefixStore::new("b", part.clone());
    inner.set("k", b"v").unwrap();
    assert_eq!(whole.get("a/b/k").unwrap(), b"v");
    assert_eq!((part.list_keys().unwrap(), inner.prefix()), (keys(&["b/k"]), "b"));
    assert!(Arc::ptr_eq(&inner.underlying_non_prefix(), &whole));
}
