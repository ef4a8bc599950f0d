//! Layouts and memory formats.

use std::fmt;

/// How a tensor keeps its elements. The numbers are those of the serialised format.
///
/// ```
/// use corten_core::Layout;
///
/// assert_eq!(Layout::SparseCsr.name(), "sparse_csr");
/// ```
#[repr(i8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Sizes and strides over a storage.
    #[default]
    Strided = 0,
    /// Coordinate format.
    Sparse = 1,
    /// Compressed rows.
    SparseCsr = 2,
    /// An opaque blocked format.
    Mkldnn = 3,
    /// Compressed columns.
    SparseCsc = 4,
    /// Compressed rows of blocks.
    SparseBsr = 5,
    /// Compressed columns of blocks.
    SparseBsc = 6,
    /// Nested tensors with offsets.
    Jagged = 7,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 8] = [
        Self::Strided,
        Self::Sparse,
        Self::SparseCsr,
        Self::Mkldnn,
        Self::SparseCsc,
        Self::SparseBsr,
        Self::SparseBsc,
        Self::Jagged,
    ];

    /// The name without the `torch.` prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strided => "strided",
            Self::Sparse => "sparse_coo",
            Self::SparseCsr => "sparse_csr",
            Self::Mkldnn => "_mkldnn",
            Self::SparseCsc => "sparse_csc",
            Self::SparseBsr => "sparse_bsr",
            Self::SparseBsc => "sparse_bsc",
            Self::Jagged => "jagged",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Strided => "Strided",
            Self::Sparse => "Sparse",
            Self::SparseCsr => "SparseCsr",
            Self::Mkldnn => "Mkldnn",
            Self::SparseCsc => "SparseCsc",
            Self::SparseBsr => "SparseBsr",
            Self::SparseBsc => "SparseBsc",
            Self::Jagged => "Jagged",
        })
    }
}

/// The order in which the dimensions of a dense tensor follow each other in memory.
///
/// ```
/// use corten_core::{MemoryFormat, TensorBase, TensorOptions};
///
/// let options = TensorOptions::default().memory_format(MemoryFormat::ChannelsLast);
/// let image = TensorBase::empty(&[1, 3, 2, 2], options)?;
/// assert_eq!(image.strides().to_vec(), [12, 1, 6, 3]);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[repr(i8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryFormat {
    /// The last dimension varies fastest.
    #[default]
    Contiguous = 0,
    /// The order of the input.
    Preserve = 1,
    /// NHWC: channels vary fastest in a tensor of rank 4.
    ChannelsLast = 2,
    /// NDHWC: channels vary fastest in a tensor of rank 5.
    ChannelsLast3d = 3,
}

impl MemoryFormat {
    /// The name as in `torch.channels_last`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous_format",
            Self::Preserve => "preserve_format",
            Self::ChannelsLast => "channels_last",
            Self::ChannelsLast3d => "channels_last_3d",
        }
    }
}
