//! From floats to the integers of a quantised tensor, and back.
//!
//! Note [Rounding of quantised elements]: an element times the reciprocal of the scale, both `float32`, is
//! rounded to the nearest even integer; then the zero point is added, and what does not fit is clamped. Floats
//! that no integer is near are what FBGEMM's vector instructions make of them, so that files agree: with
//! one scale, NaN is the largest 8-bit integer; with scales per channel, 0.

use super::support::{contiguous_in, empty_in, flat};
use crate::parallel::chunks::for_each_chunk;
use crate::rows::loops::compiled;
use corten_core::{
    Access, AccessSet, DType, Element, MemoryFormat, QScheme, Quantizer, Result, TensorBase, cast,
    ensure, not_implemented_for, try_vec,
};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// Chunks that are worth a thread.
const GRAIN: usize = 8;
/// Elements that one call of a loop takes.
const CHUNK: usize = 1 << 12;

/// Integers that stand for the elements, by one scale and zero point.
///
/// # Errors
/// `Runtime` for elements that are not `float32`, a dtype that is not quantised, and a zero point outside of it.
pub fn quantize_per_tensor(
    self_: &Tensor,
    scale: f64,
    zero_point: i64,
    dtype: DType,
) -> Result<Tensor> {
    quantize(self_, Quantizer::per_tensor(scale, zero_point), dtype)
}

/// Integers that stand for the elements, by a scale and zero point for each index of a dimension.
///
/// # Errors
/// As for [`quantize_per_tensor`], and `Runtime` where scales and zero points are not one for each index.
pub fn quantize_per_channel(
    self_: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    dtype: DType,
) -> Result<Tensor> {
    quantize(self_, corten_ops::quantized::channels(scales, zero_points, axis)?, dtype)
}

/// A quantised tensor of the elements.
///
/// # Errors
/// As for [`quantize_per_tensor`].
pub fn quantize(self_: &Tensor, quantizer: Arc<Quantizer>, dtype: DType) -> Result<Tensor> {
    check_input(self_)?;
    ensure!(dtype.is_quantized(), Runtime, "ScalarType {dtype} is not supported in new_qtensor.");
    check_axis(self_, &quantizer)?;
    check_zero_points(&quantizer, dtype)?;
    let format = match dtype.elements_per_byte() {
        1 => self_.suggest_memory_format(),
        _ => MemoryFormat::Contiguous,
    };
    let sizes = self_.sizes();
    let strides = corten_core::geometry::memory_format_strides(&sizes, format)?;
    let out =
        TensorBase::new_quantized(&sizes, Some(&strides), dtype, self_.device(), Some(quantizer))?;
    let out = Tensor::from(out);
    fill_from(&out, self_)?;
    Ok(out)
}

fn check_input(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == f32::DTYPE,
        Runtime,
        "Quantize only works on Float Tensor, got {}",
        self_.dtype()
    );
    Ok(())
}

fn check_axis(self_: &Tensor, quantizer: &Quantizer) -> Result<()> {
    let Some((scales, _, axis)) = quantizer.of_channels() else { return Ok(()) };
    let dims = self_.dim() as i64;
    ensure!(
        (0..dims).contains(&axis),
        Runtime,
        "Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, {dims})"
    );
    let channels = self_.size(axis)?;
    ensure!(
        scales.numel() == channels,
        Runtime,
        "length of scales must equal to channel, expected {channels} got, {}",
        scales.numel()
    );
    Ok(())
}

fn check_zero_points(quantizer: &Quantizer, dtype: DType) -> Result<()> {
    let (name, points) = match quantizer {
        Quantizer::PerTensor { zero_point, .. } => {
            ("quantize_tensor_per_tensor_affine", vec![*zero_point])
        }
        Quantizer::PerChannel { zero_points, .. } => {
            let name = "quantize_tensor_per_channel_affine";
            if dtype.elements_per_byte() > 1 {
                return Err(not_implemented_for(name, dtype));
            }
            (name, values::<i64, i64>(zero_points)?)
        }
        Quantizer::PerChannelFloat { .. } => return Ok(()),
    };
    let whole = dtype.underlying().quantized_as()?;
    let (least, most) = whole.quantized_range().unwrap_or((i64::MIN, i64::MAX));
    for point in points {
        ensure!(point <= most, Runtime, "{name} zero_point {point} is above upper bound.");
        ensure!(point >= least, Runtime, "{name} zero_point {point} is below lower bound.");
    }
    Ok(())
}

fn values<A: Element, T: Element>(tensor: &TensorBase) -> Result<Vec<T>> {
    let set = AccessSet::acquire(&[(tensor, Access::Read)])?;
    Ok(set.read::<A>(0)?.iter().map(|&value| cast(value)).collect())
}

/// The memory format that a tensor's elements can be walked in, where the order of channels is the same.
fn walked_format(tensor: &Tensor, channels: &Channels) -> MemoryFormat {
    let formats = [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d];
    let found = formats.into_iter().find(|&format| tensor.is_contiguous_for(format));
    match found {
        Some(format) if !tensor.is_contiguous() && channels.are_one() => format,
        _ => MemoryFormat::Contiguous,
    }
}

/// Puts the integers that stand for `from` into a quantised tensor of the same sizes.
///
/// # Errors
/// `Runtime` where the tensor has no quantizer, or `from` is not `float32`.
pub fn fill_from(target: &Tensor, from: &Tensor) -> Result<()> {
    check_input(from)?;
    let dtype = target.dtype();
    let channels = Channels::of(&*target.known_quantizer()?, target)?;
    if from.device().is_meta() || target.numel() == 0 {
        return Ok(());
    }
    let format = walked_format(target, &channels);
    let from = contiguous_in(from, format)?;
    let ints: Tensor = target.integers()?.into();
    let in_place = target.is_contiguous_for(format);
    let room = match in_place {
        true => ints.clone(),
        false => empty_in(&ints.sizes(), &ints, ints.dtype(), format)?,
    };
    {
        let (room, from) = (flat(&room)?, flat(&from)?);
        let set = AccessSet::acquire(&[(&room, Access::Write), (&from, Access::Read)])?;
        let floats = set.read::<f32>(1)?;
        match dtype {
            DType::QUInt8 => channels.quantize::<u8>(floats, set.write(0)?)?,
            DType::QInt8 => channels.quantize::<i8>(floats, set.write(0)?)?,
            DType::QInt32 => channels.quantize::<i32>(floats, set.write(0)?)?,
            _ => channels.pack(floats, set.write(0)?, dtype)?,
        }
    }
    if !in_place {
        op::copy_(&ints, &room, false)?;
    }
    Ok(())
}

/// Copies into or out of a quantised tensor: floats are quantised, integers go with their quantizer.
///
/// # Errors
/// `Runtime` for a target that is not quantised, another shape, or elements that are neither quantised nor
/// `float32`.
pub fn copy_(self_: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<Tensor> {
    if !self_.is_quantized() {
        return corten_ops::quantized::copy::refuse_copy();
    }
    if src.is_quantized() {
        corten_ops::quantized::copy::copy_quantized_(self_, src)?;
        return Ok(self_.clone());
    }
    ensure!(
        src.dtype() == f32::DTYPE,
        Runtime,
        "Quantized copy only works with kFloat as source Tensor"
    );
    ensure!(
        self_.sizes() == src.sizes(),
        Runtime,
        "Quantized copy only works with Tensors with the same shape"
    );
    fill_from(self_, &op::detach(src)?)?;
    Ok(self_.clone())
}

/// What the integers stand for.
///
/// # Errors
/// `Runtime` where the tensor has no quantizer.
pub fn dequantize(self_: &Tensor) -> Result<Tensor> {
    let dtype = self_.dtype();
    let channels = Channels::of(&*self_.known_quantizer()?, self_)?;
    let format = walked_format(self_, &channels);
    let strides = corten_core::geometry::memory_format_strides(&self_.sizes(), format)?;
    let out: Tensor = TensorBase::empty_strided(&self_.sizes(), &strides, f32::DTYPE)?.into();
    if out.numel() == 0 {
        return Ok(out);
    }
    let ints: Tensor = self_.integers()?.into();
    let ints = if dtype.elements_per_byte() > 1 { ints } else { contiguous_in(&ints, format)? };
    let (written, ints) = (flat(&out)?, flat(&ints)?);
    let set = AccessSet::acquire(&[(&written, Access::Write), (&ints, Access::Read)])?;
    let floats = set.write::<f32>(0)?;
    match dtype {
        DType::QUInt8 => channels.dequantize::<u8>(set.read(1)?, floats)?,
        DType::QInt8 => channels.dequantize::<i8>(set.read(1)?, floats)?,
        DType::QInt32 => channels.dequantize::<i32>(set.read(1)?, floats)?,
        _ => channels.unpack(set.read(1)?, floats, dtype)?,
    }
    drop(set);
    Ok(out)
}

/// Scales and zero points beside the walk over elements in order.
struct Channels {
    scheme: QScheme,
    scales: Vec<f64>,
    /// Integers, but with float zero points.
    zero_points: Vec<f64>,
    /// Neighbouring elements of one channel.
    inner: usize,
}

impl Channels {
    fn of(quantizer: &Quantizer, tensor: &Tensor) -> Result<Self> {
        let scheme = quantizer.scheme();
        if let Some((scale, zero_point)) = quantizer.of_tensor() {
            let inner = (tensor.numel() as usize).max(1);
            return Ok(Self {
                scheme,
                scales: vec![scale],
                zero_points: vec![zero_point as f64],
                inner,
            });
        }
        let (scales, zero_points) = match quantizer {
            Quantizer::PerChannel { scales, zero_points, .. } => {
                (values::<f64, f64>(scales)?, values::<i64, f64>(zero_points)?)
            }
            Quantizer::PerChannelFloat { scales, zero_points, .. } => {
                (values::<f32, f64>(scales)?, values::<f32, f64>(zero_points)?)
            }
            Quantizer::PerTensor { .. } => (Vec::new(), Vec::new()),
        };
        let axis = quantizer.of_channels().map_or(0, |(_, _, axis)| axis);
        let sizes = tensor.sizes();
        let fits = usize::try_from(axis).ok().and_then(|axis| sizes.get(axis));
        ensure!(
            fits == Some(&(scales.len() as i64)) && zero_points.len() == scales.len(),
            Runtime,
            "length of scales must equal to channel, expected {} got, {}",
            fits.copied().unwrap_or(0),
            scales.len()
        );
        let inner = sizes[axis as usize + 1..].iter().product::<i64>() as usize;
        Ok(Self { scheme, scales, zero_points, inner: inner.max(1) })
    }

    fn are_one(&self) -> bool {
        self.scheme == QScheme::PerTensorAffine
    }

    /// Calls `body` for each run of elements of one channel in `start..start + length`: its place from `start`
    /// on, and the channel.
    fn each_run(
        &self,
        start: usize,
        length: usize,
        mut body: impl FnMut(std::ops::Range<usize>, usize),
    ) {
        let mut at = 0;
        while at < length {
            let place = start + at;
            let end = (at + self.inner - place % self.inner).min(length);
            body(at..end, place / self.inner % self.scales.len());
            at = end;
        }
    }

    fn quantize<T: Stored>(&self, floats: &[f32], out: &mut [T]) -> Result<()> {
        in_chunks(out, |start, out| {
            self.each_run(start, out.len(), |range, channel| {
                let from = &floats[start + range.start..start + range.end];
                let inverse = 1.0 / self.scales[channel] as f32;
                let zero_point = self.zero_points[channel];
                quantize_run(self.scheme, from, &mut out[range], inverse, zero_point);
            });
        })
    }

    fn dequantize<T: Stored>(&self, ints: &[T], out: &mut [f32]) -> Result<()> {
        in_chunks(out, |start, out| {
            self.each_run(start, out.len(), |range, channel| {
                let from = &ints[start + range.start..start + range.end];
                let (scale, zero_point) = (self.scales[channel], self.zero_points[channel]);
                dequantize_run(self.scheme, from, &mut out[range], scale, zero_point);
            });
        })
    }

    /// Elements of fewer than 8 bits, the first in the lowest bits.
    fn pack(&self, floats: &[f32], out: &mut [u8], dtype: DType) -> Result<()> {
        let per_byte = dtype.elements_per_byte();
        let (bits, most) = (8 / per_byte, (1i64 << (8 / per_byte)) - 1);
        let mut ints = try_vec(0u8, floats.len())?;
        in_chunks(&mut ints, |start, out| {
            self.each_run(start, out.len(), |range, channel| {
                let from = &floats[start + range.start..start + range.end];
                let inverse = 1.0 / self.scales[channel] as f32;
                let zero_point = self.zero_points[channel] as f32;
                let of_channel = self.scheme == QScheme::PerChannelAffineFloatQParams;
                for (out, &x) in out[range].iter_mut().zip(from) {
                    *out = match of_channel {
                        true => i64::from(nearest(x * inverse + zero_point) as i32),
                        false => nearest((x * inverse).round_ties_even() + zero_point),
                    }
                    .clamp(0, most) as u8;
                }
            });
        })?;
        for (byte, ints) in out.iter_mut().zip(ints.chunks(per_byte)) {
            *byte = ints.iter().enumerate().fold(0, |byte, (i, &int)| byte | int << (i * bits));
        }
        Ok(())
    }

    fn unpack(&self, bytes: &[u8], out: &mut [f32], dtype: DType) -> Result<()> {
        let per_byte = dtype.elements_per_byte();
        let bits = 8 / per_byte;
        in_chunks(out, |start, out| {
            self.each_run(start, out.len(), |range, channel| {
                let scale = self.scales[channel] as f32;
                let zero_point = self.zero_points[channel] as f32;
                for (i, out) in range.clone().zip(&mut out[range]) {
                    let place = start + i;
                    let shifted = bytes[place / per_byte] >> (place % per_byte * bits);
                    let int = shifted & (0xFF >> (8 - bits));
                    *out = (f32::from(int) - zero_point) * scale;
                }
            });
        })
    }
}

/// Calls `body` with where each chunk begins and the chunk, on several threads.
fn in_chunks<T: Send>(out: &mut [T], body: impl Fn(usize, &mut [T]) + Sync) -> Result<()> {
    let whole = out.len() / CHUNK * CHUNK;
    let (chunks, rest) = out.split_at_mut(whole);
    for_each_chunk(chunks, CHUNK, GRAIN, |i, chunk| {
        body(i * CHUNK, chunk);
        Ok(())
    })?;
    body(whole, rest);
    Ok(())
}

/// The nearest integer, even ones where two are; the least number where there is none.
fn nearest(x: f32) -> i64 {
    let rounded = x.round_ties_even();
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
    if fits { rounded as i64 } else { i64::MIN }
}

/// How an integer type takes what was scaled. See Note [Rounding of quantised elements].
trait Stored: Element {
    /// With one scale.
    fn of_tensor(scaled: f32, zero_point: i32) -> Self;
    /// With scales per channel.
    fn of_channel(scaled: f32, zero_point: f32) -> Self;
    /// With scales per channel, the zero point added already.
    fn of_float_channel(moved: f32) -> Self;
    /// What it stands for at scale 1.
    fn above(self, zero_point: i32) -> f32;
}

macro_rules! stored {
    ($($int:ty)+) => {$(
        impl Stored for $int {
            #[inline(always)]
            fn of_tensor(scaled: f32, zero_point: i32) -> Self {
                // The largest float below what an `i32` holds; also in place of NaN.
                let below = if scaled < 2_147_483_520.0 { scaled } else { 2_147_483_520.0 };
                let int = (below.round_ties_even() as i32).wrapping_add(zero_point);
                int.clamp(Self::MIN.into(), Self::MAX.into()) as Self
            }
            #[inline(always)]
            fn of_channel(scaled: f32, zero_point: f32) -> Self {
                let moved = zero_point + scaled.round_ties_even();
                // `as` takes NaN to 0.
                moved as Self
            }
            #[inline(always)]
            fn of_float_channel(moved: f32) -> Self {
                (nearest(moved) as i32).clamp(Self::MIN.into(), Self::MAX.into()) as Self
            }
            #[inline(always)]
            fn above(self, zero_point: i32) -> f32 {
                i32::from(self).wrapping_sub(zero_point) as f32
            }
        }
    )+};
}

stored! { u8 i8 }

impl Stored for i32 {
    fn of_tensor(scaled: f32, zero_point: i32) -> Self {
        Self::of_channel(scaled, zero_point as f32)
    }
    fn of_channel(scaled: f32, zero_point: f32) -> Self {
        let moved = zero_point + scaled.round_ties_even();
        if moved.is_nan() { i32::MIN } else { moved as i32 }
    }
    fn of_float_channel(moved: f32) -> Self {
        nearest(moved) as i32
    }
    fn above(self, zero_point: i32) -> f32 {
        self.wrapping_sub(zero_point) as f32
    }
}

fn quantize_run<T: Stored>(
    scheme: QScheme,
    from: &[f32],
    out: &mut [T],
    inverse: f32,
    zero_point: f64,
) {
    let (int, float) = (zero_point as i32, zero_point as f32);
    match scheme {
        QScheme::PerTensorAffine => map_run(from, out, |x| T::of_tensor(x * inverse, int)),
        QScheme::PerChannelAffine => map_run(from, out, |x| T::of_channel(x * inverse, float)),
        _ => map_run(from, out, |x| T::of_float_channel(x * inverse + float)),
    }
}

fn dequantize_run<T: Stored>(
    scheme: QScheme,
    from: &[T],
    out: &mut [f32],
    scale: f64,
    zero_point: f64,
) {
    let (single, int, float) = (scale as f32, zero_point as i32, zero_point as f32);
    let above = |x: T| cast::<T, f32>(x) - float;
    match scheme {
        QScheme::PerTensorAffine => map_run(from, out, |x| x.above(int) * single),
        QScheme::PerChannelAffine => {
            map_run(from, out, |x| (f64::from(above(x)) * scale) as f32);
        }
        _ => map_run(from, out, |x| above(x) * single),
    }
}

/// What `f` makes of each element, in a loop for the vectors that the processor has.
#[inline(always)]
fn map_run<A: Copy, B>(from: &[A], out: &mut [B], f: impl Fn(A) -> B) {
    compiled(|| {
        for (out, &x) in out.iter_mut().zip(from) {
            *out = f(x);
        }
    });
}
