//! Shared libraries without code: a table of symbols that are addresses, in the form that the dynamic linker loads.
//!
//! Symbols of section `SHN_ABS` are what they are, wherever the library is loaded: GNU's C library takes them so from
//! version 2.28 on.

use super::needed::{Header, Section, dynamic};

/// A symbol and its address.
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) address: u64,
}

const SHN_ABS: u16 = 0xFFF1;
/// A function that everybody sees.
const GLOBAL_FUNCTION: u8 = 1 << 4 | 2;
const SYMBOL: usize = 24;
const HEADERS: usize = 64 + 3 * 56;
/// At least a page, on processors with large ones too.
const ALIGNMENT: u64 = 0x1_0000;

/// The parts of a library while they are written one behind the other.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn here(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn u16(&mut self, number: u16) {
        self.bytes.extend_from_slice(&number.to_ne_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_ne_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_ne_bytes());
    }
}

/// Texts that end with zero bytes, and where each begins.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
}

impl Texts {
    fn add(&mut self, text: &str) -> u32 {
        if self.bytes.is_empty() {
            self.bytes.push(0);
        }
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        begin
    }
}

/// The hash of System V's tables.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xF000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// A library of a name, with symbols that all have a version where one is given.
pub(super) fn library(name: &str, version: Option<&str>, symbols: &[Symbol<'_>]) -> Vec<u8> {
    let mut texts = Texts::default();
    let own_name = texts.add(name);
    let mut out = Writer { bytes: vec![0; HEADERS] };

    let table = out.here();
    out.bytes.resize(out.bytes.len() + SYMBOL, 0);
    for symbol in symbols {
        out.u32(texts.add(symbol.name));
        out.bytes.extend([GLOBAL_FUNCTION, 0]);
        out.u16(SHN_ABS);
        out.u64(symbol.address);
        out.u64(0);
    }
    let hashes = out.here();
    write_hashes(&mut out, symbols);
    let versions = version.map(|version| {
        let text = texts.add(version);
        write_versions(&mut out, symbols.len(), [(name, own_name), (version, text)])
    });
    let strings = out.here();
    out.bytes.extend_from_slice(&texts.bytes);

    out.align(8);
    let section = Section { offset: out.here(), size: 0 };
    let mut entries = vec![
        (dynamic::SONAME, own_name.into()),
        (dynamic::HASH, hashes),
        (dynamic::STRTAB, strings),
        (dynamic::SYMTAB, table),
        (dynamic::STRSZ, texts.bytes.len() as u64),
        (dynamic::SYMENT, SYMBOL as u64),
    ];
    if let Some((of_symbols, definitions)) = versions {
        entries.extend([(dynamic::VERSYM, of_symbols), (dynamic::VERDEF, definitions)]);
        entries.push((dynamic::VERDEFNUM, 2));
    }
    entries.push((dynamic::NULL, 0));
    for (tag, value) in entries {
        out.u64(tag);
        out.u64(value);
    }
    let section = Section { size: out.here() - section.offset, ..section };
    let header = Header::of_library(out.here(), ALIGNMENT, section);
    out.bytes[..HEADERS].copy_from_slice(&header);
    out.bytes
}

fn write_hashes(out: &mut Writer, symbols: &[Symbol<'_>]) {
    let buckets = (symbols.len() / 2).max(1);
    let mut first = vec![0u32; buckets];
    // The symbol of number 0 is none.
    let mut next = vec![0u32; symbols.len() + 1];
    for (index, symbol) in symbols.iter().enumerate() {
        let bucket = hash(symbol.name) as usize % buckets;
        next[index + 1] = std::mem::replace(&mut first[bucket], index as u32 + 1);
    }
    out.align(8);
    out.u32(buckets as u32);
    out.u32(next.len() as u32);
    first.iter().chain(&next).for_each(|number| out.u32(*number));
}

/// Writes the version of each symbol, and the versions that there are: the library itself and the one. Gives where
/// both lie.
fn write_versions(out: &mut Writer, count: usize, names: [(&str, u32); 2]) -> (u64, u64) {
    out.align(8);
    let of_symbols = out.here();
    out.u16(0);
    (0..count).for_each(|_| out.u16(2));
    out.align(8);
    let definitions = out.here();
    for (index, (name, text)) in names.into_iter().enumerate() {
        let is_last = index == 1;
        out.u16(1);
        // The first one is the base version.
        out.u16(u16::from(!is_last));
        out.u16(index as u16 + 1);
        out.u16(1);
        out.u32(hash(name));
        out.u32(20);
        out.u32(if is_last { 0 } else { 28 });
        out.u32(text);
        out.u32(0);
    }
    (of_symbols, definitions)
}
