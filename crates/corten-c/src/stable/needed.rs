//! The dynamic section of shared libraries: what a library needs, and the headers of one that is made.

/// Tags of the dynamic section.
pub(super) mod dynamic {
    pub(crate) const NULL: u64 = 0;
    pub(crate) const NEEDED: u64 = 1;
    pub(crate) const HASH: u64 = 4;
    pub(crate) const STRTAB: u64 = 5;
    pub(crate) const SYMTAB: u64 = 6;
    pub(crate) const STRSZ: u64 = 10;
    pub(crate) const SYMENT: u64 = 11;
    pub(crate) const SONAME: u64 = 14;
    pub(crate) const VERSYM: u64 = 0x6FFF_FFF0;
    pub(crate) const VERDEF: u64 = 0x6FFF_FFFC;
    pub(crate) const VERDEFNUM: u64 = 0x6FFF_FFFD;
}

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const STACK: u64 = 0x6474_E551;
const READ_WRITE: u64 = 6;
const SHARED_OBJECT: u16 = 3;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: u16 = 0;

/// Bytes of a file.
#[derive(Clone, Copy)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// The header of a file and of its segments.
pub(super) struct Header;

impl Header {
    /// The headers of a library that is loaded whole, to be read and, by the dynamic linker, written.
    pub(super) fn of_library(size: u64, alignment: u64, section: Section) -> Vec<u8> {
        let mut bytes = vec![0x7F, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut put = |number: u64, width: usize| {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        };
        // Type, machine, version, entry point, segments, sections, flags.
        let sizes = [(SHARED_OBJECT.into(), 2), (MACHINE.into(), 2), (1, 4), (0, 8), (64, 8)];
        sizes.iter().for_each(|(number, width)| put(*number, *width));
        // Flags, sizes of the header and of a segment's, their number; there are no sections.
        let sizes = [(0, 8), (0, 4), (64, 2), (56, 2), (3, 2), (64, 2), (0, 2), (0, 2)];
        sizes.iter().for_each(|(number, width)| put(*number, *width));
        let none = Section { offset: 0, size: 0 };
        let segments = [
            (LOAD, Section { offset: 0, size }, alignment),
            (DYNAMIC, section, 8),
            // Without it the stack would become executable.
            (STACK, none, 16),
        ];
        for (kind, Section { offset, size }, alignment) in segments {
            put(kind, 4);
            put(READ_WRITE, 4);
            for number in [offset, offset, offset, size, size, alignment] {
                put(number, 8);
            }
        }
        bytes
    }
}

/// A number of a file, if it is that long.
fn number(file: &[u8], at: u64, width: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = file.get(at..at.checked_add(width)?)?;
    let mut number = [0; 8];
    number[..width].copy_from_slice(bytes);
    Some(u64::from_le_bytes(number))
}

/// The names of the libraries that a shared library needs; None for a file that is none of 64 bits.
pub(super) fn needed(file: &[u8]) -> Option<Vec<String>> {
    if file.get(..6)? != b"\x7FELF\x02\x01" {
        return None;
    }
    let (begin, count) = (number(file, 32, 8)?, number(file, 56, 2)?);
    let segments: Vec<(u64, u64, u64, u64)> = (0..count)
        .map(|index| {
            let at = begin.checked_add(index * 56)?;
            let field = |offset, width| number(file, at.checked_add(offset)?, width);
            Some((field(0, 4)?, field(8, 8)?, field(16, 8)?, field(32, 8)?))
        })
        .collect::<Option<_>>()?;
    let (_, offset, _, size) = *segments.iter().find(|segment| segment.0 == DYNAMIC)?;
    let entries: Vec<(u64, u64)> = (0..size / 16)
        .map_while(|index| {
            let at = offset.checked_add(index * 16)?;
            let entry = (number(file, at, 8)?, number(file, at.checked_add(8)?, 8)?);
            (entry.0 != dynamic::NULL).then_some(entry)
        })
        .collect();
    let (_, strings) = *entries.iter().find(|entry| entry.0 == dynamic::STRTAB)?;
    // Addresses in the section are those of the loaded library.
    let of_file = |address: u64| {
        let mut loaded = segments.iter().filter(|segment| segment.0 == LOAD);
        loaded.find_map(|(_, offset, begin, size)| {
            let within = address.checked_sub(*begin)?;
            if within < *size { offset.checked_add(within) } else { None }
        })
    };
    let strings = of_file(strings)?;
    let names = entries.iter().filter(|entry| entry.0 == dynamic::NEEDED).map(|(_, name)| {
        let at = usize::try_from(strings.checked_add(*name)?).ok()?;
        let bytes = file.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    });
    names.collect()
}
