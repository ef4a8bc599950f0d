//! From sums of products of integers to the numbers that they stand for, or to bytes of another scale.

/// In which order a sum is scaled. The orders of FBGEMM and oneDNN differ in the last bit of a float, which
/// decides about numbers halfway between two integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// `round((sum + bias / scales) * (scales / output_scale)) + zero_point`.
    Fbgemm,
    /// `round((sum * input_scale * weight_scale + bias) * (1 / output_scale) + zero_point)`.
    OneDnn,
}

/// How the sums of an output become numbers: each slice has an element per output.
///
/// ```
/// use corten_gemm::{Requantize, Rounding};
///
/// let scale = Requantize {
///     offsets: &[-10, 0], weight_zero_points: None, input_scale: 0.5, weight_scales: &[0.25, 0.5],
///     bias: Some(&[1.0, -1.0]),
/// };
/// let mut numbers = [0.0; 2];
/// scale.to_floats(&mut [18, 8], false, &mut numbers);
/// assert_eq!(numbers, [2.0, 1.0]);
/// ```
#[derive(Clone, Copy)]
pub struct Requantize<'a> {
    /// What is added to each sum: what the zero points contribute.
    pub offsets: &'a [i32],
    /// The zero points of the weights, where not all are zero; the sum of the inputs is then the element
    /// behind the last sum.
    pub weight_zero_points: Option<&'a [i32]>,
    /// The scale of the inputs.
    pub input_scale: f32,
    /// The scales of the weights.
    pub weight_scales: &'a [f32],
    /// The bias of each output.
    pub bias: Option<&'a [f32]>,
}

/// What bytes stand for, and what happens before they are stored.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    /// The scale of the bytes.
    pub scale: f32,
    /// The byte that stands for zero.
    pub zero_point: i32,
    /// Whether negative numbers become zero.
    pub relu: bool,
    /// The order of operations.
    pub rounding: Rounding,
    /// Bytes that are added, with their scale and zero point.
    pub addend: Option<(&'a [u8], f32, i32)>,
}

/// Compiles a loop for each instruction set.
macro_rules! compiled {
    ($($name:ident($($arg:ident: $type:ty),*) by $body:ident;)+) => {$(
        fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn on_avx512($($arg: $type),*) {
                    $body($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn on_avx2($($arg: $type),*) {
                    $body($($arg),*);
                }
                if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                    // SAFETY: the processor has the features.
                    return unsafe { on_avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: as above.
                    return unsafe { on_avx2($($arg),*) };
                }
            }
            $body($($arg),*);
        }
    )+};
}

compiled! {
    floats(scale: &Requantize<'_>, sums: &mut [i32], relu: bool, out: &mut [f32]) by floats_of;
    fbgemm(scale: &Requantize<'_>, sums: &mut [i32], to: &Output<'_>, out: &mut [u8]) by fbgemm_of;
    onednn(scale: &Requantize<'_>, sums: &mut [i32], to: &Output<'_>, out: &mut [u8]) by onednn_of;
    to_bytes(numbers: &[f32], scale: f32, zero_point: i32, bytes: &mut [u8]) by bytes_of;
    to_range(numbers: &[f32], found: &mut (f32, f32)) by range_of;
}

impl Requantize<'_> {
    /// The numbers of a row of sums, which are changed.
    ///
    /// # Panics
    /// When a slice is too short.
    pub fn to_floats(&self, sums: &mut [i32], relu: bool, out: &mut [f32]) {
        floats(self, sums, relu, out);
    }

    /// The bytes of a row of sums, which are changed.
    ///
    /// # Panics
    /// When a slice is too short.
    pub fn to_bytes(&self, sums: &mut [i32], to: &Output<'_>, out: &mut [u8]) {
        match to.rounding {
            Rounding::Fbgemm => fbgemm(self, sums, to, out),
            Rounding::OneDnn => onednn(self, sums, to, out),
        }
    }

    /// Adds what the zero points contribute.
    #[inline(always)]
    fn add_offsets(&self, sums: &mut [i32], count: usize) {
        if let Some(zero_points) = self.weight_zero_points {
            let total = sums[count];
            for (sum, zero_point) in sums[..count].iter_mut().zip(&zero_points[..count]) {
                *sum = sum.wrapping_sub(zero_point.wrapping_mul(total));
            }
        }
        for (sum, offset) in sums[..count].iter_mut().zip(&self.offsets[..count]) {
            *sum = sum.wrapping_add(*offset);
        }
    }
}

#[inline(always)]
fn floats_of(scale: &Requantize<'_>, sums: &mut [i32], relu: bool, out: &mut [f32]) {
    let count = out.len();
    scale.add_offsets(sums, count);
    let (sums, scales) = (&sums[..count], &scale.weight_scales[..count]);
    for i in 0..count {
        out[i] = sums[i] as f32 * (scale.input_scale * scales[i]);
    }
    if let Some(bias) = scale.bias {
        let bias = &bias[..count];
        for i in 0..count {
            out[i] = (sums[i] as f32).mul_add(scale.input_scale * scales[i], bias[i]);
        }
    }
    if relu {
        out.iter_mut().for_each(|x| *x = x.max(0.0));
    }
}

#[inline(always)]
fn fbgemm_of(scale: &Requantize<'_>, sums: &mut [i32], to: &Output<'_>, out: &mut [u8]) {
    let count = out.len();
    scale.add_offsets(sums, count);
    let (sums, scales) = (&sums[..count], &scale.weight_scales[..count]);
    let least = if to.relu { 0.0 } else { -to.zero_point as f32 };
    let most = (255 - to.zero_point) as f32;
    let (input, output, zero_point) = (scale.input_scale, to.scale, to.zero_point);
    let byte = |sum: f32, factor: f32| {
        let scaled = (sum * factor).round_ties_even().max(least).min(most);
        // SAFETY: it lies between the least and the greatest byte, and is not NaN.
        (unsafe { scaled.to_int_unchecked::<i32>() } + zero_point) as u8
    };
    match scale.bias {
        Some(bias) => {
            let bias = &bias[..count];
            for i in 0..count {
                let factor = input * scales[i];
                out[i] = byte(sums[i] as f32 + bias[i] / factor, factor / output);
            }
        }
        None => {
            for i in 0..count {
                out[i] = byte(sums[i] as f32, input * scales[i] / output);
            }
        }
    }
}

#[inline(always)]
fn onednn_of(scale: &Requantize<'_>, sums: &mut [i32], to: &Output<'_>, out: &mut [u8]) {
    let count = out.len();
    scale.add_offsets(sums, count);
    let (sums, scales) = (&sums[..count], &scale.weight_scales[..count]);
    let (inverse, zero) = (1.0 / to.scale, to.zero_point as f32);
    let least = if to.relu { zero } else { 0.0 };
    let byte = |number: f32| {
        let scaled = (number * inverse + zero).round_ties_even().max(least).min(255.0);
        // SAFETY: it lies between the least and the greatest byte, and is not NaN.
        unsafe { scaled.to_int_unchecked::<i32>() as u8 }
    };
    let number = |i: usize| sums[i] as f32 * scale.input_scale * scales[i];
    match (scale.bias, to.addend) {
        (None, None) => (0..count).for_each(|i| out[i] = byte(number(i))),
        (Some(bias), None) => {
            let bias = &bias[..count];
            for i in 0..count {
                out[i] = byte(number(i) + bias[i]);
            }
        }
        (bias, Some((addend, factor, zero_point))) => {
            let addend = &addend[..count];
            for i in 0..count {
                let shifted = f32::from(addend[i]) - zero_point as f32;
                let number = number(i) + bias.map_or(0.0, |bias| bias[i]);
                out[i] = byte(factor.mul_add(shifted, number));
            }
        }
    }
}

/// The bytes nearest to `number / scale + zero_point`, as far as both slices go.
///
/// ```
/// let mut bytes = [0; 3];
/// corten_gemm::quantize(&[0.5, -0.75, 1000.0], (0.5, 10), &mut bytes);
/// assert_eq!(bytes, [11, 8, 255]);
/// ```
pub fn quantize(numbers: &[f32], (scale, zero_point): (f32, i32), bytes: &mut [u8]) {
    to_bytes(numbers, scale, zero_point, bytes);
}

/// The least and the greatest number; NaN is neither.
///
/// ```
/// assert_eq!(corten_gemm::range(&[1.0, -2.0, 0.5]), (-2.0, 1.0));
/// ```
#[must_use]
pub fn range(numbers: &[f32]) -> (f32, f32) {
    let mut found = (f32::INFINITY, f32::NEG_INFINITY);
    to_range(numbers, &mut found);
    found
}

#[inline(always)]
fn bytes_of(numbers: &[f32], scale: f32, zero_point: i32, bytes: &mut [u8]) {
    let (inverse, zero) = (1.0 / scale, zero_point as f32);
    let count = numbers.len().min(bytes.len());
    let (numbers, bytes) = (&numbers[..count], &mut bytes[..count]);
    for i in 0..count {
        let near = (numbers[i] * inverse).round_ties_even() + zero;
        let bounded = near.max(0.0);
        // SAFETY: it lies between 0 and 255, and is not NaN.
        bytes[i] = unsafe { bounded.min(255.0).to_int_unchecked::<i32>() as u8 };
    }
}

#[inline(always)]
fn range_of(numbers: &[f32], found: &mut (f32, f32)) {
    const LANES: usize = 64;
    let (mut least, mut most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            least[i] = if chunk[i] < least[i] { chunk[i] } else { least[i] };
            most[i] = if chunk[i] > most[i] { chunk[i] } else { most[i] };
        }
    }
    for &number in least.iter().chain(rest) {
        found.0 = found.0.min(number);
    }
    for &number in most.iter().chain(rest) {
        found.1 = found.1.max(number);
    }
}
