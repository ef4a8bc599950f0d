//! gloo between processes: the test executable starts itself once for each rank.
//!
//! Where the shim cannot be compiled (no C++ compiler or no gloo), each test says so and ends.

mod faults;
mod programs;
mod values;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use corten_dist::gloo::{GlooEngine, GlooOptions};
use corten_dist::{FileStore, Store, TcpStore, TcpStoreOptions};

/// The role of a process that a test started: `PROGRAM RANK SIZE STORE TIMEOUT_MS`.
const ROLE: &str = "CORTEN_TEST_GLOO_ROLE";

/// Nothing hangs longer than this.
const DEADLINE: Duration = Duration::from_secs(120);

/// Whether the engine can be had here; compiles the shim, in the folder for tests, when it must.
fn is_ready() -> bool {
    static READY: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *READY.get_or_init(|| {
        let made = Command::new(std::env::current_exe().expect("this file"))
            .args(["gloo::rank_process", "--exact"])
            .env(ROLE, "version 0 1 - 0")
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .output()
            .expect("a process");
        if !made.status.success() {
            println!("gloo: not run: g++ or libgloo-dev is not installed, or they do not fit");
        }
        made.status.success()
    })
}

/// The body of the processes that tests start; nothing where it is run as a test.
#[test]
fn rank_process() {
    let Some(role) = corten_core::config::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let [program, rank, size, store, timeout] = words[..] else { panic!("a role has five words") };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let timeout = Duration::from_millis(number(timeout) as u64);
    if program == "version" {
        let (_, minor, _) = corten_dist::gloo::version().expect("a loaded library");
        assert!(minor > 0);
        return;
    }
    programs::run(program, &Rank::join(number(rank), number(size), store, timeout));
    // Threads of gloo and of stores end with the process.
    std::process::exit(0);
}

/// One rank in a process of its own.
struct Rank {
    engine: Arc<GlooEngine>,
    timeout: Duration,
}

impl Rank {
    /// `store` is `file:PATH` or `tcp:PORT`.
    fn join(rank: usize, size: usize, store: &str, timeout: Duration) -> Self {
        let (kind, place) = store.split_once(':').expect("a kind of store");
        let store: Arc<dyn Store> = match kind {
            "file" => Arc::new(FileStore::new(place, size as i64).expect("a store")),
            _ => {
                let (host, port) = place.rsplit_once(':').expect("a host and a port");
                let options = TcpStoreOptions {
                    is_server: rank == 0,
                    port: port.parse().expect("a port"),
                    ..TcpStoreOptions::default()
                };
                Arc::new(TcpStore::new(host, options).expect("a store"))
            }
        };
        let options = GlooOptions { timeout: Duration::from_secs(60), ..GlooOptions::default() };
        let engine = GlooEngine::connect(store, rank, size, &options).expect("a communicator");
        Self { engine, timeout }
    }
}

/// The processes of a test, killed when it ends.
struct Processes {
    children: Vec<Child>,
    folder: PathBuf,
}

impl Processes {
    /// Starts `size` ranks of a program over a store in a file.
    fn start(program: &str, size: usize, timeout: Duration) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("corten-gloo-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let store = format!("file:{}", folder.join("store").display());
        Self::start_over(&store, program, size, timeout, folder)
    }

    fn start_over(
        store: &str,
        program: &str,
        size: usize,
        timeout: Duration,
        folder: PathBuf,
    ) -> Self {
        let start = |rank: usize| {
            let out = std::fs::File::create(folder.join(format!("out{rank}"))).expect("a file");
            let role = format!("{program} {rank} {size} {store} {}", timeout.as_millis());
            Command::new(std::env::current_exe().expect("this file"))
                .args(["gloo::rank_process", "--exact", "--nocapture"])
                .env(ROLE, role)
                .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
                .stdin(Stdio::null())
                .stdout(out.try_clone().expect("a second handle"))
                .stderr(out)
                .spawn()
                .expect("a process")
        };
        Self { children: (0..size).map(start).collect(), folder }
    }

    /// What a rank has printed so far.
    fn output(&self, rank: usize) -> String {
        let text = std::fs::read(self.folder.join(format!("out{rank}"))).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until a rank has printed something.
    fn wait_for(&self, rank: usize, text: &str) {
        let begun = Instant::now();
        while !self.output(rank).contains(text) {
            assert!(begun.elapsed() < DEADLINE, "rank {rank}: {}", self.output(rank));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The exit code of a rank; nothing if a signal ended it.
    fn wait(&mut self, rank: usize, deadline: Duration) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.children[rank].try_wait().expect("its status") {
                return status.code();
            }
            let late = begun.elapsed() > deadline;
            assert!(!late, "rank {rank} has not ended in time: {}", self.output(rank));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for all ranks and asserts that they ended well.
    fn finish(&mut self) {
        for rank in 0..self.children.len() {
            let code = self.wait(rank, DEADLINE);
            assert_eq!(code, Some(0), "rank {rank}: {}", self.output(rank));
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
