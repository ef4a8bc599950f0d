//! Resampling of images: linear maps along one dimension after the other.

mod taps;

use crate::copy::transpose::turn_matrix;
use crate::kernels::support::contiguous;
use crate::parallel::chunks::{for_each_chunk, for_each_run, grain_of};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{DType, Element, MemoryFormat, Reader, Result, Writer, try_collect, try_vec};
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

/// The numbers between two passes: single precision is enough for all but doubles.
macro_rules! match_resampled {
    ($dtype:expr, $name:expr, $t:ident $between:ident => $body:expr) => {
        match $dtype {
            DType::Float64 => {
                type $t = f64;
                type $between = f64;
                $body
            }
            DType::UInt8 => {
                type $t = u8;
                type $between = u8;
                $body
            }
            DType::Float16 => {
                type $t = ::corten_core::f16;
                type $between = f32;
                $body
            }
            DType::BFloat16 => {
                type $t = ::corten_core::bf16;
                type $between = f32;
                $body
            }
            DType::Float32 => {
                type $t = f32;
                type $between = f32;
                $body
            }
            other => Err(::corten_core::not_implemented_for($name, other)),
        }
    };
}

fn forward(input: &Tensor, output_size: &[i64], plan: &Plan<'_>, name: &str) -> Result<Tensor> {
    let out = shapes::result(input, output_size, plan.scales.len())?;
    let sizes = input.sizes();
    let double = matches!(input.dtype(), DType::Float64 | DType::UInt8);
    let mut taps = plan.taps(&sizes, output_size, double);
    let dense = contiguous(input)?;
    let bytes = input.dtype() == DType::UInt8;
    match_resampled!(input.dtype(), name, T S => {
        if matches!(plan.mode, Mode::Nearest | Mode::Exact) {
            let values = dense_like::<T>(&out)?;
            pick(&Reader::<T>::new(&dense)?, &mut Writer::<T>::new(&values)?, &taps)?;
            return as_result(out, values);
        }
        let mut data = in_dtype::<S>(&dense)?;
        let mut shape = sizes.to_vec();
        for axis in (0..taps.len()).rev() {
            let taps = &mut taps[axis];
            let digits = if bytes { taps.make_integers() } else { 0 };
            let inner = shape[axis + 3..].iter().product::<i64>() as usize;
            shape[axis + 2] = taps.count() as i64;
            let next = if axis == 0 { dense_like::<S>(&out)? } else { empty_of::<S>(&shape, &out)? };
            let shape = PassShape { inner, digits };
            pass::<S>(&Reader::<S>::new(&data)?, &mut Writer::<S>::new(&next)?, taps, shape)?;
            data = next;
        }
        as_result(out, data)
    })
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
    match_resampled!(grad.dtype(), name, _T S => {
        let mut data = in_dtype::<S>(&dense)?;
        let mut shape = grad.sizes().to_vec();
        for (axis, taps) in taps.iter().enumerate() {
            let taps = taps.transposed();
            let inner = shape[axis + 3..].iter().product::<i64>() as usize;
            shape[axis + 2] = taps.count() as i64;
            let last = axis + 1 == plan.scales.len();
            let next = if last { dense_like::<S>(&out)? } else { empty_of::<S>(&shape, &out)? };
            let shape = PassShape { inner, digits: 0 };
            pass::<S>(&Reader::<S>::new(&data)?, &mut Writer::<S>::new(&next)?, &taps, shape)?;
            data = next;
        }
        as_result(out, data)
    })
}

/// The tensor in the dtype `S`.
fn in_dtype<S: Element>(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype() == S::DTYPE {
        return Ok(tensor.clone());
    }
    op::to_dtype(tensor, S::DTYPE, false, false, Some(MemoryFormat::Contiguous))
}

/// A dense tensor of the dtype `S`.
fn empty_of<S: Element>(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    op::empty_memory_format(sizes, Some(S::DTYPE), None, Some(like.device()), None, None)
}

/// [`empty_of`] in the shape of a tensor.
fn dense_like<S: Element>(tensor: &Tensor) -> Result<Tensor> {
    empty_of::<S>(&tensor.sizes(), tensor)
}

/// The values in the dtype and layout of `out`.
fn as_result(out: Tensor, values: Tensor) -> Result<Tensor> {
    let fits = out.dtype() == values.dtype() && out.strides() == values.strides();
    if fits { Ok(values) } else { op::copy_(&out, &values, false) }
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
            (0..taps.count()).map(move |o| base + taps.place(o))
        };
        lines = try_collect(lines.iter().flat_map(along))?;
    }
    let places: Vec<usize> = try_collect((0..last.count()).map(|o| last.place(o)))?;
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

/// Elements between two passes.
trait Between: Element + Default {
    /// What is summed, and the weights.
    type Sum: Element + Default + std::ops::AddAssign + std::ops::Mul<Output = Self::Sum>;

    fn widen(self) -> Self::Sum;

    /// The element of a sum whose weights have so many binary digits behind the point.
    fn narrow(sum: Self::Sum, digits: u32) -> Self;
}

macro_rules! between_floats {
    ($($float:ty)+) => {$(
        impl Between for $float {
            type Sum = Self;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(sum: Self, _digits: u32) -> Self {
                sum
            }
        }
    )+};
}

between_floats! { f32 f64 }

/// Bytes are summed by integer weights of 16 bits, exactly, and rounded after each pass.
impl Between for u8 {
    type Sum = i32;

    #[inline(always)]
    fn widen(self) -> i32 {
        i32::from(self)
    }
    #[inline(always)]
    fn narrow(sum: i32, digits: u32) -> Self {
        ((sum + (1 << digits >> 1)) >> digits).clamp(0, 255) as Self
    }
}

/// Lines of the last dimension that are resampled together.
const LINES: usize = 16;

/// What a pass goes over beside its taps: how many elements lie in one place of the dimension, and the
/// binary digits of its weights.
#[derive(Clone, Copy)]
struct PassShape {
    inner: usize,
    digits: u32,
}

/// Resamples the middle dimension of `[outer, source, inner]`.
fn pass<D: Between>(data: &[D], out: &mut [D], taps: &Taps, shape: PassShape) -> Result<()> {
    let (from, to) = (taps.source * shape.inner, taps.count() * shape.inner);
    let weights = &taps.weights::<D::Sum>();
    if shape.inner > 1 {
        return for_each_chunk(out, to, grain_of(to * 4), |i, out| {
            f32::run(Pass { data: &data[i * from..][..from], out, taps, weights, shape });
            Ok(())
        });
    }
    for_each_run(out, to, grain_of(to * 4), |range, out| {
        let data = &data[range.start * from..range.end * from];
        let mut turned = try_vec(D::default(), data.len().min(from * LINES))?;
        let mut sums = try_vec(D::default(), out.len().min(to * LINES))?;
        for (data, out) in data.chunks(from * LINES).zip(out.chunks_mut(to * LINES)) {
            // Lines side by side are vectors, whichever points their taps are.
            let lines = out.len() / to;
            let (turned, sums) = (&mut turned[..data.len()], &mut sums[..out.len()]);
            turn_matrix(data, from, turned);
            let shape = PassShape { inner: lines, ..shape };
            f32::run(Pass { data: turned, out: &mut *sums, taps, weights, shape });
            turn_matrix(sums, lines, out);
        }
        Ok(())
    })
}

/// The first dimension of `[source, inner]` on its way to `[count, inner]`.
struct Pass<'a, D: Between> {
    data: &'a [D],
    out: &'a mut [D],
    taps: &'a Taps,
    weights: &'a [D::Sum],
    shape: PassShape,
}

impl<D: Between> RowKernel<f32> for Pass<'_, D> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { data, out, taps, weights, shape } = self;
        let inner = shape.inner;
        for ((places, weights), out) in taps.of_points(weights).zip(out.chunks_exact_mut(inner)) {
            let point = Point { data, shape, places, weights };
            let mut from = 0;
            while from + 32 <= inner {
                point.sum::<32>(from, out);
                from += 32;
            }
            while from < inner && inner >= 8 {
                // The last ones may be some of those before, too.
                from = from.min(inner - 8);
                point.sum::<8>(from, out);
                from += 8;
            }
            (from..inner).for_each(|from| point.sum::<1>(from, out));
        }
    }
}

/// What the results of one place, side by side, are made of.
struct Point<'a, D: Between> {
    data: &'a [D],
    shape: PassShape,
    places: &'a [usize],
    weights: &'a [D::Sum],
}

impl<D: Between> Point<'_, D> {
    /// The results of `N` neighbours from `from` on, which stay in registers meanwhile.
    #[inline(always)]
    fn sum<const N: usize>(&self, from: usize, out: &mut [D]) {
        let mut sums = [D::Sum::default(); N];
        for (&place, &weight) in self.places.iter().zip(self.weights) {
            let values = &self.data[place * self.shape.inner + from..][..N];
            sums.iter_mut().zip(values).for_each(|(sum, &x)| *sum += weight * x.widen());
        }
        let out = &mut out[from..][..N];
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = D::narrow(sum, self.shape.digits));
    }
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
