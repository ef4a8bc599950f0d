//! The client's connections.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::message::{Answer, GREETING, Request, malformed, receive, send};
use crate::error::{DistError, Result};
use crate::interrupt;

/// Connections to one server that wait for the next request.
pub(super) struct Client {
    host: String,
    port: u16,
    idle: Mutex<Idle>,
}

struct Idle {
    connections: Vec<TcpStream>,
    /// The process that they belong to: a child of a fork must not talk on its parent's.
    process: u32,
}

/// How much later than asked a server may answer.
const GRACE: Duration = Duration::from_secs(10);
/// The longest that one attempt to connect takes.
const ATTEMPT: Duration = Duration::from_secs(3);

impl Client {
    /// Connects as soon as the server is there.
    pub(super) fn connect(host: &str, port: u16, timeout: Duration) -> Result<Self> {
        let idle = Idle { connections: Vec::new(), process: std::process::id() };
        let client = Self { host: host.to_owned(), port, idle: Mutex::new(idle) };
        client.keep(client.new_connection(timeout)?);
        Ok(client)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Sends a request and receives the answer, for which the server takes `timeout` at most.
    pub(super) fn ask(&self, request: &Request<'_>, timeout: Duration) -> Result<Answer> {
        let connection = match self.take() {
            Some(connection) => connection,
            None => self.new_connection(timeout)?,
        };
        send(&connection, &request.bytes()).map_err(|error| {
            DistError::network(format!("TCPStore: failed to send to {}: {error}", self.place()))
        })?;
        let end = Instant::now().checked_add(timeout.saturating_add(GRACE));
        let mut patient = Patient { stream: &connection, end, interrupt: None };
        let body = receive(&mut patient);
        if let Some(interrupt) = patient.interrupt {
            return Err(interrupt);
        }
        let body = body.map_err(|error| self.receive_error(&error))?;
        self.keep(connection);
        Answer::parse(&body).ok_or_else(malformed)
    }

    fn place(&self) -> String {
        format!("({}, {})", self.host, self.port)
    }

    fn receive_error(&self, error: &io::Error) -> DistError {
        let ended = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
        );
        if ended {
            return DistError::network(
                "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server \
                 shutdown or crash?",
            );
        }
        DistError::network(format!("TCPStore: failed to recv from {}: {error}", self.place()))
    }

    fn take(&self) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.process != std::process::id() {
            *idle = Idle { connections: Vec::new(), process: std::process::id() };
        }
        idle.connections.pop()
    }

    fn keep(&self, connection: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.connections.push(connection);
    }

    fn new_connection(&self, timeout: Duration) -> Result<TcpStream> {
        let begun = Instant::now();
        let mut last = None;
        loop {
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let reason = last.map_or(String::new(), |error: io::Error| format!(" ({error})"));
                return Err(DistError::network(format!(
                    "The client socket has timed out after {}ms while trying to connect to {}.{reason}",
                    timeout.as_millis(),
                    self.place()
                )));
            }
            match self.attempt(left.min(ATTEMPT)) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(error),
            }
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(20).min(left));
        }
    }

    fn attempt(&self, timeout: Duration) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let addresses: Vec<SocketAddr> =
            (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        for address in addresses {
            match greet(&address, timeout) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn greet(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(address, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(&GREETING)?;
    let mut answer = [0; GREETING.len()];
    stream.read_exact(&mut answer)?;
    if answer != GREETING {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the server is no TCPStore"));
    }
    stream.set_read_timeout(Some(interrupt::SLICE))?;
    Ok(stream)
}

/// Reads until the end, and looks for interrupts meanwhile.
struct Patient<'a> {
    stream: &'a TcpStream,
    end: Option<Instant>,
    interrupt: Option<DistError>,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let error = match self.stream.read(buffer) {
                Ok(read) => return Ok(read),
                Err(error) => error,
            };
            let waits = matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
            );
            if !waits {
                return Err(error);
            }
            if let Err(interrupt) = interrupt::check() {
                self.interrupt = Some(interrupt);
                return Err(io::ErrorKind::Other.into());
            }
            if self.end.is_some_and(|end| Instant::now() >= end) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
