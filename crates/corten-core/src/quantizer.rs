//! What the integers of a quantised tensor stand for.

use std::sync::Arc;

use crate::{DType, Result, TensorBase, bail, ensure};

/// How integers and real numbers correspond. The numbers are those of the serialised format.
///
/// ```
/// use corten_core::QScheme;
///
/// assert_eq!(QScheme::PerTensorAffine.name(), "per_tensor_affine");
/// ```
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QScheme {
    /// One scale and zero point.
    PerTensorAffine = 0,
    /// A scale and a zero point for each index of a dimension.
    PerChannelAffine = 1,
    /// One scale; the zero point is in the middle.
    PerTensorSymmetric = 2,
    /// A scale for each index of a dimension; the zero points are in the middle.
    PerChannelSymmetric = 3,
    /// As `PerChannelAffine`, with zero points that are floats.
    PerChannelAffineFloatQParams = 4,
}

impl QScheme {
    /// Every scheme in the order of its number.
    pub const ALL: &[QScheme] = &[
        QScheme::PerTensorAffine,
        QScheme::PerChannelAffine,
        QScheme::PerTensorSymmetric,
        QScheme::PerChannelSymmetric,
        QScheme::PerChannelAffineFloatQParams,
    ];

    /// The name as in `torch.per_tensor_affine`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerTensorAffine => "per_tensor_affine",
            Self::PerChannelAffine => "per_channel_affine",
            Self::PerTensorSymmetric => "per_tensor_symmetric",
            Self::PerChannelSymmetric => "per_channel_symmetric",
            Self::PerChannelAffineFloatQParams => "per_channel_affine_float_qparams",
        }
    }

    /// The scheme of a number.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|&scheme| scheme as i64 == number)
    }

    /// Looks a scheme up by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scheme| scheme.name() == name)
    }
}

/// The scale and zero point of integers `q`, which stand for `(q - zero_point) * scale`.
///
/// ```
/// use corten_core::{QScheme, Quantizer};
///
/// let quantizer = Quantizer::per_tensor(0.5, 3);
/// assert_eq!(quantizer.scheme(), QScheme::PerTensorAffine);
/// ```
#[derive(Clone, Debug)]
pub enum Quantizer {
    /// The same for all elements.
    PerTensor {
        /// The step between neighbouring integers.
        scale: f64,
        /// The integer that stands for 0.
        zero_point: i64,
    },
    /// One for each index of a dimension.
    PerChannel {
        /// The steps: one dimension, `float64`.
        scales: TensorBase,
        /// The integers that stand for 0: one dimension, `int64`.
        zero_points: TensorBase,
        /// The dimension.
        axis: i64,
    },
    /// One for each index of a dimension, with zero points that are floats.
    PerChannelFloat {
        /// The steps: one dimension, `float32`.
        scales: TensorBase,
        /// What stands for 0: one dimension, `float32`.
        zero_points: TensorBase,
        /// The dimension.
        axis: i64,
    },
}

impl Quantizer {
    /// One scale and zero point for all elements.
    pub fn per_tensor(scale: f64, zero_point: i64) -> Arc<Self> {
        Arc::new(Self::PerTensor { scale, zero_point })
    }

    /// The scheme.
    pub fn scheme(&self) -> QScheme {
        match self {
            Self::PerTensor { .. } => QScheme::PerTensorAffine,
            Self::PerChannel { .. } => QScheme::PerChannelAffine,
            Self::PerChannelFloat { .. } => QScheme::PerChannelAffineFloatQParams,
        }
    }

    /// Scale and zero point, where they are the same for all elements.
    pub fn of_tensor(&self) -> Option<(f64, i64)> {
        match *self {
            Self::PerTensor { scale, zero_point } => Some((scale, zero_point)),
            _ => None,
        }
    }

    /// Scales, zero points and their dimension, where there are several.
    pub fn of_channels(&self) -> Option<(&TensorBase, &TensorBase, i64)> {
        match self {
            Self::PerTensor { .. } => None,
            Self::PerChannel { scales, zero_points, axis }
            | Self::PerChannelFloat { scales, zero_points, axis } => {
                Some((scales, zero_points, *axis))
            }
        }
    }

    /// The same along another dimension.
    #[must_use]
    pub fn with_axis(&self, to: i64) -> Self {
        let mut moved = self.clone();
        if let Self::PerChannel { axis, .. } | Self::PerChannelFloat { axis, .. } = &mut moved {
            *axis = to;
        }
        moved
    }
}

impl DType {
    /// Elements in a byte of a quantised dtype; 1 where an element takes a byte or more.
    pub const fn elements_per_byte(self) -> usize {
        match self {
            Self::QUInt4x2 => 2,
            Self::QUInt2x4 => 4,
            _ => 1,
        }
    }

    /// The least and the largest integer of a quantised dtype.
    pub const fn quantized_range(self) -> Option<(i64, i64)> {
        match self {
            Self::QInt8 => Some((-128, 127)),
            Self::QUInt8 => Some((0, 255)),
            Self::QInt32 => Some((i32::MIN as i64, i32::MAX as i64)),
            Self::QUInt4x2 => Some((0, 15)),
            Self::QUInt2x4 => Some((0, 3)),
            _ => None,
        }
    }

    /// The quantised dtype whose elements are stored as this one.
    ///
    /// # Errors
    /// `Runtime` where there is none.
    pub fn quantized_as(self) -> Result<Self> {
        Ok(match self {
            Self::UInt8 => Self::QUInt8,
            Self::Int8 => Self::QInt8,
            Self::Int32 => Self::QInt32,
            _ => bail!(
                Runtime,
                "Creation of quantized tensor requires quantized dtype like torch.quint8"
            ),
        })
    }
}

/// Bytes of a tensor of a quantised dtype: rows of elements that share bytes begin at whole bytes.
pub(crate) fn quantized_bytes(sizes: &[i64], dtype: DType) -> Result<usize> {
    let per_byte = dtype.elements_per_byte() as i64;
    let (rows, row) = match sizes.split_last() {
        Some((&row, rows)) => (crate::geometry::checked_numel(rows)?, row),
        None => (1, 1),
    };
    let row = (row + per_byte - 1) / per_byte;
    let bytes = rows.checked_mul(row).and_then(|n| n.checked_mul(dtype.itemsize() as i64));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    ensure!(bytes.is_some(), Runtime, "Storage size calculation overflowed with sizes={sizes:?}");
    Ok(bytes.unwrap_or_default())
}
