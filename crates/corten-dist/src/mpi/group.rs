//! Back ends for process groups: communicators with a store, through which ranks learn who is missing.
//!
//! MPI cannot say who is missing, and where a rank is, MPI's own messages do not arrive. So rank 0 serves a
//! [`TcpStore`], whose address MPI tells to the others.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use corten_core::{Reader, Writer};
use corten_ops::Tensor;

use super::{MpiEngine, mpi_world};
use crate::{
    Backend, Call, CallOptions, DistError, Engine, PrefixStore, Result, Store, TcpStore,
    TcpStoreOptions,
};

/// The communicator of all ranks that others are made of, and its store.
#[derive(Clone)]
struct World {
    engine: Arc<MpiEngine>,
    store: Arc<dyn Store>,
}

/// What this process has made. All ranks of a group count the same.
#[derive(Default)]
struct Made {
    world: Option<World>,
    worlds: usize,
    groups: Vec<Vec<usize>>,
}

static MADE: Mutex<Option<Made>> = Mutex::new(None);

/// The back end of some ranks of the program, or of all where none are named; nothing for ranks that are
/// not among them. All of its ranks call this.
///
/// # Errors
/// As [`mpi_world`]; `Network` where the store of rank 0 cannot be reached.
pub fn mpi_backend(ranks: &[usize], timeout: Duration) -> Result<Option<Arc<Backend>>> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    let world = match &made.world {
        Some(world) => world.clone(),
        None => made.world.insert(World::new(timeout)?).clone(),
    };
    let (engine, name): (Arc<dyn Engine>, String) = if ranks.is_empty() {
        made.worlds += 1;
        (mpi_world(timeout)?, format!("world/{}", made.worlds))
    } else {
        let Some(engine) = world.engine.split(ranks, timeout)? else { return Ok(None) };
        let count = made.groups.iter().filter(|group| *group == ranks).count();
        made.groups.push(ranks.to_vec());
        (engine, format!("{ranks:?}/{count}"))
    };
    let store = PrefixStore::new(format!("mpi/{name}"), world.store);
    let backend = Backend::new(engine, Some(Arc::new(store)));
    backend.set_timeout(timeout);
    // Rank 0 of the program serves the store.
    if let Some(rank) =
        if ranks.is_empty() { Some(0) } else { ranks.iter().position(|&rank| rank == 0) }
    {
        backend.set_store_rank(rank);
    }
    Ok(Some(backend))
}

impl World {
    fn new(timeout: Duration) -> Result<Self> {
        let engine = mpi_world(timeout)?;
        let mut served = None;
        let mut address = String::new();
        if engine.rank() == 0 {
            let store = TcpStore::new("localhost", options(0, true, timeout))?;
            address = format!("{}\n{}", super::ffi::host_name(), store.port());
            served = Some(store);
        }
        let address = told(&*engine, &address, timeout)?;
        let store = match served {
            Some(store) => store,
            None => connected(&address, timeout)?,
        };
        Ok(Self { engine, store: Arc::new(store) })
    }
}

fn options(port: u16, is_server: bool, timeout: Duration) -> TcpStoreOptions {
    TcpStoreOptions { port, is_server, timeout, wait_for_workers: false, ..Default::default() }
}

/// Rank 0's text on all ranks.
fn told(engine: &dyn Engine, text: &str, timeout: Duration) -> Result<String> {
    let mut bytes = vec![0_u8; 512];
    let len = text.len().min(bytes.len());
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    let tensor = Tensor::from_vec(vec![0_u8; bytes.len()], &[bytes.len() as i64])?;
    Writer::<u8>::new(&tensor)?.copy_from_slice(&bytes);
    let call = Call::Broadcast { tensor: tensor.clone(), root: 0 };
    engine.start(call, &CallOptions { timeout, ..CallOptions::default() }).wait(Some(timeout))?;
    let bytes = Reader::<u8>::new(&tensor)?;
    Ok(String::from_utf8_lossy(&bytes).trim_matches('\0').to_owned())
}

/// The store at an address; on rank 0's own host also where its name leads nowhere.
fn connected(address: &str, timeout: Duration) -> Result<TcpStore> {
    let parts = address.split_once('\n').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let Some((host, port)) = parts else {
        return Err(DistError::network(format!("rank 0 has told the address {address:?}")));
    };
    let host = if host == super::ffi::host_name() { "localhost" } else { host };
    let first = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
    if let Some(first) = first {
        // A host that does not answer is known sooner than when the time of the store is over.
        let patience = timeout.min(Duration::from_secs(10));
        TcpStream::connect_timeout(&first, patience).map_err(|error| {
            DistError::network(format!(
                "the store of rank 0 at {host}:{port} does not answer: {error}"
            ))
        })?;
    }
    TcpStore::new(host, options(port, false, timeout))
}
