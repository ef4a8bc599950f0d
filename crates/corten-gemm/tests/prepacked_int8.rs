//! Products with prepacked signed bytes, and what their sums become.

use corten_gemm::{
    ByteRows, DepthwiseInt8, Isa, Output, PrepackedInt8, Requantize, Rounding, gemm_prepacked_int8,
};
use std::ops::Range;

struct Rows<'a> {
    bytes: &'a [u8],
    depth: usize,
    in_place: bool,
}

impl ByteRows for Rows<'_> {
    fn copy(&self, row: usize, bytes: Range<usize>, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[row * self.depth..][bytes]);
    }

    fn in_place(&self) -> Option<(&[u8], usize)> {
        self.in_place.then_some((self.bytes, self.depth))
    }
}

fn instruction_sets() -> Vec<Isa> {
    let mut sets = vec![Isa::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            sets.push(Isa::Avx2);
        }
        if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw") {
            sets.push(Isa::Avx512Vnni);
        }
    }
    sets
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as u8
    };
    (0..count).map(next).collect()
}

fn check([rows, outputs, depth]: [usize; 3], isa: Isa, in_place: bool) {
    let a = bytes(rows * depth, 1);
    let b: Vec<i8> = bytes(outputs * depth, 2).into_iter().map(|x| x as i8).collect();
    let packed = PrepackedInt8::of(&b, [outputs, depth], isa);
    let mut sums = vec![0i32; rows * outputs];
    let source = Rows { bytes: &a, depth, in_place };
    let first = packed.panel_outputs().min(outputs);
    for part in [0..first, first..outputs] {
        let to = (&mut sums[part.start..], outputs);
        gemm_prepacked_int8(to, (&source, 0..rows), (&packed, part));
    }
    for row in 0..rows {
        for output in 0..outputs {
            let products = (0..depth)
                .map(|k| i32::from(a[row * depth + k]) * i32::from(b[output * depth + k]));
            let expected: i32 = products.sum();
            assert_eq!(sums[row * outputs + output], expected, "{row} {output} {isa:?}");
        }
    }
}

#[test]
fn products_are_exact() {
    for isa in instruction_sets() {
        for shape in
            [[1, 1, 4], [1, 70, 36], [7, 64, 64], [13, 130, 100], [3, 5, 2056], [40, 17, 8]]
        {
            for in_place in [false, true] {
                check(shape, isa, in_place);
            }
        }
    }
}

#[test]
fn extreme_bytes_do_not_saturate() {
    for isa in instruction_sets() {
        let packed = PrepackedInt8::of(&[-128; 64], [1, 64], isa);
        let source = Rows { bytes: &[255; 64], depth: 64, in_place: false };
        let mut sum = [0i32];
        gemm_prepacked_int8((&mut sum, 1), (&source, 0..1), (&packed, 0..1));
        assert_eq!(sum, [-128 * 255 * 64]);
    }
}

#[test]
fn sums_become_bytes() {
    let scale = Requantize {
        offsets: &[1, -1, 0, 0],
        weight_zero_points: Some(&[0, 0, 2, 0]),
        input_scale: 0.5,
        weight_scales: &[0.5, 0.5, 0.25, 1.0],
        bias: None,
    };
    let to = |rounding, relu| Output { scale: 1.0, zero_point: 3, relu, rounding, addend: None };
    for rounding in [Rounding::Fbgemm, Rounding::OneDnn] {
        let mut out = [0; 4];
        scale.to_bytes(&mut [9, -9, 100, 5000, 10], &to(rounding, false), &mut out);
        // 2.5, -2.5, 10 and 2500: halves go to even integers.
        let halves = if rounding == Rounding::Fbgemm { [5, 1] } else { [6, 0] };
        assert_eq!(out, [halves[0], halves[1], 13, 255]);
        scale.to_bytes(&mut [9, -9, 100, 5000, 10], &to(rounding, true), &mut out);
        assert_eq!(out, [halves[0], 3, 13, 255]);
    }
    let addend = Some((&[13u8, 3, 3, 3][..], 0.5, 3));
    let mut out = [0; 4];
    let output = Output { addend, ..to(Rounding::OneDnn, false) };
    scale.to_bytes(&mut [9, -9, 100, -5000, 10], &output, &mut out);
    assert_eq!(out, [10, 0, 13, 0]);
    let mut numbers = [0.0; 4];
    let scale = Requantize { bias: Some(&[1.0, 0.0, 0.0, 0.0]), ..scale };
    scale.to_floats(&mut [9, -9, 100, 8, 10], true, &mut numbers);
    assert_eq!(numbers, [3.5, 0.0, 10.0, 4.0]);
}

#[test]
fn depthwise_sums_are_exact() {
    for isa in instruction_sets() {
        for (channels, [rows, width]) in
            [(1, [1, 1]), (70, [3, 3]), (64, [1, 5]), (3, [2, 4]), (130, [5, 7])]
        {
            let kernels: Vec<i8> =
                bytes(channels * rows * width, 3).into_iter().map(|x| x as i8).collect();
            let step = channels + 1;
            let starts: Vec<usize> = (0..rows).map(|row| row * (width * step + 2)).collect();
            let pixels = bytes(starts[rows - 1] + (width - 1) * step + channels, 4);
            let mut sums = vec![0; channels];
            DepthwiseInt8::of(&kernels, channels, [rows, width], isa)
                .sums(&pixels, &starts, step, &mut sums);
            for channel in 0..channels {
                let places = (0..rows).flat_map(|row| (0..width).map(move |x| (row, x)));
                let products = places.map(|(row, x)| {
                    let pixel = i32::from(pixels[starts[row] + x * step + channel]);
                    pixel * i32::from(kernels[(channel * rows + row) * width + x])
                });
                assert_eq!(sums[channel], products.sum::<i32>(), "{channel} of {channels} {isa:?}");
            }
        }
    }
}
