//! Fourier transforms, one dimension after another.

mod plan;

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar, bail, ensure, not_implemented_for};
use corten_ops::meta::fft::{Transform, plan_c2c, plan_c2r, plan_r2c};
use corten_ops::{Tensor, op};
use plan::{Digits, LineBatch, Tables, padded_length};

const TEXT: &[&str] = &[text::FFT];
static PASS: Template = Template { name: "fft_pass", text: TEXT };
static TABLES: Template = Template { name: "fft_tables", text: TEXT };
static CHIRP: Template = Template { name: "fft_chirp", text: TEXT };
static CHIRP_IN: Template = Template { name: "fft_chirp_in", text: TEXT };
static CHIRP_PRODUCT: Template = Template { name: "fft_chirp_product", text: TEXT };
static CHIRP_OUT: Template = Template { name: "fft_chirp_out", text: TEXT };

/// The lines of a tensor that is contiguous as [outer, length, inner], how they are read and written.
#[derive(Clone, Copy)]
struct Along {
    outer: u64,
    length: u64,
    inner: u64,
    /// Elements of a line where it is read.
    read: u64,
    /// Whether what is read is half a spectrum, the rest of which follows by symmetry.
    mirrored: bool,
    /// Elements of a line that are written.
    kept: u64,
    forward: bool,
    scale: f64,
}

impl Along {
    fn direction(&self) -> i32 {
        if self.forward { -1 } else { 1 }
    }
}

/// The dtype in which parts of numbers are computed with.
fn real(dtype: DType) -> DType {
    match dtype {
        DType::Float64 | DType::Complex128 => DType::Float64,
        _ => DType::Float32,
    }
}

fn blocks(count: u64) -> Result<Shape> {
    let fits = count <= (i32::MAX as u64) << 8;
    ensure!(fits, Runtime, "a Fourier transform of {count} numbers is too large for one launch");
    Ok(Shape::over(count as i64))
}

/// Transforms the lines of `input` into `out`, which may be the same tensor.
fn transform(out: &Tensor, input: &Tensor, along: Along) -> Result<()> {
    check_half(input, along.length)?;
    if along.outer * along.inner == 0 || along.kept == 0 {
        return Ok(());
    }
    match Digits::of(along.length, real(input.dtype())) {
        Some(digits) => in_passes(out, input, along, &digits),
        None => by_convolution(out, input, along),
    }
}

fn check_half(input: &Tensor, length: u64) -> Result<()> {
    let half = matches!(input.dtype(), DType::Float16 | DType::Complex32);
    ensure!(
        !half || length.is_power_of_two(),
        Runtime,
        "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but \
         got a signal size of[{length}]"
    );
    Ok(())
}

/// Transforms the digits of the index, one to a pass.
fn in_passes(out: &Tensor, input: &Tensor, along: Along, digits: &Digits) -> Result<()> {
    let dtype = real(input.dtype());
    let mut tables = Tables::of(digits, along.direction());
    let roots = empty(&[tables.count() as i64], dtype.to_complex(), input)?;
    let single = digits.count() == 1;
    let room = match single {
        true => Tensor::undefined(),
        false => {
            let count = along.outer * along.length * along.inner;
            empty(&[count as i64], dtype.to_complex(), input)?
        }
    };
    let held = Operands::hold(&[
        (out, Access::Write),
        (input, Access::Read),
        (&roots, Access::Write),
        (&room, Access::Write),
    ])?;
    let (mut roots_at, stream) = (held.at(2), Stream::current(input.device().index));
    // SAFETY: the tables have as many numbers as the tensor, which is held.
    unsafe {
        let parameters = parameters!(roots_at, tables);
        let shape = blocks(tables.count())?;
        TABLES.launch(&[Argument::Value(dtype)], shape, stream, parameters)?;
    }
    let count = digits.count();
    for pass in 0..count {
        let (first, last) = (pass == 0, pass + 1 == count);
        let mut lines = LineBatch::of_pass(digits, pass, &along, dtype);
        let mut to = held.at(if last { 0 } else { 3 });
        let mut from = held.at(if first { 1 } else { 3 });
        let mut own = tables.address(roots_at, pass, dtype);
        let mut twiddles = tables.address(roots_at, count, dtype);
        let mut direction = along.direction();
        let mut scale = if last { along.scale } else { 1.0 };
        let arguments = [
            Argument::Storage(if last { out.dtype() } else { dtype.to_complex() }),
            Argument::Storage(if first { input.dtype() } else { dtype.to_complex() }),
            Argument::Value(dtype),
            Argument::Number(u32::from(first && along.mirrored)),
        ];
        let shape = lines.shape(dtype)?;
        // SAFETY: the lines are those of the tensors, which have as many numbers as `along` tells and
        // are held; a pass that works in place reads its lines before it writes them.
        unsafe {
            let parameters = parameters!(to, from, own, twiddles, lines, direction, scale);
            PASS.launch(&arguments, shape, stream, parameters)?;
        }
    }
    drop(held);
    Ok(())
}

/// Bluestein's algorithm: the transform as a convolution with a chirp, of a length without large factors.
fn by_convolution(out: &Tensor, input: &Tensor, along: Along) -> Result<()> {
    let dtype = real(input.dtype());
    let (mut length, mut inner, mut row) = (along.length, along.inner, along.read);
    let mut lines = along.outer * inner;
    let mut padded = padded_length(length);
    ensure!(length <= 1 << 31, Runtime, "a Fourier transform of {length} points is too long");
    let chirp = empty(&[length as i64], dtype.to_complex(), input)?;
    let work = empty(&[lines as i64 + 1, padded as i64], dtype.to_complex(), input)?;
    let stream = Stream::current(input.device().index);
    {
        let held = Operands::hold(&[
            (&chirp, Access::Write),
            (&work, Access::Write),
            (input, Access::Read),
        ])?;
        let (mut chirp_at, mut to, mut from) = (held.at(0), held.at(1), held.at(2));
        let mut direction = along.direction();
        let mirrored = Argument::Number(u32::from(along.mirrored));
        let arguments = [Argument::Storage(input.dtype()), Argument::Value(dtype), mirrored];
        // SAFETY: the tensors have the sizes that the numbers tell, and are held.
        unsafe {
            let parameters = parameters!(chirp_at, length, direction);
            CHIRP.launch(&[Argument::Value(dtype)], blocks(length)?, stream, parameters)?;
            let parameters = parameters!(to, from, chirp_at, lines, length, inner, row, padded);
            CHIRP_IN.launch(&arguments, blocks((lines + 1) * padded)?, stream, parameters)?;
        }
    }
    let every = Along {
        outer: lines + 1,
        length: padded,
        inner: 1,
        read: padded,
        mirrored: false,
        kept: padded,
        forward: true,
        scale: 1.0,
    };
    transform(&work, &work, every)?;
    {
        let held = Operands::hold(&[(&work, Access::Write)])?;
        let mut data = held.at(0);
        // SAFETY: as above.
        unsafe {
            let parameters = parameters!(data, lines, padded);
            let shape = blocks(lines * padded)?;
            CHIRP_PRODUCT.launch(&[Argument::Value(dtype)], shape, stream, parameters)?;
        }
    }
    transform(&work, &work, Along { outer: lines, forward: false, ..every })?;
    let held =
        Operands::hold(&[(out, Access::Write), (&work, Access::Read), (&chirp, Access::Read)])?;
    let (mut to, mut from, mut chirp_at) = (held.at(0), held.at(1), held.at(2));
    let (mut kept, mut scale) = (along.kept, along.scale / padded as f64);
    let arguments = [Argument::Storage(out.dtype()), Argument::Value(dtype)];
    // SAFETY: as above.
    unsafe {
        let parameters = parameters!(to, from, chirp_at, lines, kept, inner, padded, scale);
        CHIRP_OUT.launch(&arguments, blocks(lines * kept)?, stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// The factor of a normalisation for a number of points.
fn factor(normalization: i64, points: f64) -> f64 {
    match normalization {
        1 => 1.0 / points.sqrt(),
        2 => 1.0 / points,
        _ => 1.0,
    }
}

fn points(sizes: &[i64], dim: &[i64]) -> f64 {
    let size = |&d: &i64| sizes[(if d < 0 { d + sizes.len() as i64 } else { d }) as usize] as f64;
    dim.iter().map(size).product()
}

/// Dimension `dim` of a contiguous tensor of these sizes, read and written whole.
fn along(sizes: &[i64], dim: usize, forward: bool, scale: f64) -> Along {
    let product = |sizes: &[i64]| sizes.iter().product::<i64>() as u64;
    let length = sizes[dim] as u64;
    Along {
        outer: product(&sizes[..dim]),
        length,
        inner: product(&sizes[dim + 1..]),
        read: length,
        mirrored: false,
        kept: length,
        forward,
        scale,
    }
}

fn check_dtype(tensor: &Tensor, name: &'static str) -> Result<()> {
    match tensor.dtype() {
        DType::Float16 | DType::Float32 | DType::Float64 => Ok(()),
        DType::Complex32 | DType::Complex64 | DType::Complex128 => Ok(()),
        other => Err(not_implemented_for(name, other)),
    }
}

/// The Fourier transform of complex numbers over some dimensions.
///
/// # Errors
/// Those of the shapes; `Runtime` for half precision unless lengths are powers of 2; for the functions below
/// likewise.
pub fn _fft_c2c(self_: &Tensor, dim: &[i64], normalization: i64, forward: bool) -> Result<Tensor> {
    let Transform { out, order } = plan_c2c(self_, dim)?;
    check_dtype(self_, "_fft_c2c")?;
    if dim.is_empty() {
        return op::copy_(&out, self_, false);
    }
    if out.numel() == 0 {
        return Ok(out);
    }
    let mut source = contiguous(&op::resolve_conj(&op::permute(self_, &order)?)?)?;
    let view = op::permute(&out, &order)?;
    let sizes = view.sizes();
    let mut scale = factor(normalization, points(&self_.sizes(), dim));
    for dim in sizes.len() - dim.len()..sizes.len() {
        transform(&view, &source, along(&sizes, dim, forward, scale))?;
        (source, scale) = (view.clone(), 1.0);
    }
    Ok(out)
}

/// The Fourier transform of real numbers over some dimensions.
pub fn _fft_r2c(self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool) -> Result<Tensor> {
    let Transform { out, order } = plan_r2c(self_, dim, onesided)?;
    check_dtype(self_, "_fft_r2c")?;
    let scale = factor(normalization, points(&self_.sizes(), dim));
    let source = contiguous(&op::permute(self_, &order)?)?;
    let view = op::permute(&out, &order)?;
    let (sizes, last) = (view.sizes(), view.dim() - 1);
    if source.numel() == 0 {
        op::fill__scalar(&out, Scalar::Int(0))?;
        return Ok(out);
    }
    let whole = along(&source.sizes(), last, true, scale);
    transform(&view, &source, Along { kept: sizes[last] as u64, ..whole })?;
    for dim in sizes.len() - dim.len()..last {
        transform(&view, &view, along(&sizes, dim, true, 1.0))?;
    }
    Ok(out)
}

/// The real numbers whose spectrum this is.
pub fn _fft_c2r(
    self_: &Tensor,
    dim: &[i64],
    normalization: i64,
    last_dim_size: i64,
) -> Result<Tensor> {
    check_dtype(self_, "_fft_c2r")?;
    let Some((&last, others)) = dim.split_last() else {
        bail!(Runtime, "at least one dimension must be transformed")
    };
    let spectrum = match others.is_empty() {
        true => self_.clone(),
        false => op::_fft_c2c(self_, others, 0, false)?,
    };
    let Transform { out, order } = plan_c2r(&spectrum, last, last_dim_size)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let scale = factor(normalization, points(&out.sizes(), dim));
    let source = contiguous(&op::resolve_conj(&op::permute(&spectrum, &order)?)?)?;
    let view = op::permute(&out, &order)?;
    let whole = along(&view.sizes(), view.dim() - 1, false, scale);
    let row = source.size(-1)? as u64;
    transform(&view, &source, Along { read: row, mirrored: true, ..whole })?;
    Ok(out)
}
