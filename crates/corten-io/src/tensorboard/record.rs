//! Records with checksums, and the encoding of protocol buffers.

use corten_core::{Result, bail, ensure};

const CASTAGNOLI: u32 = 0x82F6_3B78;
const TABLE: [u32; 256] = table();
/// Length and checksum before the bytes of a record; a checksum follows them.
const HEAD: usize = 12;
const CHECKSUM: usize = 4;

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 1 { CASTAGNOLI } else { 0 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

/// The CRC-32C of bytes.
pub fn crc32c(data: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize] ^ crc >> 8;
    !data.iter().fold(!0, step)
}

/// The CRC-32C as records store it, rotated so that checksums of checksums stay sound.
pub fn masked_crc(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// A record: length and bytes, each with a checksum.
pub(crate) fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let parts = [&length, &masked_crc(&length).to_le_bytes()[..], data];
    let mut record = parts.concat();
    record.extend(masked_crc(data).to_le_bytes());
    record
}

/// The bytes of each record.
pub(crate) fn records(mut file: &[u8]) -> Result<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !file.is_empty() {
        ensure!(file.len() >= HEAD, Value, "event file: a record is cut off");
        let (head, rest) = file.split_at(HEAD);
        let length = u64::from_le_bytes(array(&head[..8]));
        ensure!(
            u32::from_le_bytes(array(&head[8..])) == masked_crc(&head[..8]),
            Value,
            "event file: the length of a record does not match its checksum"
        );
        let end = usize::try_from(length)
            .ok()
            .filter(|end| end.checked_add(CHECKSUM).is_some_and(|whole| whole <= rest.len()));
        let Some(end) = end else { bail!(Value, "event file: a record is cut off") };
        let (data, rest) = rest.split_at(end);
        ensure!(
            u32::from_le_bytes(array(&rest[..CHECKSUM])) == masked_crc(data),
            Value,
            "event file: a record does not match its checksum"
        );
        found.push(data);
        file = &rest[CHECKSUM..];
    }
    Ok(found)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// A message that is being written, field by field.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A number in groups of seven bits.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7F {
            self.0.push(value as u8 & 0x7F | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn integer(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }

    pub(crate) fn double(mut self, field: u64, value: f64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn single(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Bytes, text or a message.
    pub(crate) fn data(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.as_ref().len() as u64);
        self.0.extend(value.as_ref());
        self
    }

    pub(crate) fn message(self, field: u64, value: Message) -> Self {
        self.data(field, value.0)
    }

    pub(crate) fn doubles(self, field: u64, values: &[f64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.data(field, bytes)
    }
}

/// A field of a message that is read.
pub(crate) enum Field<'a> {
    Integer(i64),
    Double(f64),
    Single(f32),
    Data(&'a [u8]),
}

/// The fields of a message with their numbers.
pub(crate) fn fields(mut message: &[u8]) -> Result<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Integer(varint(&mut message)? as i64),
            1 => Field::Double(f64::from_le_bytes(array(taken(&mut message, 8)?))),
            2 => {
                let length = varint(&mut message)?;
                Field::Data(taken(&mut message, length)?)
            }
            5 => Field::Single(f32::from_le_bytes(array(taken(&mut message, 4)?))),
            kind => bail!(Value, "event file: a field of the unknown wire type {kind}"),
        };
        found.push((key >> 3, field));
    }
    Ok(found)
}

fn varint(message: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for place in 0..10 {
        let Some((byte, rest)) = message.split_first() else { break };
        *message = rest;
        value |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!(Value, "event file: a number is cut off")
}

fn taken<'a>(message: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let end = usize::try_from(length).ok().filter(|end| *end <= message.len());
    let Some(end) = end else { bail!(Value, "event file: a field is cut off") };
    let (data, rest) = message.split_at(end);
    *message = rest;
    Ok(data)
}
