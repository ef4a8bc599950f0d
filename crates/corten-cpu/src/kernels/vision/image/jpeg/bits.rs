//! The bits of entropy-coded segments.

use corten_core::{Result, bail};

/// Reads bits up to the next marker.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    word: u64,
    /// The bits of the word.
    count: u32,
    /// How many of these are zeros that stand behind the end of the segment.
    behind: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8], at: usize) -> Self {
        Self { data, at, word: 0, count: 0, behind: 0 }
    }

    /// Makes at least 16 bits available.
    #[inline(always)]
    pub(super) fn fill(&mut self) {
        while self.count <= 48 {
            let byte = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.behind += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.word = self.word << 8 | u64::from(byte);
            self.count += 8;
        }
    }

    /// The next `n` bits, at most 16, of those that [`Bits::fill`] made available.
    #[inline(always)]
    pub(super) fn peek(&self, n: u32) -> usize {
        (self.word >> (self.count - n)) as usize & ((1 << n) - 1)
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, n: u32) {
        self.count -= n;
    }

    /// The next `n` bits, at most 16.
    #[inline(always)]
    pub(super) fn take(&mut self, n: u32) -> i32 {
        self.fill();
        let bits = self.peek(n);
        self.skip(n);
        bits as i32
    }

    /// The number that `n` bits stand for in a difference or a coefficient.
    #[inline(always)]
    pub(super) fn signed(&mut self, n: u32) -> i32 {
        let bits = self.take(n);
        if n > 0 && bits < 1 << (n - 1) { bits - (1 << n) + 1 } else { bits }
    }

    /// That all bits which were read were there.
    ///
    /// # Errors
    /// `Runtime` when the segment or the file ended before.
    #[inline(always)]
    pub(super) fn check(&mut self) -> Result<()> {
        if self.behind > 0 && self.count < self.behind {
            if self.at + 1 >= self.data.len() {
                bail!(Runtime, "Image is incomplete or truncated");
            }
            bail!(Runtime, "Corrupt JPEG data: premature end of data segment");
        }
        // Bits behind the end are made again as they are needed.
        Ok(())
    }

    /// Passes the marker of a restart.
    ///
    /// # Errors
    /// `Runtime` when there is another.
    pub(super) fn restart(&mut self, nr: u8) -> Result<()> {
        (self.word, self.count, self.behind) = (0, 0, 0);
        self.at = self.marker();
        match self.data.get(self.at..self.at + 2) {
            Some(&[0xff, code]) if code == 0xd0 + nr => {
                self.at += 2;
                Ok(())
            }
            Some(&[_, code]) => {
                bail!(Runtime, "Corrupt JPEG data: found marker 0x{code:02x} instead of RST{nr}")
            }
            _ => bail!(Runtime, "Image is incomplete or truncated"),
        }
    }

    /// Where the next marker begins, or the data ends.
    pub(super) fn marker(&self) -> usize {
        let rest = self.data.get(self.at..).unwrap_or_default();
        let marker = |pair: &[u8]| pair[0] == 0xff && pair[1] != 0 && pair[1] != 0xff;
        match rest.windows(2).position(marker) {
            Some(place) => self.at + place,
            None => self.data.len(),
        }
    }
}
