//! What client and server say to each other.
//!
//! A message is its length (eight bytes, little endian) and so many bytes. In these, texts and values
//! have their length before them, as numbers of eight bytes.

use std::io::{self, Read, Write};

use corten_core::ErrorKind;

use crate::error::{DistError, DistErrorKind, Result};

/// What both sides say first.
pub(super) const GREETING: [u8; 8] = *b"CORTENS1";

/// A longer message is no message.
const MOST: u64 = 1 << 32;

macro_rules! requests {
    ($($number:literal $name:ident { $($field:ident: $kind:ident),* })+) => {
        /// What a client asks for. Times are in milliseconds.
        pub(super) enum Request<'a> {
            $($name { $($field: requests!(@borrowed $kind 'a)),* },)+
        }

        /// What the server was asked for.
        pub(super) enum Asked {
            $($name { $($field: requests!(@owned $kind)),* },)+
        }

        impl Request<'_> {
            pub(super) fn bytes(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                match self {
                    $(Self::$name { $($field),* } => {
                        bytes.push($number);
                        $(requests!(@write $kind bytes $field);)*
                    })+
                }
                bytes
            }
        }

        impl Asked {
            pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
                let (&number, rest) = bytes.split_first()?;
                let mut rest = Fields(rest);
                let asked = match number {
                    $($number => Self::$name { $($field: requests!(@read $kind rest)),* },)+
                    _ => return None,
                };
                rest.0.is_empty().then_some(asked)
            }
        }
    };
    (@borrowed text $a:lifetime) => { &$a str };
    (@borrowed bytes $a:lifetime) => { &$a [u8] };
    (@borrowed texts $a:lifetime) => { &$a [String] };
    (@borrowed list $a:lifetime) => { &$a [Vec<u8>] };
    (@borrowed signed $a:lifetime) => { i64 };
    (@borrowed unsigned $a:lifetime) => { u64 };
    (@owned text) => { String };
    (@owned bytes) => { Vec<u8> };
    (@owned texts) => { Vec<String> };
    (@owned list) => { Vec<Vec<u8>> };
    (@owned signed) => { i64 };
    (@owned unsigned) => { u64 };
    (@write text $bytes:ident $field:ident) => { put($bytes.as_mut(), $field.as_bytes()) };
    (@write bytes $bytes:ident $field:ident) => { put($bytes.as_mut(), $field) };
    (@write texts $bytes:ident $field:ident) => { put_list(&mut $bytes, $field) };
    (@write list $bytes:ident $field:ident) => { put_list(&mut $bytes, $field) };
    (@write signed $bytes:ident $field:ident) => { $bytes.extend($field.to_le_bytes()) };
    (@write unsigned $bytes:ident $field:ident) => { $bytes.extend($field.to_le_bytes()) };
    (@read text $rest:ident) => { $rest.text()? };
    (@read bytes $rest:ident) => { $rest.bytes()?.to_vec() };
    (@read texts $rest:ident) => { $rest.list(|rest| rest.text())? };
    (@read list $rest:ident) => { $rest.list(|rest| rest.bytes().map(<[u8]>::to_vec))? };
    (@read signed $rest:ident) => { $rest.number()? as i64 };
    (@read unsigned $rest:ident) => { $rest.number()? };
}

requests! {
    1 Set { key: text, value: bytes }
    2 Get { keys: texts, millis: unsigned }
    3 Add { key: text, amount: signed }
    4 Check { keys: texts }
    5 Wait { keys: texts, millis: unsigned }
    6 CompareSet { key: text, expected: bytes, desired: bytes }
    7 Delete { key: text }
    8 NumKeys {}
    9 ListKeys {}
    10 Append { key: text, value: bytes }
    11 MultiSet { keys: texts, values: list }
    12 Push { key: text, value: bytes }
    13 Pop { key: text, millis: unsigned }
    14 QueueLen { key: text }
    15 Join { amount: signed }
}

/// What the server answers.
pub(super) enum Answer {
    Nothing,
    Number(i64),
    Value(Vec<u8>),
    Values(Vec<Vec<u8>>),
    /// What was waited for has not come.
    TimedOut,
    /// The request was wrong: a `ValueError`.
    Wrong(String),
}

impl Answer {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Nothing => bytes.push(0),
            Self::Number(number) => {
                bytes.push(1);
                bytes.extend(number.to_le_bytes());
            }
            Self::Value(value) => {
                bytes.push(2);
                put(&mut bytes, value);
            }
            Self::Values(values) => {
                bytes.push(3);
                put_list(&mut bytes, values);
            }
            Self::TimedOut => bytes.push(4),
            Self::Wrong(message) => {
                bytes.push(5);
                put(&mut bytes, message.as_bytes());
            }
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let mut rest = Fields(rest);
        Some(match kind {
            0 => Self::Nothing,
            1 => Self::Number(rest.number()? as i64),
            2 => Self::Value(rest.bytes()?.to_vec()),
            3 => Self::Values(rest.list(|rest| rest.bytes().map(<[u8]>::to_vec))?),
            4 => Self::TimedOut,
            5 => Self::Wrong(rest.text()?),
            _ => return None,
        })
    }

    fn other<R>(self) -> Result<R> {
        match self {
            Self::Wrong(message) => {
                Err(DistError::new(DistErrorKind::Core(ErrorKind::Value), message))
            }
            _ => Err(malformed()),
        }
    }

    pub(super) fn nothing(self) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            other => other.other(),
        }
    }

    pub(super) fn number(self) -> Result<i64> {
        match self {
            Self::Number(number) => Ok(number),
            other => other.other(),
        }
    }

    pub(super) fn value(self) -> Result<Vec<u8>> {
        match self {
            Self::Value(value) => Ok(value),
            other => other.other(),
        }
    }

    pub(super) fn values(self) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Values(values) => Ok(values),
            other => other.other(),
        }
    }
}

/// The error of an answer that is none.
pub(super) fn malformed() -> DistError {
    DistError::network("TCPStore: the server's answer does not fit the request")
}

fn put(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value);
}

fn put_list<T: AsRef<[u8]>>(bytes: &mut Vec<u8>, values: &[T]) {
    bytes.extend((values.len() as u64).to_le_bytes());
    values.iter().for_each(|value| put(bytes, value.as_ref()));
}

/// What of a message is not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        // Each item has eight bytes at least, so a count that lies ends soon.
        (0..count).map(|_| item(self)).collect()
    }
}

/// Sends a message.
pub(super) fn send(mut stream: impl Write, body: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(8 + body.len());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    stream.write_all(&bytes)
}

/// Receives a message.
pub(super) fn receive(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut body = Vec::new();
    let read = stream.take(length).read_to_end(&mut body)?;
    if (read as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}
