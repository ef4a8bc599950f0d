//! A store that one rank serves over TCP.
//!
//! Every request is a message of its own and gets one answer. A client has as many connections as
//! threads ask at once, so that a thread that waits keeps no other from what it does.

mod client;
mod message;
mod server;

use std::any::Any;
use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use self::client::Client;
use self::message::{Answer, Request};
use self::server::Server;
use super::{DEFAULT_STORE_TIMEOUT, Store, Timeout, check_lengths, wait_timeout};
use crate::error::{DistError, Result};
use crate::interrupt;

/// A store whose keys lie in one rank's memory; the others ask it over TCP.
///
/// ```
/// use corten_dist::{Store, TcpStore, TcpStoreOptions};
///
/// let options = TcpStoreOptions { is_server: true, ..Default::default() };
/// let store = TcpStore::new("127.0.0.1", options)?;
/// let other = TcpStore::new("127.0.0.1", TcpStoreOptions { port: store.port(), ..Default::default() })?;
/// other.set("key", b"value")?;
/// assert_eq!(store.get("key")?, b"value");
/// # Ok::<(), corten_dist::DistError>(())
/// ```
pub struct TcpStore {
    host: String,
    client: Client,
    timeout: Timeout,
    server: Option<Arc<Server>>,
}

/// How a [`TcpStore`] is made.
#[derive(Debug)]
pub struct TcpStoreOptions {
    /// The server's port; for the server itself, 0 takes a free one.
    pub port: u16,
    /// Whether this rank serves.
    pub is_server: bool,
    /// How many ranks there are; nothing where that is not known.
    pub world_size: Option<usize>,
    /// Whether the server waits until all ranks are connected.
    pub wait_for_workers: bool,
    /// How long requests may take, and connecting.
    pub timeout: Duration,
    /// Whether a server of this process on the same port is used instead of a second one.
    pub multi_tenant: bool,
    /// A socket that listens already, for the server.
    pub listener: Option<TcpListener>,
}

impl Default for TcpStoreOptions {
    fn default() -> Self {
        Self {
            port: 0,
            is_server: false,
            world_size: None,
            wait_for_workers: true,
            timeout: DEFAULT_STORE_TIMEOUT,
            multi_tenant: false,
            listener: None,
        }
    }
}

/// Servers that others of this process may use, by port.
static TENANTS: Mutex<Option<HashMap<u16, Weak<Server>>>> = Mutex::new(None);

impl TcpStore {
    /// Serves, or connects to who does; `host` is the server's.
    ///
    /// # Errors
    /// `Network` when the port is taken or the server does not answer in time, `Store` when not all
    /// ranks come in time.
    pub fn new(host: &str, options: TcpStoreOptions) -> Result<Self> {
        let TcpStoreOptions { port, is_server, world_size, wait_for_workers, timeout, .. } =
            options;
        let server = if is_server { Some(serve(options)?) } else { None };
        let port = server.as_ref().map_or(port, |server| server.port());
        let client = Client::connect(host, port, timeout)?;
        let store = Self { host: host.to_owned(), client, timeout: Timeout::new(timeout), server };
        if let Some(world_size) = world_size.filter(|_| wait_for_workers) {
            store.join(world_size, timeout)?;
        }
        Ok(store)
    }

    /// The server's name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.client.port()
    }

    /// Whether this handle serves.
    pub fn is_server(&self) -> bool {
        self.server.is_some()
    }

    /// Says that this rank is there; the server waits for the others.
    fn join(&self, world_size: usize, timeout: Duration) -> Result<()> {
        let begun = Instant::now();
        let mut joined = self.number(&Request::Join { amount: 1 })?;
        while self.server.is_some() && joined < world_size as i64 {
            if begun.elapsed() >= timeout {
                return Err(DistError::store(format!(
                    "Timed out after {} seconds waiting for clients. {joined}/{world_size} clients \
                     joined.",
                    begun.elapsed().as_secs()
                )));
            }
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(5));
            joined = self.number(&Request::Join { amount: 0 })?;
        }
        Ok(())
    }

    fn ask(&self, request: &Request<'_>) -> Result<Answer> {
        self.client.ask(request, self.timeout())
    }

    fn number(&self, request: &Request<'_>) -> Result<i64> {
        self.ask(request)?.number()
    }

    /// Asks for what may take until the time is over.
    fn ask_waiting(
        &self,
        request: &Request<'_>,
        keys: &[String],
        timeout: Duration,
    ) -> Result<Answer> {
        match self.client.ask(request, timeout)? {
            Answer::TimedOut => Err(wait_timeout(keys, timeout)),
            answer => Ok(answer),
        }
    }
}

/// The server of these options: a new one, or that of another tenant.
fn serve(options: TcpStoreOptions) -> Result<Arc<Server>> {
    if !options.multi_tenant || options.port == 0 {
        return Server::start(options.port, options.listener);
    }
    let mut tenants = TENANTS.lock().unwrap_or_else(PoisonError::into_inner);
    let tenants = tenants.get_or_insert_default();
    if let Some(server) = tenants.get(&options.port).and_then(Weak::upgrade) {
        return Ok(server);
    }
    let server = Server::start(options.port, options.listener)?;
    tenants.insert(options.port, Arc::downgrade(&server));
    Ok(server)
}

fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}

impl Store for TcpStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.ask(&Request::Set { key, value })?.nothing()
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        let keys = [key.to_owned()];
        let mut values = self.multi_get(&keys)?;
        values.pop().ok_or_else(message::malformed)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.number(&Request::Add { key, amount })
    }

    fn check(&self, keys: &[String]) -> Result<bool> {
        Ok(self.number(&Request::Check { keys })? != 0)
    }

    fn wait(&self, keys: &[String], timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        let request = Request::Wait { keys, millis: millis(timeout) };
        self.ask_waiting(&request, keys, timeout)?.nothing()
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.ask(&Request::CompareSet { key, expected, desired })?.value()
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        Ok(self.number(&Request::Delete { key })? != 0)
    }

    fn num_keys(&self) -> Result<i64> {
        self.number(&Request::NumKeys {})
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        let keys = self.ask(&Request::ListKeys {})?.values()?;
        Ok(keys.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect())
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.ask(&Request::Append { key, value })?.nothing()
    }

    fn multi_get(&self, keys: &[String]) -> Result<Vec<Vec<u8>>> {
        let timeout = self.timeout();
        let request = Request::Get { keys, millis: millis(timeout) };
        let values = self.ask_waiting(&request, keys, timeout)?.values()?;
        if values.len() == keys.len() { Ok(values) } else { Err(message::malformed()) }
    }

    fn multi_set(&self, keys: &[String], values: &[Vec<u8>]) -> Result<()> {
        check_lengths(keys, values)?;
        self.ask(&Request::MultiSet { keys, values })?.nothing()
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.ask(&Request::Push { key, value })?.nothing()
    }

    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        let timeout = if block { self.timeout() } else { Duration::ZERO };
        let request = Request::Pop { key, millis: millis(timeout) };
        match self.client.ask(&request, timeout.max(self.timeout()))? {
            Answer::TimedOut if block => Err(wait_timeout(&[key.to_owned()], timeout)),
            Answer::TimedOut => Err(super::map::queue_is_empty()),
            answer => answer.value(),
        }
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        self.number(&Request::QueueLen { key })
    }

    fn timeout(&self) -> Duration {
        self.timeout.get()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let timeout = self.timeout();
        let client = Client::connect(&self.host, self.port(), timeout)?;
        let (host, timeout) = (self.host.clone(), Timeout::new(timeout));
        Ok(Arc::new(Self { host, client, timeout, server: None }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
