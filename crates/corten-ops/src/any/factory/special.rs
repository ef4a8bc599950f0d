//! Matrices of ones and zeros, index lists of triangles, complex numbers from parts.

use super::constant::zeros;
use super::{construct, fresh};
use crate::any::view::{diagonal, view_as_real_physical, with_geometry};
use crate::iter::TensorIteratorConfig;
use crate::{Tensor, derived, op};
use corten_core::{
    DType, Device, Layout, Result, Scalar, bail, ensure, geometry, try_with_capacity,
};
use std::ops::Range;

/// The identity matrix.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn eye(
    n: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    eye_m(n, n, dtype, layout, device, pin_memory)
}

/// Ones on the main diagonal of an `n`×`m` matrix.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn eye_m(
    n: i64,
    m: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_eye(n, m)?;
    let result = zeros(&[n, m], dtype, layout, device, pin_memory)?;
    fresh(|| op::fill__scalar(&diagonal(&result, 0, 0, 1)?, Scalar::Int(1)))?;
    Ok(result)
}

fn check_eye(n: i64, m: i64) -> Result<()> {
    ensure!(n >= 0, Runtime, "n must be greater or equal to 0, got {n}");
    ensure!(m >= 0, Runtime, "m must be greater or equal to 0, got {m}");
    Ok(())
}

/// Writes the identity matrix.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn eye_out(n: i64, out: &Tensor) -> Result<Tensor> {
    eye_m_out(n, n, out)
}

/// Writes ones on the main diagonal of an `n`×`m` matrix, and zeros elsewhere.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn eye_m_out(n: i64, m: i64, out: &Tensor) -> Result<Tensor> {
    check_eye(n, m)?;
    if *out.sizes() != [n, m] {
        out.resize(&[n, m], None)?;
    }
    op::fill__scalar(out, Scalar::Int(0))?;
    op::fill__scalar(&diagonal(out, 0, 0, 1)?, Scalar::Int(1))?;
    Ok(out.clone())
}

/// The triangle of a matrix with `row` rows and `col` columns: row `i` has the columns up to
/// `i + offset`, or those from it on.
struct Triangle {
    row: i64,
    col: i64,
    offset: i64,
    upper: bool,
}

impl Triangle {
    /// The rows that have elements, so that others cost nothing.
    fn rows(&self) -> Range<i64> {
        if self.col == 0 {
            return 0..0;
        }
        match self.upper {
            true => 0..self.col.saturating_sub(self.offset).clamp(0, self.row),
            false => self.offset.saturating_neg().clamp(0, self.row)..self.row,
        }
    }

    fn columns(&self, i: i64) -> Range<i64> {
        let border = i.saturating_add(self.offset).saturating_add(i64::from(!self.upper));
        let border = border.clamp(0, self.col);
        if self.upper { border..self.col } else { 0..border }
    }

    /// How many elements it has, in closed form.
    fn count(&self) -> i128 {
        let [row, col, offset] = [self.row, self.col, self.offset].map(i128::from);
        // The sum of min(j, col) over 0 <= j < end.
        let sum = |end: i128| {
            let slope = end.clamp(0, col);
            slope * (slope - 1).max(0) / 2 + (end - col).max(0).saturating_mul(col)
        };
        let below = |first: i128| sum(row + first).saturating_sub(sum(first));
        if self.upper { (row * col).saturating_sub(below(offset)) } else { below(offset + 1) }
    }

    /// Row numbers, then column numbers.
    fn indices(&self) -> Result<Tensor> {
        let count = self.count();
        let length = usize::try_from(count.saturating_mul(2)).unwrap_or(usize::MAX);
        let mut indices = try_with_capacity(length)?;
        for i in self.rows() {
            let columns = self.columns(i);
            indices.extend(std::iter::repeat_n(i, (columns.end - columns.start) as usize));
        }
        self.rows().for_each(|i| indices.extend(self.columns(i)));
        construct::from_vec(indices, &[2, count as i64])
    }
}

fn triangle_indices(
    name: &str,
    triangle: &Triangle,
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<Tensor> {
    let Triangle { row, col, .. } = triangle;
    ensure!(*row >= 0, Runtime, "row must be non-negative, got{row}");
    ensure!(*col >= 0, Runtime, "col must be non-negative, got{col}");
    let dtype = dtype.unwrap_or(DType::Int64);
    if !dtype.is_integral(false) {
        bail!(NotImplemented, "\"{name}\" not implemented for '{}'", dtype.type_name());
    }
    let indices = triangle.indices()?;
    op::to_dtype_layout(&indices, Some(dtype), None, device, None, false, false, None)
}

/// Row and column numbers of the lower triangle, in row-major order.
///
/// # Errors
/// `Runtime` for a negative size, `NotImplemented` for dtypes that are no integers.
pub fn tril_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let triangle = Triangle { row, col, offset, upper: false };
    triangle_indices("tril_indices", &triangle, dtype, device)
}

/// Row and column numbers of the upper triangle, in row-major order.
///
/// # Errors
/// `Runtime` for a negative size, `NotImplemented` for dtypes that are no integers.
pub fn triu_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let triangle = Triangle { row, col, offset, upper: true };
    triangle_indices("triu_indices", &triangle, dtype, device)
}

/// Zeros with the last dimension on a diagonal of two new dimensions.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` when they are the same.
pub fn diag_embed(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let rank = self_.dim() + 1;
    let (a, b) = (geometry::wrap_dim(dim1, rank)?, geometry::wrap_dim(dim2, rank)?);
    ensure!(a != b, Runtime, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let mut sizes = self_.sizes();
    let Some(length) = sizes.pop() else {
        bail!(Index, "Dimension specified as -1 but tensor has no dimensions")
    };
    let side = length.saturating_add(offset.saturating_abs());
    sizes.insert(a.min(b), side);
    sizes.insert(a.max(b), side);
    let result = zeros(&sizes, Some(self_.dtype()), None, Some(self_.device()), None)?;
    fresh(|| op::copy_(&diagonal(&result, offset, a as i64, b as i64)?, self_, false))?;
    Ok(result)
}

/// Fails unless complex numbers can be made of the two parts.
///
/// # Errors
/// `NotImplemented` for other dtypes than half, float and double, `Runtime` when they differ.
pub(crate) fn check_parts(real: &Tensor, imag: &Tensor) -> Result<()> {
    let (a, b) = (real.dtype(), imag.dtype());
    let fits = |dtype| matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
    ensure!(
        fits(a) && fits(b),
        NotImplemented,
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        a.type_name(),
        b.type_name()
    );
    ensure!(
        a == b,
        Runtime,
        "Expected object of scalar type {} but got scalar type {} for second argument",
        a.type_name(),
        b.type_name()
    );
    Ok(())
}

/// Complex numbers from real and imaginary parts.
///
/// # Errors
/// Those of [`check_parts`].
pub fn complex(real: &Tensor, imag: &Tensor) -> Result<Tensor> {
    check_parts(real, imag)?;
    // The iterator decides the layout; the parts are then copied one after the other.
    let result = TensorIteratorConfig::new()
        .check_all_same_dtype(false)
        .declare_static_dtype(real.dtype().to_complex())
        .add_output(None)
        .add_input(real)
        .add_input(imag)
        .build()?
        .into_output(0);
    let (sizes, pairs) = (result.sizes(), view_as_real_physical(&result)?);
    for (part, source) in [(0, real), (1, imag)] {
        let strides = pairs.strides();
        let target = with_geometry(&pairs, &sizes, &strides[..sizes.len()], part)?;
        fresh(|| op::copy_(&target, source, false))?;
    }
    Ok(result)
}

/// [`complex`] into `out`.
///
/// # Errors
/// As for [`complex`]; `Runtime` when `out` has another dtype.
pub fn complex_out(real: &Tensor, imag: &Tensor, out: &Tensor) -> Result<Tensor> {
    let result = complex(real, imag)?;
    write_complex_out(out, &result)
}

/// Writes complex numbers where exactly their dtype is wanted.
///
/// # Errors
/// `Runtime` for another dtype.
pub(crate) fn write_complex_out(out: &Tensor, result: &Tensor) -> Result<Tensor> {
    let (wanted, given) = (result.dtype(), out.dtype());
    ensure!(
        wanted == given,
        Runtime,
        "Expected object of scalar type {} but got scalar type {} for argument 'out'",
        wanted.type_name(),
        given.type_name()
    );
    derived::write_out(out, result)
}
