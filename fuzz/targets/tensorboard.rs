//! Any bytes are a file of events or an error.
//!
//! Each piece is a record, which gets its checksums.

#![no_main]

mod built;

use corten_io::tensorboard::parse_events;
use corten_ops::ErrorKind;
use libfuzzer_sys::fuzz_target;

/// The masked CRC-32C of records.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
    let crc = !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step));
    crc.rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
}

fn record(data: &&[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length, &checksum(&length)[..], data, &checksum(data)[..]].concat()
}

fn check(bytes: &[u8]) {
    if let Err(error) = parse_events(bytes) {
        assert_eq!(error.kind(), ErrorKind::Value, "{error}");
    }
}

fuzz_target!(|bytes: &[u8]| match built::pieces(bytes) {
    Some(pieces) => check(&pieces.iter().map(record).collect::<Vec<_>>().concat()),
    None => check(bytes),
});
