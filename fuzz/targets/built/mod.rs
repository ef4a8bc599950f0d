//! Files that a target builds from an input: checksums and lengths are right, so that what lies behind them is
//! reached.
//!
//! An input that begins with [`MARK`] is a list of pieces, each with its length in two bytes before it.

/// The first byte of inputs that files are built from. No file begins with it.
pub const MARK: u8 = 0xFF;

/// The pieces of an input; nothing for the bytes of a file.
pub fn pieces(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let [MARK, rest @ ..] = bytes else { return None };
    let (mut rest, mut found) = (rest, Vec::new());
    while let [low, high, data @ ..] = rest {
        let (piece, after) =
            data.split_at(data.len().min(usize::from(*low) | usize::from(*high) << 8));
        found.push(piece);
        rest = after;
    }
    Some(found)
}
