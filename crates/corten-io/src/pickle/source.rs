//! Where the bytes of pickles come from.

use std::borrow::Cow;

/// The bytes of pickles, one behind the other.
///
/// ```
/// use corten::Result;
/// use corten::io::pickle::{Slice, Source};
///
/// let mut source = Slice::new(b"text\nrest", 0);
/// let line: Result<_> = source.line();
/// assert_eq!(&*line.unwrap(), b"text\n");
/// let rest: Result<_> = source.take(9);
/// assert_eq!(rest.unwrap().len(), 4);
/// ```
pub trait Source<E> {
    /// Fills memory with the next bytes; tells how many there were.
    ///
    /// # Errors
    /// They cannot be read, as below.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, E>;

    /// The next bytes, fewer at the end.
    ///
    /// # Errors
    /// As above.
    fn take(&mut self, count: usize) -> Result<Cow<'_, [u8]>, E>;

    /// The bytes up to the end of the line and with it, or up to the end.
    ///
    /// # Errors
    /// As above.
    fn line(&mut self) -> Result<Cow<'_, [u8]>, E>;
}

/// Bytes in memory.
///
/// ```
/// use corten::Result;
/// use corten::io::pickle::{Slice, Source};
///
/// let mut source = Slice::new(b"abc", 1);
/// let taken: Result<_> = source.take(1);
/// assert_eq!(&*taken.unwrap(), b"b");
/// assert_eq!(source.position(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Slice<'a> {
    /// The bytes from a position on.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    /// The position of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    fn advance(&mut self, count: usize) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let taken = &rest[..count.min(rest.len())];
        self.at += taken.len();
        taken
    }
}

impl<E> Source<E> for Slice<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, E> {
        let taken = self.advance(bytes.len());
        bytes[..taken.len()].copy_from_slice(taken);
        Ok(taken.len())
    }

    fn take(&mut self, count: usize) -> Result<Cow<'_, [u8]>, E> {
        Ok(Cow::Borrowed(self.advance(count)))
    }

    fn line(&mut self) -> Result<Cow<'_, [u8]>, E> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
        Ok(Cow::Borrowed(self.advance(end)))
    }
}
