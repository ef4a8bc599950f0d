//! Borders of mirrored and repeated elements.

use crate::{Tensor, batched, op};
use corten_core::{DType, Device, MemoryFormat, Result, Scalar, ensure, try_collect};
use std::ops::Range;

/// Where the elements of a border come from.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Border {
    Reflect,
    Replicate,
    Circular,
}

impl Border {
    /// The border itself.
    ///
    /// # Errors
    /// `Runtime` when the sizes do not fit.
    pub(crate) fn around(self, self_: &Tensor, pad: &[i64]) -> Result<Tensor> {
        self.check_sizes(self_, pad)?;
        let format = match self {
            Self::Circular => MemoryFormat::Contiguous,
            _ => self_.suggest_memory_format(),
        };
        let indices = self.indices(self_, pad)?;
        // There is no memory for a batch yet that could be written to.
        if pad.iter().any(|&side| side < 0) || batched::is_batched(self_) {
            let mut padded = self_.clone();
            for side in &indices {
                padded = op::index_select(&padded, side.dim, &side.whole()?)?;
            }
            return op::contiguous(&padded, format);
        }
        let mut sizes = self_.sizes();
        for side in &indices {
            sizes[side.dim as usize] = side.source.len() as i64;
        }
        let options = (Some(self_.dtype()), Some(self_.layout()), Some(self_.device()));
        let padded =
            op::empty_memory_format(&sizes, options.0, options.1, options.2, None, Some(format))?;
        // What is filled so far grows from the tensor's own place, dimension by dimension.
        let mut filled = padded.clone();
        for side in &indices {
            filled = op::narrow(&filled, side.dim, side.before, side.size)?;
        }
        op::copy_(&filled, self_, false)?;
        for (done, side) in indices.iter().enumerate() {
            let mut whole = padded.clone();
            for later in &indices[done + 1..] {
                whole = op::narrow(&whole, later.dim, later.before, later.size)?;
            }
            let own = op::narrow(&whole, side.dim, side.before, side.size)?;
            for border in side.borders() {
                if border.len() <= FEW {
                    for place in border {
                        let target = op::narrow(&whole, side.dim, place as i64, 1)?;
                        let source = op::narrow(&own, side.dim, side.source[place], 1)?;
                        op::copy_(&target, &source, false)?;
                    }
                    continue;
                }
                let border_of = op::index_select(&own, side.dim, &side.index(border.clone())?)?;
                let (start, length) = (border.start as i64, border.len() as i64);
                op::copy_(&op::narrow(&whole, side.dim, start, length)?, &border_of, false)?;
            }
        }
        Ok(padded)
    }

    /// Adds every element of the border to where it came from.
    fn fold(self, grad: &Tensor, self_: &Tensor, pad: &[i64]) -> Result<Tensor> {
        let checked = self == Self::Replicate && pad.len() > 2;
        if grad.numel() == 0 && self_.numel() == 0 && !checked {
            return op::zeros_like(self_, None, None, None, None, None);
        }
        self.check_sizes(self_, pad)?;
        let indices = self.indices(self_, pad)?;
        let mut folded = grad.clone();
        if pad.iter().any(|&side| side < 0) {
            for side in indices.iter().rev() {
                let mut sizes = folded.sizes();
                sizes[side.dim as usize] = side.size;
                let zeros = op::new_zeros(&folded, &sizes, None, None, None, None)?;
                folded = op::index_add(&zeros, side.dim, &side.whole()?, &folded, Scalar::Int(1))?;
            }
            return op::contiguous(&folded, self_.suggest_memory_format());
        }
        for side in indices.iter().rev() {
            let own = op::narrow(&folded, side.dim, side.before, side.size)?;
            let sums = op::clone(&own, Some(MemoryFormat::Contiguous))?;
            for border in side.borders() {
                let (start, length) = (border.start as i64, border.len() as i64);
                let part = op::narrow(&folded, side.dim, start, length)?;
                op::index_add_(&sums, side.dim, &side.index(border)?, &part, Scalar::Int(1))?;
            }
            folded = sums;
        }
        op::contiguous(&folded, self_.suggest_memory_format())
    }

    /// The padded dimensions, from the last one on, with the source of each place.
    fn indices(self, self_: &Tensor, pad: &[i64]) -> Result<Vec<Side>> {
        let one = |(i, sides): (usize, &[i64])| {
            let dim = self_.dim() - 1 - i;
            let size = self_.sizes()[dim];
            let source = self.source(size, sides[0], sides[1], dim, self_, pad)?;
            let device = self_.device();
            Ok(Side { dim: dim as i64, size, before: sides[0], source, device })
        };
        pad.chunks_exact(2).enumerate().map(one).collect()
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
    fn source(
        self,
        size: i64,
        before: i64,
        after: i64,
        dim: usize,
        self_: &Tensor,
        pad: &[i64],
    ) -> Result<Vec<i64>> {
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
        numbers(padded, source)
    }
}

/// Borders up to this size are copied place by place.
const FEW: usize = 8;

/// A padded dimension.
struct Side {
    dim: i64,
    /// Its size without the border.
    size: i64,
    /// The size of the border in front.
    before: i64,
    /// Where each element comes from.
    source: Vec<i64>,
    device: Device,
}

impl Side {
    /// The places of the border, on both sides, as far as there are any.
    fn borders(&self) -> impl Iterator<Item = Range<usize>> {
        let (first, end) = (self.before as usize, (self.before + self.size) as usize);
        [0..first, end..self.source.len()].into_iter().filter(|border| !border.is_empty())
    }

    /// The sources of all places.
    fn whole(&self) -> Result<Tensor> {
        self.index(0..self.source.len())
    }

    /// The sources of some places.
    fn index(&self, places: Range<usize>) -> Result<Tensor> {
        let length = places.len() as i64;
        let index = Tensor::from_slice(&self.source[places], &[length])?;
        op::to_device(&index, self.device, DType::Int64, false, false, None)
    }
}

/// `count` numbers by position.
fn numbers(count: i64, of: impl Fn(i64) -> i64) -> Result<Vec<i64>> {
    try_collect((0..count).map(of))
}

/// Defines the operators for one to three dimensions.
macro_rules! borders {
    ($($border:ident $dims:literal $forward:ident $backward:ident;)+) => {$(
        #[doc = concat!("A border around the last ", $dims, " dimensions.")]
        ///
        /// # Errors
        /// `Runtime` when the sizes do not fit.
        pub fn $forward(self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            check_rank(self_, padding, $dims)?;
            Border::$border.around(self_, padding)
        }

        #[doc = concat!("The gradient of [`", stringify!($forward), "`].")]
        ///
        /// # Errors
        /// As for the operator.
        pub fn $backward(grad: &Tensor, self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            check_rank(self_, padding, $dims)?;
            Border::$border.fold(grad, self_, padding)
        }
    )+};
}

borders! {
    Reflect 1 reflection_pad1d reflection_pad1d_backward;
    Reflect 2 reflection_pad2d reflection_pad2d_backward;
    Reflect 3 reflection_pad3d reflection_pad3d_backward;
    Replicate 1 replication_pad1d replication_pad1d_backward;
    Replicate 2 replication_pad2d replication_pad2d_backward;
    Replicate 3 replication_pad3d replication_pad3d_backward;
}

fn check_rank(self_: &Tensor, padding: &[i64], dims: usize) -> Result<()> {
    ensure!(
        padding.len() == 2 * dims,
        Runtime,
        "padding size is expected to be {}, but got: {}",
        2 * dims,
        padding.len()
    );
    ensure!(
        (dims + 1..=dims + 2).contains(&self_.dim()),
        Runtime,
        "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero \
         dimensions for input, but got: {:?}",
        dims + 1,
        dims + 2,
        self_.sizes().as_slice()
    );
    Ok(())
}
