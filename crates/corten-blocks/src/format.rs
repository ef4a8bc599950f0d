//! The formats by name and number.

use crate::group32::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::k_quants::{Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::table::{Iq4Nl, Iq4Xs, Mxfp4};
use crate::unpacked::{self, Packing, Unpacked};
use std::fmt;

/// Declares the formats: name in files, number in files, elements and bytes of a block, packing.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident = $number:literal, $name:literal, $elements:literal, $nbytes:literal, $packing:ty;)*) => {
        /// A block-quantised format.
        ///
        /// ```
        /// use corten_blocks::Format;
        ///
        /// assert_eq!(Format::of_name("Q4_K"), Some(Format::Q4K));
        /// assert_eq!(Format::Q4K.bits_per_element(), 4.5);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $format = $number,)*
        }

        impl Format {
            /// All formats.
            pub const ALL: &[Self] = &[$(Self::$format,)*];

            /// The name in files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$format => $name,)* }
            }

            /// Elements of a block.
            pub const fn block_elements(self) -> usize {
                match self { $(Self::$format => $elements,)* }
            }

            /// Bytes of a block.
            pub const fn block_bytes(self) -> usize {
                match self { $(Self::$format => $nbytes,)* }
            }

            /// Elements of a group with one scale.
            pub const fn group_elements(self) -> usize {
                match self { $(Self::$format => <$packing>::GROUP,)* }
            }

            /// Whether groups have a minimum beside their scale.
            pub const fn has_minimums(self) -> bool {
                match self { $(Self::$format => <$packing>::HAS_MINIMUMS,)* }
            }

            fn dequantize_all(self, bytes: &[u8], out: &mut [f32]) {
                match self {
                    $(Self::$format => unpacked::dequantize::<$packing>(bytes, $nbytes, out, $elements),)*
                }
            }

            fn quantize_all(self, weights: &[f32], out: &mut [u8]) {
                match self {
                    $(Self::$format => unpacked::quantize::<$packing>(weights, $elements, out, $nbytes),)*
                }
            }

            fn unpack_one(self, bytes: &[u8], to: &mut Unpacked) {
                match self { $(Self::$format => <$packing>::unpack(bytes, to),)* }
            }
        }
    };
}

formats! {
    /// 4 bits, symmetric.
    Q4_0 = 2, "Q4_0", 32, 18, Q4_0;
    /// 4 bits and a minimum.
    Q4_1 = 3, "Q4_1", 32, 20, Q4_1;
    /// 5 bits, symmetric.
    Q5_0 = 6, "Q5_0", 32, 22, Q5_0;
    /// 5 bits and a minimum.
    Q5_1 = 7, "Q5_1", 32, 24, Q5_1;
    /// 8 bits, symmetric.
    Q8_0 = 8, "Q8_0", 32, 34, Q8_0;
    /// 2 bits; scales and minimums of 4 bits.
    Q2K = 10, "Q2_K", 256, 84, Q2K;
    /// 3 bits, symmetric; scales of 6 bits.
    Q3K = 11, "Q3_K", 256, 110, Q3K;
    /// 4 bits; scales and minimums of 6 bits.
    Q4K = 12, "Q4_K", 256, 144, Q4K;
    /// 5 bits; scales and minimums of 6 bits.
    Q5K = 13, "Q5_K", 256, 176, Q5K;
    /// 6 bits, symmetric; scales of 8 bits.
    Q6K = 14, "Q6_K", 256, 210, Q6K;
    /// 16 values at unequal distances.
    IQ4NL = 20, "IQ4_NL", 32, 18, Iq4Nl;
    /// The values of `IQ4_NL`; scales of 6 bits.
    IQ4XS = 23, "IQ4_XS", 256, 136, Iq4Xs;
    /// Floats of 4 bits (e2m1) whose scale is a power of two.
    MXFP4 = 39, "MXFP4", 32, 17, Mxfp4;
}

/// A length that is no whole number of blocks, or two lengths that do not belong together.
///
/// ```
/// use corten_blocks::Format;
///
/// assert!(Format::Q8_0.quantize(&[0.0; 33], &mut [0; 34]).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LengthError {
    format: Format,
    elements: usize,
    nbytes: usize,
}

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, elements, nbytes } = self;
        let (each, size) = (format.block_elements(), format.block_bytes());
        let name = format.name();
        write!(
            f,
            "{name}: {elements} elements and {nbytes} bytes are not as many blocks of {each} and {size}"
        )
    }
}

impl std::error::Error for LengthError {}

impl Format {
    /// The format of a number in files.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|&format| format as u32 == number)
    }

    /// The format of a name in files.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// The bits that an element takes, scales included.
    pub fn bits_per_element(self) -> f64 {
        (self.block_bytes() * 8) as f64 / self.block_elements() as f64
    }

    /// The bytes of a row of so many elements, where they are whole blocks.
    pub fn row_bytes(self, elements: usize) -> Option<usize> {
        let is_whole = elements.is_multiple_of(self.block_elements());
        is_whole.then(|| (elements / self.block_elements()).checked_mul(self.block_bytes()))?
    }

    /// The weights of whole blocks, equal to the bit to those of GGML's own reference.
    ///
    /// # Errors
    /// [`LengthError`].
    pub fn dequantize(self, bytes: &[u8], out: &mut [f32]) -> Result<(), LengthError> {
        self.check(out.len(), bytes.len())?;
        self.dequantize_all(bytes, out);
        Ok(())
    }

    /// The blocks nearest to weights. Those of the formats with 32 elements are GGML's own, to the bit.
    ///
    /// # Errors
    /// [`LengthError`].
    pub fn quantize(self, weights: &[f32], out: &mut [u8]) -> Result<(), LengthError> {
        self.check(weights.len(), out.len())?;
        self.quantize_all(weights, out);
        Ok(())
    }

    /// The integers and scales of one block.
    ///
    /// # Errors
    /// [`LengthError`] for bytes that are not one block.
    pub fn unpack(self, bytes: &[u8], to: &mut Unpacked) -> Result<(), LengthError> {
        self.check(self.block_elements(), bytes.len())?;
        self.unpack_one(bytes, to);
        Ok(())
    }

    pub(crate) fn length_error(self, elements: usize, nbytes: usize) -> LengthError {
        LengthError { format: self, elements, nbytes }
    }

    fn check(self, elements: usize, nbytes: usize) -> Result<(), LengthError> {
        let fits = self.row_bytes(elements) == Some(nbytes);
        fits.then_some(()).ok_or_else(|| self.length_error(elements, nbytes))
    }
}
