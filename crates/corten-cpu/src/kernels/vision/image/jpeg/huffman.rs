//! Codes of varying length.

use super::bits::Bits;
use corten_core::{Result, bail, ensure};

/// Codes up to this length are looked up at once.
const SHORT: u32 = 9;

/// The symbols of a code.
pub(super) struct Huffman {
    /// By the next [`SHORT`] bits: symbol and length, zero for longer codes.
    short: Vec<(u8, u8)>,
    /// The symbols in the order of their codes.
    symbols: Vec<u8>,
    /// The largest code of each length and how far the places of its symbols are ahead of the codes;
    /// -1 where there is no code of a length.
    last: [i32; 17],
    ahead: [i32; 17],
}

impl Huffman {
    /// The code with `counts[n]` symbols of `n + 1` bits.
    ///
    /// # Errors
    /// `Runtime` where that is no code.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<Self> {
        let mut found = Self {
            // Bounded: a table of 512 entries, and a segment of a file.
            short: vec![(0, 0); 1 << SHORT],
            symbols: symbols.to_vec(),
            last: [-1; 17],
            ahead: [0; 17],
        };
        let (mut code, mut place) = (0i32, 0i32);
        for length in 1..=16usize {
            found.ahead[length] = place - code;
            for _ in 0..counts[length - 1] {
                ensure!(code < 1 << length, Runtime, "Bogus Huffman table definition");
                if length as u32 <= SHORT {
                    let rest = SHORT as usize - length;
                    let symbol = symbols[place as usize];
                    let first = (code as usize) << rest;
                    found.short[first..first + (1 << rest)].fill((symbol, length as u8));
                }
                (code, place) = (code + 1, place + 1);
            }
            if counts[length - 1] > 0 {
                found.last[length] = code - 1;
            }
            code <<= 1;
        }
        Ok(found)
    }

    /// The next symbol.
    ///
    /// # Errors
    /// `Runtime` for bits that are no code.
    #[inline(always)]
    pub(super) fn decode(&self, bits: &mut Bits<'_>) -> Result<u8> {
        bits.fill();
        let (symbol, length) = self.short[bits.peek(SHORT)];
        if length > 0 {
            bits.skip(u32::from(length));
            return Ok(symbol);
        }
        self.decode_long(bits)
    }

    #[cold]
    fn decode_long(&self, bits: &mut Bits<'_>) -> Result<u8> {
        for length in SHORT + 1..=16 {
            let code = bits.peek(length) as i32;
            if code <= self.last[length as usize] {
                let place = (code + self.ahead[length as usize]) as usize;
                if let Some(&symbol) = self.symbols.get(place) {
                    bits.skip(length);
                    return Ok(symbol);
                }
            }
        }
        bits.check()?;
        bail!(Runtime, "Corrupt JPEG data: bad Huffman code")
    }
}
