//! Memory as other libraries describe it, checked before a storage is made of it.

use smallvec::smallvec;

use super::{Dims, checked_numel};
use crate::{Error, err};

/// Lists of more dimensions than this are taken for damage.
pub const MAX_FOREIGN_DIMS: usize = 128;

/// The strides of foreign memory.
///
/// ```
/// use corten_core::geometry::{ForeignMemory, ForeignStrides};
///
/// let memory = ForeignMemory {
///     address: 0x1000,
///     byte_offset: 0,
///     sizes: &[2, 3],
///     strides: ForeignStrides::Bytes(&[12, 4]),
///     itemsize: 4,
///     available: Some(24),
/// };
/// assert!(memory.check().is_ok_and(|geometry| geometry.strides.to_vec() == [3, 1]));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ForeignStrides<'a> {
    /// The last dimension varies fastest, without gaps.
    Contiguous,
    /// Numbers of elements, as in DLPack.
    Elements(&'a [i64]),
    /// Numbers of bytes, as in NumPy and the buffer protocol.
    Bytes(&'a [i64]),
}

/// What another library says about a block of its memory.
///
/// ```
/// use corten_core::geometry::{ForeignMemory, ForeignStrides};
///
/// let memory = ForeignMemory {
///     address: 0x1000,
///     byte_offset: 0,
///     sizes: &[2, 3],
///     strides: ForeignStrides::Contiguous,
///     itemsize: 4,
///     available: Some(20),
/// };
/// assert!(memory.check().is_err(), "24 bytes are needed");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ForeignMemory<'a> {
    /// The address that the library gives.
    pub address: usize,
    /// Where the element with all indices zero lies, in bytes from the address.
    pub byte_offset: u64,
    /// The sizes.
    pub sizes: &'a [i64],
    /// The strides.
    pub strides: ForeignStrides<'a>,
    /// Bytes of an element.
    pub itemsize: usize,
    /// Bytes from the address on that exist, where the library says so.
    pub available: Option<usize>,
}

/// The geometry of foreign memory of which a storage can be made. The storage begins with the element
/// with all indices zero, so its offset is zero.
///
/// ```
/// use corten_core::geometry::{ForeignMemory, ForeignStrides};
///
/// let memory = ForeignMemory {
///     address: 0x1000,
///     byte_offset: 0,
///     sizes: &[2, 3],
///     strides: ForeignStrides::Contiguous,
///     itemsize: 4,
///     available: Some(24),
/// };
/// assert!(memory.check().is_ok_and(|geometry| geometry.nbytes == 24));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignGeometry {
    /// Where the storage begins, in bytes from the address.
    pub start: usize,
    /// Bytes from the beginning of the storage to the end of the last element.
    pub nbytes: usize,
    /// The sizes.
    pub sizes: Dims,
    /// The strides, in elements. Those that no index multiplies may differ from what was given.
    pub strides: Dims,
}

/// Why no storage can be made of foreign memory.
///
/// ```
/// use corten_core::geometry::{ForeignError, ForeignMemory, ForeignStrides};
///
/// let memory = ForeignMemory {
///     address: 0x1000,
///     byte_offset: 0,
///     sizes: &[2, 3],
///     strides: ForeignStrides::Elements(&[-3, 1]),
///     itemsize: 4,
///     available: Some(24),
/// };
/// assert_eq!(memory.check(), Err(ForeignError::NegativeStride));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignError {
    /// Too many dimensions, or not as many strides as sizes.
    Rank,
    /// A negative size.
    NegativeSize(i64),
    /// More elements than can be counted.
    TooManyElements,
    /// A negative stride.
    NegativeStride,
    /// A stride in bytes that is no multiple of an element's.
    OddStride,
    /// There are elements, but no address.
    NoAddress,
    /// The elements reach beyond the end of the address space.
    TooLarge,
    /// The elements reach beyond the memory that exists.
    OutOfBounds {
        /// Bytes from the address that are needed.
        needed: usize,
        /// Bytes from the address that exist.
        available: usize,
    },
}

impl ForeignMemory<'_> {
    /// The geometry for a storage of exactly the bytes between the first and the last element.
    ///
    /// # Errors
    /// Whatever would make an element lie outside of those bytes, or those bytes outside of what the
    /// library says that there is. Negative strides are refused, as in the rest of the package.
    pub fn check(&self) -> Result<ForeignGeometry, ForeignError> {
        let sizes = self.sizes;
        if sizes.len() > MAX_FOREIGN_DIMS {
            return Err(ForeignError::Rank);
        }
        if let Some(&size) = sizes.iter().find(|&&size| size < 0) {
            return Err(ForeignError::NegativeSize(size));
        }
        let numel = checked_numel(sizes).map_err(|_| ForeignError::TooManyElements)?;
        let strides = self.element_strides(numel)?;
        let nbytes = self.extent(&strides, numel)?;
        let start = usize::try_from(self.byte_offset).map_err(|_| ForeignError::TooLarge)?;
        let needed = start.checked_add(nbytes).ok_or(ForeignError::TooLarge)?;
        self.address
            .checked_add(needed)
            .filter(|&end| nbytes == 0 || end < isize::MAX as usize)
            .ok_or(ForeignError::TooLarge)?;
        if nbytes > 0 && self.address == 0 {
            return Err(ForeignError::NoAddress);
        }
        match self.available {
            Some(available) if needed > available => {
                Err(ForeignError::OutOfBounds { needed, available })
            }
            _ => Ok(ForeignGeometry { start, nbytes, sizes: sizes.into(), strides }),
        }
    }

    /// The strides in elements. Those of dimensions without a second index can be anything and are
    /// replaced where other code could not calculate with them.
    fn element_strides(&self, numel: i64) -> Result<Dims, ForeignError> {
        // Strides in bytes can be calculated with up to here.
        let limit = isize::MAX as i64 / self.itemsize.max(1) as i64;
        let dense = dense_strides(self.sizes, limit);
        let (given, unit) = match self.strides {
            ForeignStrides::Contiguous => return Ok(dense),
            ForeignStrides::Elements(given) => (given, 1),
            ForeignStrides::Bytes(given) => (given, self.itemsize.max(1) as i64),
        };
        if given.len() != self.sizes.len() {
            return Err(ForeignError::Rank);
        }
        let mut strides = Dims::new();
        for ((&stride, &size), &dense) in given.iter().zip(self.sizes).zip(&dense) {
            let counts = numel > 0 && size > 1;
            strides.push(match (stride / unit, stride % unit) {
                (_, rest) if rest != 0 && counts => return Err(ForeignError::OddStride),
                (stride, _) if stride < 0 && counts => return Err(ForeignError::NegativeStride),
                (stride, _) if !counts && !(0..=limit).contains(&stride) => dense,
                (stride, _) => stride,
            });
        }
        Ok(strides)
    }

    fn extent(&self, strides: &[i64], numel: i64) -> Result<usize, ForeignError> {
        if numel == 0 {
            return Ok(0);
        }
        let last = self.sizes.iter().zip(strides).try_fold(0_i64, |last, (&size, &stride)| {
            last.checked_add(stride.checked_mul(size - 1)?)
        });
        last.and_then(|last| last.checked_add(1)?.checked_mul(self.itemsize as i64))
            .and_then(|nbytes| usize::try_from(nbytes).ok())
            .ok_or(ForeignError::TooLarge)
    }

    /// The error for whoever asked for a tensor, with the words of the tensor's own geometry.
    #[cold]
    pub fn explain(&self, error: ForeignError) -> Error {
        let sizes = self.sizes;
        let given = match self.strides {
            ForeignStrides::Elements(strides) | ForeignStrides::Bytes(strides) => strides,
            ForeignStrides::Contiguous => &[],
        };
        let overflowed = || {
            format!(
                "Storage size calculation overflowed with sizes={sizes:?} and strides={given:?}"
            )
        };
        match error {
            ForeignError::Rank => err!(
                Runtime,
                "mismatch in length of strides and shape, or too many dimensions: {} and {}, of at \
                 most {MAX_FOREIGN_DIMS}",
                given.len(),
                sizes.len()
            ),
            ForeignError::NegativeSize(size) => {
                err!(Runtime, "Trying to create tensor with negative dimension {size}: {sizes:?}")
            }
            ForeignError::TooManyElements => {
                err!(Runtime, "numel: integer multiplication overflow")
            }
            ForeignError::NegativeStride => err!(
                Runtime,
                "{}: tensors with negative strides are not supported, copy the data first",
                overflowed()
            ),
            ForeignError::OddStride => err!(
                Value,
                "the strides {given:?} are not multiples of the element size, {} bytes",
                self.itemsize
            ),
            ForeignError::NoAddress => err!(
                Runtime,
                "the memory of a tensor of sizes {sizes:?} cannot be at the null address"
            ),
            ForeignError::TooLarge => err!(
                Runtime,
                "{}, from byte {} of the memory at {:#x}",
                overflowed(),
                self.byte_offset,
                self.address
            ),
            ForeignError::OutOfBounds { needed, available } => err!(
                Runtime,
                "sizes {sizes:?}, strides {given:?} and byte offset {} need {needed} bytes, but \
                 the memory has {available}",
                self.byte_offset
            ),
        }
    }
}

/// The strides of a tensor without gaps, none above `limit`: of empty tensors, or of those that are too
/// large anyway.
fn dense_strides(sizes: &[i64], limit: i64) -> Dims {
    let mut strides: Dims = smallvec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(sizes[d].max(1)).min(limit);
    }
    strides
}
