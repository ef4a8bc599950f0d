//! What the operators on regions share.

use crate::failure;
use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use corten_core::{Access, DType, Result, not_implemented_for};
use corten_ops::Tensor;

/// `Regions` of `regions.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Regions {
    pub(super) images: i64,
    pub(super) channels: i64,
    pub(super) height: i64,
    pub(super) width: i64,
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) scale: f64,
    pub(super) ratio: i64,
    pub(super) aligned: u32,
}

impl Regions {
    /// Regions of images of a shape in bins.
    pub(super) fn of(shape: [i64; 4], [rows, columns]: [i64; 2], scale: f64) -> Self {
        let [images, channels, height, width] = shape;
        Self { images, channels, height, width, rows, columns, scale, ratio: 0, aligned: 0 }
    }

    /// A thread for each of `n` bins.
    pub(super) fn launch(
        self,
        template: &'static Template,
        of: &[Argument],
        n: i64,
        tensors: &[(&Tensor, Access)],
    ) -> Result<()> {
        let (mut shape, mut report) = (self, failure::address(tensors[0].0.device().index)?);
        let call = Flat { template, of, tensors };
        // SAFETY: the tensors are contiguous and have the sizes that the operator's checks have found; images and
        // places are looked at before they are followed.
        unsafe { call.over(n, parameters!(shape, report)) }
    }
}

/// The sizes of images.
pub(super) fn shape_of(images: &Tensor) -> [i64; 4] {
    std::array::from_fn(|i| images.sizes().get(i).copied().unwrap_or(1))
}

/// The dtype that sums are made in.
///
/// # Errors
/// `NotImplemented` for other than floating point.
pub(super) fn wide(dtype: DType, name: &'static str) -> Result<DType> {
    match dtype {
        DType::Float64 => Ok(DType::Float64),
        _ if dtype.is_floating_point() && dtype.itemsize() > 1 => Ok(DType::Float32),
        _ => Err(not_implemented_for(name, dtype)),
    }
}
