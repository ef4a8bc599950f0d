//! Resampling of images: linear maps along one dimension after the other.

mod taps;

use crate::chunks::{for_each_chunk, grain_of};
use crate::kernels::support::{contiguous, match_types};
use corten_core::{DType, Element, MemoryFormat, Reader, Result, Writer, cast};
use corten_ops::meta::upsample as shapes;
use corten_ops::{Tensor, op};
use taps::{Mode, Taps};

/// One resampling: how, and the scales that were asked for.
struct Plan<'a> {
    mode: Mode,
    align: bool,
    scales: &'a [Option<f64>],
}

impl Plan<'_> {
    /// The taps of each spatial dimension.
    fn taps(&self, input: &[i64], output: &[i64], double: bool) -> Vec<Taps> {
        let sizes = input[2..].iter().zip(output).zip(self.scales);
        sizes
            .map(|((&input, &output), &scale)| {
                Taps::of(self.mode, self.align, scale, (input as usize, output as usize), double)
            })
            .collect()
    }
}

/// The numbers that are summed: single precision is enough for all but doubles.
macro_rules! match_resampled {
    ($dtype:expr, $name:expr, $t:ident $sum:ident => $body:expr) => {
        match $dtype {
            DType::Float64 => { type $sum = f64; match_types!($dtype, $name, $t => $body, [Float64 f64,]) }
            // Bytes are summed by integer weights, exactly.
            DType::UInt8 => { type $sum = f64; match_types!($dtype, $name, $t => $body, [UInt8 u8,]) }
            _ => { type $sum = f32; match_types!($dtype, $name, $t => $body, [
                Float16 ::corten_core::f16, BFloat16 ::corten_core::bf16, Float32 f32,
            ]) }
        }
    };
}

fn forward(input: &Tensor, output_size: &[i64], plan: &Plan<'_>, name: &str) -> Result<Tensor> {
    let out = shapes::result(input, output_size, plan.scales.len())?;
    let sizes = input.sizes();
    let double = matches!(input.dtype(), DType::Float64 | DType::UInt8);
    let mut taps = plan.taps(&sizes, output_size, double);
    let dense = contiguous(input)?;
    let values = op::empty_like(&out, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    let bytes = input.dtype() == DType::UInt8;
    match_resampled!(input.dtype(), name, T S => {
        if matches!(plan.mode, Mode::Nearest | Mode::Exact) {
            pick(&Reader::<T>::new(&dense)?, &mut Writer::<T>::new(&values)?, &taps)?;
            return op::copy_(&out, &values, false);
        }
        let mut data: Vec<S> = Reader::<T>::new(&dense)?.iter().map(|&x| cast(x)).collect();
        let mut shape: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
        for axis in (0..taps.len()).rev() {
            let taps = &mut taps[axis];
            let unit: S = cast(if bytes { taps.make_integers() } else { 1.0 });
            let inner = shape[axis + 3..].iter().product();
            data = pass::<S>(&data, taps, inner)?;
            shape[axis + 2] = taps.count();
            if bytes {
                data.iter_mut().for_each(|x| *x = (*x / unit + 0.5).floor().clamp(0.0, 255.0));
            }
        }
        let mut out = Writer::<T>::new(&values)?;
        out.iter_mut().zip(data).for_each(|(out, x)| *out = cast(x));
        Ok(())
    })?;
    op::copy_(&out, &values, false)
}

fn backward(
    grad: &Tensor,
    output_size: &[i64],
    input_size: &[i64],
    plan: &Plan<'_>,
    name: &str,
) -> Result<Tensor> {
    let out = shapes::gradient(grad, output_size, input_size, plan.scales.len())?;
    let taps = plan.taps(input_size, output_size, grad.dtype() == DType::Float64);
    let dense = contiguous(grad)?;
    let values = op::empty_like(&out, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    match_resampled!(grad.dtype(), name, T S => {
        let mut data: Vec<S> = Reader::<T>::new(&dense)?.iter().map(|&x| cast(x)).collect();
        let mut shape: Vec<usize> = grad.sizes().iter().map(|&size| size as usize).collect();
        for (axis, taps) in taps.iter().enumerate() {
            let inner = shape[axis + 3..].iter().product();
            data = pass_back::<S>(&data, taps, inner)?;
            shape[axis + 2] = taps.source;
        }
        let mut out = Writer::<T>::new(&values)?;
        out.iter_mut().zip(data).for_each(|(out, x)| *out = cast(x));
        Ok(())
    })?;
    op::copy_(&out, &values, false)
}

/// Takes each point of the result from the source: `[outer, …source]` to `[outer, …count]`.
fn pick<T: Element>(data: &[T], out: &mut [T], taps: &[Taps]) -> Result<()> {
    let (last, leading) = match taps {
        [leading @ .., last] => (last, leading),
        [] => return Ok(()),
    };
    let sources: usize = leading.iter().map(|taps| taps.source).product();
    // The source of each line of a result, and its number among the lines of the source.
    let mut lines = vec![0];
    for taps in leading {
        let along = |line: &usize| {
            let base = line * taps.source;
            (0..taps.count()).map(move |o| base + taps.place(o)).collect::<Vec<_>>()
        };
        lines = lines.iter().flat_map(along).collect();
    }
    let places: Vec<usize> = (0..last.count()).map(|o| last.place(o)).collect();
    let (from, length) = (sources * last.source, places.len());
    for_each_chunk(out, lines.len() * length, grain_of(lines.len() * length), |i, out| {
        let data = &data[i * from..][..from];
        let mut before = None;
        for (k, &line) in lines.iter().enumerate() {
            let (done, out) = out.split_at_mut(k * length);
            let out = &mut out[..length];
            if before == Some(line) {
                out.copy_from_slice(&done[done.len() - length..]);
                continue;
            }
            let source = &data[line * last.source..][..last.source];
            out.iter_mut().zip(&places).for_each(|(out, &place)| *out = source[place]);
            before = Some(line);
        }
        Ok(())
    })
}

/// What sums are made of.
trait Sum: Element + Default + std::ops::AddAssign + std::ops::Mul<Output = Self> {}
impl Sum for f32 {}
impl Sum for f64 {}

/// Resamples the middle dimension of `[outer, source, inner]`.
fn pass<S: Sum>(data: &[S], taps: &Taps, inner: usize) -> Result<Vec<S>> {
    let (from, to) = (taps.source * inner, taps.count() * inner);
    let outer = data.len().checked_div(from).unwrap_or(0);
    let mut out = vec![S::default(); outer * to];
    let weights = taps.weights::<S>();
    for_each_chunk(&mut out, to, grain_of(to * 4), |i, out| {
        let data = &data[i * from..][..from];
        if inner == 1 {
            for (points, out) in taps.of_points(&weights).zip(out) {
                let mut sum = S::default();
                points.for_each(|(place, weight)| sum += weight * data[place]);
                *out = sum;
            }
            return Ok(());
        }
        for (points, out) in taps.of_points(&weights).zip(out.chunks_mut(inner)) {
            for (place, weight) in points {
                let line = &data[place * inner..][..inner];
                out.iter_mut().zip(line).for_each(|(out, &x)| *out += weight * x);
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// The transpose of [`pass`].
fn pass_back<S: Sum>(data: &[S], taps: &Taps, inner: usize) -> Result<Vec<S>> {
    let (from, to) = (taps.count() * inner, taps.source * inner);
    let outer = data.len().checked_div(from).unwrap_or(0);
    let mut out = vec![S::default(); outer * to];
    let weights = taps.weights::<S>();
    for_each_chunk(&mut out, to, grain_of(from * 4), |i, out| {
        let data = &data[i * from..][..from];
        if inner == 1 {
            for (points, &x) in taps.of_points(&weights).zip(data) {
                points.for_each(|(place, weight)| out[place] += weight * x);
            }
            return Ok(());
        }
        for (points, line) in taps.of_points(&weights).zip(data.chunks(inner)) {
            for (place, weight) in points {
                let out = &mut out[place * inner..][..inner];
                out.iter_mut().zip(line).for_each(|(out, &x)| *out += weight * x);
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// Defines the kernels of an operator and of its gradient.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident $backward:ident $mode:ident ($($align:ident)?) [$($scale:ident),+] $label:literal;)+) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` for ranks and sizes that do not fit, `NotImplemented` for other dtypes.
        pub fn $name(
            self_: &Tensor,
            output_size: &[i64],
            $($align: bool,)?
            $($scale: Option<f64>),+
        ) -> Result<Tensor> {
            let align = false $(|| $align)?;
            let plan = Plan { mode: Mode::$mode, align, scales: &[$($scale),+] };
            forward(self_, output_size, &plan, $label)
        }

        $(#[$doc])*
        /// The gradient.
        ///
        /// # Errors
        /// `Runtime` for ranks and sizes that do not fit, `NotImplemented` for other dtypes.
        pub fn $backward(
            grad_output: &Tensor,
            output_size: &[i64],
            input_size: &[i64],
            $($align: bool,)?
            $($scale: Option<f64>),+
        ) -> Result<Tensor> {
            let align = false $(|| $align)?;
            let plan = Plan { mode: Mode::$mode, align, scales: &[$($scale),+] };
            backward(grad_output, output_size, input_size, &plan, $label)
        }
    )+};
}

kernels! {
    /// The nearest point of a line.
    nearest1d nearest1d_backward Nearest () [w] "compute_indices_weights_nearest";
    /// The nearest point of an image.
    nearest2d nearest2d_backward Nearest () [h, w] "compute_indices_weights_nearest";
    /// The nearest point of a volume.
    nearest3d nearest3d_backward Nearest () [d, h, w] "compute_indices_weights_nearest";
    /// The point of a line whose centre is nearest.
    exact1d exact1d_backward Exact () [w] "compute_indices_weights_nearest";
    /// The point of an image whose centre is nearest.
    exact2d exact2d_backward Exact () [h, w] "compute_indices_weights_nearest";
    /// The point of a volume whose centre is nearest.
    exact3d exact3d_backward Exact () [d, h, w] "compute_indices_weights_nearest";
    /// Between two points of a line.
    linear1d linear1d_backward Linear (align) [w] "compute_indices_weights_linear";
    /// Between four points of an image.
    bilinear2d bilinear2d_backward Linear (align) [h, w] "upsample_bilinear2d_channels_last";
    /// Between eight points of a volume.
    trilinear3d trilinear3d_backward Linear (align) [d, h, w] "compute_indices_weights_linear";
    /// Between sixteen points of an image.
    bicubic2d bicubic2d_backward Cubic (align) [h, w] "compute_indices_weights_cubic";
    /// Triangles as wide as the output's points.
    bilinear2d_aa bilinear2d_aa_backward WideLinear (align) [h, w] "compute_indices_weights_aa";
    /// Cubic pieces as wide as the output's points.
    bicubic2d_aa bicubic2d_aa_backward WideCubic (align) [h, w] "compute_indices_weights_aa";
    /// Windowed sines as wide as the output's points.
    lanczos2d_aa lanczos2d_aa_backward WideSine (align) [h, w] "compute_indices_weights_aa";
}
