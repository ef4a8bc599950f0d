//! Borders by mode.

use crate::{Tensor, op};
use corten_core::{DType, MemoryFormat, Result, Scalar, bail, ensure};

/// A border, given from the last dimension on as pairs of sizes before and after; negative sizes
/// cut elements off.
///
/// # Errors
/// `Runtime` when the sizes do not fit the tensor or the mode, `NotImplemented` for shapes that the
/// mode does not cover and modes that do not exist.
pub fn pad(self_: &Tensor, pad: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    let rank = self_.dim();
    ensure!(pad.len().is_multiple_of(2), Runtime, "Padding length must be divisible by 2");
    ensure!(
        pad.len() <= 2 * rank,
        Runtime,
        "Padding length should be less than or equal to two times the input dimension but got \
         padding length {} and input of dimension {rank}",
        pad.len()
    );
    if mode == "constant" {
        return op::constant_pad_nd(self_, pad, Scalar::Float(value.unwrap_or(0.0)));
    }
    ensure!(
        value.is_none_or(|value| value == 0.0),
        Runtime,
        "Padding mode \"{mode}\" doesn't take in value argument"
    );
    let border = Border::named(mode)?;
    ensure!(
        matches!((pad.len(), rank), (2, 2 | 3) | (4, 3 | 4) | (6, 4 | 5)),
        NotImplemented,
        "Padding size {} is not supported for {rank}D input tensor.\nSupported combinations for \
         non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D \
         or 4D input: padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size \
         = 6 (pads last 3 dimensions)",
        pad.len()
    );
    border.check_sizes(self_, pad)?;
    let format = self_.suggest_memory_format();
    let mut padded = self_.clone();
    for (i, sides) in pad.chunks_exact(2).enumerate() {
        let dim = rank - 1 - i;
        let index = border.index(self_.sizes()[dim], sides[0], sides[1], dim, self_, pad)?;
        padded = op::index_select(&padded, dim as i64, &index)?;
    }
    match format {
        MemoryFormat::Contiguous => Ok(padded),
        format => op::contiguous(&padded, format),
    }
}

/// Where the elements of a border come from.
#[derive(Clone, Copy, PartialEq)]
enum Border {
    Reflect,
    Replicate,
    Circular,
}

impl Border {
    fn named(mode: &str) -> Result<Self> {
        match mode {
            "reflect" => Ok(Self::Reflect),
            "replicate" => Ok(Self::Replicate),
            "circular" => Ok(Self::Circular),
            _ => bail!(NotImplemented, "Unrecognised padding mode {mode}"),
        }
    }

    /// Only the batch may be empty.
    fn check_sizes(self, self_: &Tensor, pad: &[i64]) -> Result<()> {
        let sizes = self_.sizes();
        let batched = sizes.len() == pad.len() / 2 + 2;
        ensure!(
            self == Self::Circular || sizes[usize::from(batched)..].iter().all(|&size| size > 0),
            Runtime,
            "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other \
             non-zero dimensions for input, but got: {:?}",
            pad.len() / 2 + 1,
            pad.len() / 2 + 2,
            sizes.as_slice()
        );
        Ok(())
    }

    /// The source of every element along one dimension.
    fn index(
        self,
        size: i64,
        before: i64,
        after: i64,
        dim: usize,
        self_: &Tensor,
        pad: &[i64],
    ) -> Result<Tensor> {
        let padded = size.saturating_add(before).saturating_add(after);
        match self {
            Self::Reflect => ensure!(
                before < size && after < size,
                Runtime,
                "Argument #{}: Padding size should be less than the corresponding input \
                 dimension, but got: padding ({before}, {after}) at dimension {dim} of input {:?}",
                2 * (self_.dim() - dim) + 2,
                self_.sizes().as_slice()
            ),
            Self::Circular => {
                ensure!(
                    before <= size && after <= size,
                    Runtime,
                    "Padding value causes wrapping around more than once."
                );
                ensure!(
                    padded >= 0,
                    Runtime,
                    "Negative padding value is resulting in an empty dimension"
                );
            }
            Self::Replicate => {}
        }
        ensure!(
            padded >= 1 || self == Self::Circular,
            Runtime,
            "input {:?} is too small for padding {pad:?}: dimension {dim} would have size {padded}",
            self_.sizes().as_slice()
        );
        // What is cut off does not come round again.
        let cut = before.min(0).saturating_neg();
        let left = size.saturating_sub(cut).saturating_add(after.min(0));
        let source = |place: i64| {
            let place = place - before;
            match self {
                Self::Replicate => place.clamp(0, size - 1),
                Self::Circular => cut + (place - cut).rem_euclid(left.max(1)),
                Self::Reflect if place < 0 => -place,
                Self::Reflect if place >= size => 2 * (size - 1) - place,
                Self::Reflect => place,
            }
        };
        let index = numbers(padded, source)?;
        let index = Tensor::from_slice(&index, &[padded])?;
        op::to_device(&index, self_.device(), DType::Int64, false, false, None)
    }
}

/// `count` numbers by position.
fn numbers(count: i64, of: impl Fn(i64) -> i64) -> Result<Vec<i64>> {
    let mut numbers = Vec::new();
    let room = usize::try_from(count).ok().filter(|&room| numbers.try_reserve_exact(room).is_ok());
    ensure!(room.is_some(), OutOfMemory, "no memory for a border of {count} elements");
    numbers.extend((0..count).map(of));
    Ok(numbers)
}
