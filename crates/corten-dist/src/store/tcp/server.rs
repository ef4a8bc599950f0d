//! The server: a thread that accepts, and one for each connection.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::map::Map;
use super::message::{Answer, Asked, GREETING, receive, send};
use crate::error::{DistError, Result};

/// The server of a store. It ends when the last handle goes.
pub(super) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// A child of a fork has the handle, but not the threads.
    process: u32,
}

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    changed: Condvar,
    connections: Mutex<HashMap<u64, TcpStream>>,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Table {
    map: Map,
    joined: i64,
}

/// How often a thread that waits for a key looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(500);
const STACK: usize = 256 * 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Listens on a port of all addresses, or on the socket given.
    pub(super) fn start(port: u16, listener: Option<TcpListener>) -> Result<Arc<Self>> {
        let failed = |error: io::Error| {
            let name =
                if error.kind() == io::ErrorKind::AddrInUse { "EADDRINUSE" } else { "error" };
            DistError::network(format!(
                "The server socket has failed to listen on any local network address. port: {port}, \
                 code: {}, name: {name}, message: {error}",
                -error.raw_os_error().unwrap_or(1)
            ))
        };
        let listener = match listener {
            Some(listener) => listener,
            None => listen(port).map_err(failed)?,
        };
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        std::thread::Builder::new()
            .name("tcp-store".into())
            .stack_size(STACK)
            .spawn(move || accept(&listener, &accepting))
            .map_err(failed)?;
        Ok(Arc::new(Self { shared, address, process: std::process::id() }))
    }

    /// The port it listens on.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.shared.stopped.store(true, Ordering::Release);
        for connection in lock(&self.shared.connections).values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
        // The thread that accepts looks at the flag when somebody comes.
        let port = self.port();
        let here = [SocketAddr::from((Ipv6Addr::LOCALHOST, port)), ([127, 0, 0, 1], port).into()];
        let _ = here.iter().find_map(|address| {
            TcpStream::connect_timeout(address, Duration::from_millis(500)).ok()
        });
    }
}

/// Both families of addresses where there are both.
fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        }
        result => result,
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        let accepted = listener.accept();
        if shared.stopped.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, mostly: others may close theirs.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let Ok(kept) = stream.try_clone() else { continue };
        lock(&shared.connections).insert(number, kept);
        let serving = shared.clone();
        let started = std::thread::Builder::new()
            .name("tcp-store-client".into())
            .stack_size(STACK)
            .spawn(move || {
                // Whatever ends a connection, the client finds out.
                let _ = serve(&stream, &serving);
                let _ = stream.shutdown(Shutdown::Both);
                lock(&serving.connections).remove(&number);
            });
        if started.is_err() {
            lock(&shared.connections).remove(&number);
        }
    }
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut greeting = GREETING;
    stream.read_exact(&mut greeting)?;
    if greeting != GREETING {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.write_all(&GREETING)?;
    loop {
        let asked = Asked::parse(&receive(stream)?).ok_or(io::ErrorKind::InvalidData)?;
        let answer = shared.answer(asked, stream)?;
        send(stream, &answer.bytes())?;
    }
}

impl Shared {
    fn answer(&self, asked: Asked, stream: &TcpStream) -> io::Result<Answer> {
        Ok(match asked {
            Asked::Get { keys, millis } => {
                self.wait(millis, stream, |table| table.map.get_all(&keys).map(Answer::Values))?
            }
            Asked::Wait { keys, millis } => self.wait(millis, stream, |table| {
                table.map.has_all(&keys).then_some(Answer::Nothing)
            })?,
            Asked::Pop { key, millis } => {
                self.wait(millis, stream, |table| table.map.pop(&key).map(Answer::Value))?
            }
            other => {
                let answer = lock(&self.table).answer(other);
                self.changed.notify_all();
                answer
            }
        })
    }

    /// The answer of `ready`, as soon as it has one.
    fn wait(
        &self,
        millis: u64,
        stream: &TcpStream,
        mut ready: impl FnMut(&mut Table) -> Option<Answer>,
    ) -> io::Result<Answer> {
        let end = Instant::now().checked_add(Duration::from_millis(millis));
        let mut table = lock(&self.table);
        loop {
            if let Some(answer) = ready(&mut table) {
                return Ok(answer);
            }
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(Answer::TimedOut);
            }
            let waited = self.changed.wait_timeout(table, left.min(LOOK));
            let (guard, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            table = guard;
            let stopped = self.stopped.load(Ordering::Acquire);
            if stopped || timed_out.timed_out() && is_closed(stream) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
}

/// Whether the client has gone: it says nothing while it waits.
fn is_closed(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut [0]);
    let blocking = stream.set_nonblocking(false);
    let waits = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    !waits || blocking.is_err()
}

impl Table {
    fn answer(&mut self, asked: Asked) -> Answer {
        let map = &mut self.map;
        match asked {
            Asked::Set { key, value } => map.set(&key, &value),
            Asked::Append { key, value } => map.append(&key, &value),
            Asked::Push { key, value } => map.push(&key, &value),
            Asked::MultiSet { keys, values } => {
                keys.iter().zip(&values).for_each(|(key, value)| map.set(key, value));
            }
            Asked::Add { key, amount } => {
                return match map.add(&key, amount) {
                    Ok(sum) => Answer::Number(sum),
                    Err(error) => Answer::Wrong(error.message().to_owned()),
                };
            }
            Asked::Check { keys } => return Answer::Number(i64::from(map.has_all(&keys))),
            Asked::CompareSet { key, expected, desired } => {
                return Answer::Value(map.compare_set(&key, &expected, &desired));
            }
            Asked::Delete { key } => return Answer::Number(i64::from(map.delete(&key))),
            // PyTorch counts the key through which the ranks join.
            Asked::NumKeys {} => return Answer::Number(map.len() + i64::from(self.joined > 0)),
            Asked::ListKeys {} => {
                return Answer::Values(map.keys().into_iter().map(String::into_bytes).collect());
            }
            Asked::QueueLen { key } => return Answer::Number(map.queue_len(&key)),
            Asked::Join { amount } => {
                self.joined += amount;
                return Answer::Number(self.joined);
            }
            Asked::Get { .. } | Asked::Wait { .. } | Asked::Pop { .. } => return Answer::TimedOut,
        }
        Answer::Nothing
    }
}
