//! GPT-2's spelling of bytes: each byte is a printable character.

/// The character of a byte: itself where it is printable, else one behind U+0100.
fn character(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&earlier| !is_printable(earlier)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte of a character.
fn byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        256..=288 => Some((code - 256) as u8),
        289..=322 => Some((code - 289) as u8 + 0x7f),
        323 => Some(0xad),
        _ => None,
    }
}

/// Text whose bytes are spelled as characters.
pub(super) fn spelled(text: &str) -> String {
    text.bytes().map(character).collect()
}

/// The bytes that characters spell; characters that spell none stand for themselves.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
