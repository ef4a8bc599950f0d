//! Zip files of records that are stored as they are.

/// Names and bytes.
pub(crate) type Records = Vec<(String, Vec<u8>)>;

fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes[at..at + width].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Where the entries of the directory begin.
fn entries(zip: &[u8]) -> Vec<usize> {
    let end = zip.windows(4).rposition(|bytes| bytes == b"PK\x05\x06").unwrap();
    let (count, mut at) = (number(zip, end + 10, 2), number(zip, end + 16, 4));
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(at);
        at += 46 + number(zip, at + 28, 2) + number(zip, at + 30, 2) + number(zip, at + 32, 2);
    }
    found
}

/// The records of a file.
pub(crate) fn stored(zip: &[u8]) -> Records {
    let record = |at: usize| {
        assert_eq!(number(zip, at + 10, 2), 0, "it is compressed");
        let (size, header) = (number(zip, at + 24, 4), number(zip, at + 42, 4));
        let start = header + 30 + number(zip, header + 26, 2) + number(zip, header + 28, 2);
        let name = &zip[at + 46..at + 46 + number(zip, at + 28, 2)];
        (String::from_utf8(name.to_vec()).unwrap(), zip[start..start + size].to_vec())
    };
    entries(zip).into_iter().map(record).collect()
}

/// The bytes of the pickle.
pub(crate) fn pickle(records: &Records) -> &[u8] {
    &records.iter().find(|(name, _)| name.ends_with("/data.pkl")).unwrap().1
}

/// The bytes of the pickle, to be changed.
pub(crate) fn pickle_mut(records: &mut Records) -> &mut Vec<u8> {
    &mut records.iter_mut().find(|(name, _)| name.ends_with("/data.pkl")).unwrap().1
}

/// The checksum of zip files.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// A file of records.
pub(crate) fn write(records: &Records) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in records {
        let (size, start) = (bytes.len() as u32, zip.len() as u32);
        // Version, flags, method, time, date, checksum, both sizes, lengths of name and extra field.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend([crc32(bytes), size, size].map(u32::to_le_bytes).concat());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        zip.extend([b"PK\x03\x04", &common[..], name.as_bytes(), bytes].concat());
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &[0; 10]].concat());
        directory.extend(start.to_le_bytes());
        directory.extend(name.bytes());
    }
    let (start, size) = (zip.len() as u32, directory.len() as u32);
    let count = (records.len() as u16).to_le_bytes();
    zip.extend(directory);
    zip.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count[..]].concat());
    zip.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    zip.extend([0, 0]);
    zip
}

/// The file with its last record where the one before it is.
pub(crate) fn with_shared_place(zip: &[u8]) -> Vec<u8> {
    let entries = entries(zip);
    let (last, before) = (entries[entries.len() - 1], entries[entries.len() - 2]);
    let mut changed = zip.to_vec();
    changed.copy_within(before + 42..before + 46, last + 42);
    changed
}
