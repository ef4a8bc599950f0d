//! Borders by mode.

use crate::any::border::Border;
use crate::{Tensor, op};
use corten_core::{Result, Scalar, bail, ensure};

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
    ensure!(
        matches!((pad.len(), rank), (2, 2 | 3) | (4, 3 | 4) | (6, 4 | 5)),
        NotImplemented,
        "Padding size {} is not supported for {rank}D input tensor.\nSupported combinations for \
         non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - \
         3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding \
         size = 6 (pads last 3 dimensions)",
        pad.len()
    );
    match (mode, pad.len()) {
        ("reflect", 2) => op::reflection_pad1d(self_, pad),
        ("reflect", 4) => op::reflection_pad2d(self_, pad),
        ("reflect", _) => op::reflection_pad3d(self_, pad),
        ("replicate", 2) => op::replication_pad1d(self_, pad),
        ("replicate", 4) => op::replication_pad2d(self_, pad),
        ("replicate", _) => op::replication_pad3d(self_, pad),
        ("circular", _) => Border::Circular.around(self_, pad),
        _ => bail!(NotImplemented, "Unrecognised padding mode {mode}"),
    }
}
