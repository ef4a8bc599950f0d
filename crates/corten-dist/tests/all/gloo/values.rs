//! Elements and what they are reduced to, computed in one process.

use corten_core::{DType, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, bf16, f16};
use corten_dist::{Factor, ReduceOp};

/// Small numbers, exact in every dtype, and so are their sums and products over four ranks.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) dtype: DType,
    pub(super) count: usize,
}

impl Numbers {
    /// The elements that belong to `salt`, a rank for instance.
    pub(super) fn bytes(&self, salt: usize) -> Vec<u8> {
        let parts = if self.dtype.is_complex() { 2 } else { 1 };
        let value = |index: usize| encoded(self.dtype, ((index * 7 + salt * 3) % 4) as i64);
        // The values come again every four parts.
        let four = (0..4).flat_map(value).collect::<Vec<u8>>().repeat(self.count * parts / 4 + 1);
        four[..self.count * self.dtype.itemsize()].to_vec()
    }
}

/// A number, or a part of a complex one, as bytes.
fn encoded(dtype: DType, value: i64) -> Vec<u8> {
    match dtype {
        DType::Bool => vec![u8::from(value != 0)],
        DType::UInt8 | DType::Int8 => vec![value as u8],
        DType::Int16 | DType::UInt16 => (value as i16).to_le_bytes().to_vec(),
        DType::Int32 | DType::UInt32 => (value as i32).to_le_bytes().to_vec(),
        DType::Int64 | DType::UInt64 => value.to_le_bytes().to_vec(),
        DType::Float16 | DType::Complex32 => f16::from_f32(value as f32).to_le_bytes().to_vec(),
        DType::BFloat16 | DType::BComplex32 => bf16::from_f32(value as f32).to_le_bytes().to_vec(),
        DType::Float32 | DType::Complex64 => (value as f32).to_le_bytes().to_vec(),
        DType::Float64 | DType::Complex128 => (value as f64).to_le_bytes().to_vec(),
        DType::Float8E5m2 => vec![F8E5M2::from_f32(value as f32).0],
        DType::Float8E4m3fn => vec![F8E4M3FN::from_f32(value as f32).0],
        DType::Float8E5m2fnuz => vec![F8E5M2FNUZ::from_f32(value as f32).0],
        DType::Float8E4m3fnuz => vec![F8E4M3FNUZ::from_f32(value as f32).0],
        other => panic!("no elements of {}", other.name()),
    }
}

fn decoded(dtype: DType, bytes: &[u8]) -> i64 {
    match dtype {
        DType::Float16 | DType::Complex32 => {
            f16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32() as i64
        }
        DType::BFloat16 | DType::BComplex32 => {
            bf16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32() as i64
        }
        DType::Float8E5m2 => F8E5M2(bytes[0]).to_f32() as i64,
        DType::Float8E4m3fn => F8E4M3FN(bytes[0]).to_f32() as i64,
        DType::Float8E5m2fnuz => F8E5M2FNUZ(bytes[0]).to_f32() as i64,
        DType::Float8E4m3fnuz => F8E4M3FNUZ(bytes[0]).to_f32() as i64,
        DType::Float32 | DType::Complex64 => {
            f32::from_le_bytes(bytes.try_into().expect("4 bytes")) as i64
        }
        DType::Float64 | DType::Complex128 => {
            f64::from_le_bytes(bytes.try_into().expect("8 bytes")) as i64
        }
        _ => bytes.iter().rev().fold(0, |value, &byte| value << 8 | i64::from(byte)),
    }
}

/// Every reduction that there is, of every dtype.
pub(super) fn reductions() -> Vec<(DType, ReduceOp)> {
    use DType::*;
    let integers = [UInt8, Int8, Int16, Int32, Int64, UInt16, UInt32, UInt64];
    let floats = [Float16, BFloat16, Float32, Float64];
    let narrow = [Float8E5m2, Float8E4m3fn, Float8E5m2fnuz, Float8E4m3fnuz];
    let complex = [Complex32, BComplex32, Complex64, Complex128];
    let exact = [ReduceOp::Sum, ReduceOp::Product];
    let ordered = [ReduceOp::Min, ReduceOp::Max];
    let bits = [ReduceOp::BitAnd, ReduceOp::BitOr, ReduceOp::BitXor];
    let scaled = [ReduceOp::Avg, ReduceOp::PremulSum(Factor::Number(2.0))];
    let mut all = Vec::new();
    let mut add = |dtypes: &[DType], ops: &[ReduceOp]| {
        for &dtype in dtypes {
            all.extend(ops.iter().map(|op| (dtype, op.clone())));
        }
    };
    for ops in [&exact[..], &ordered, &bits] {
        add(&integers, ops);
        add(&[Bool], ops);
    }
    add(&integers, &scaled[..1]);
    for ops in [&exact[..], &ordered, &scaled] {
        add(&floats, ops);
    }
    // Of four ranks, the average of numbers that a float of 8 bits has need not be one.
    for ops in [&exact[..1], &ordered, &scaled[1..]] {
        add(&narrow, ops);
    }
    for ops in [&exact[..], &scaled] {
        add(&complex, ops);
    }
    all
}

/// The reduction of the operands of all ranks.
pub(super) fn reduced(dtype: DType, op: &ReduceOp, operands: &[Vec<u8>]) -> Vec<u8> {
    if dtype.is_complex() && matches!(op, ReduceOp::Product) {
        return complex_product(dtype, operands);
    }
    let ranks = operands.len() as i64;
    let width = if dtype.is_complex() { dtype.itemsize() / 2 } else { dtype.itemsize() };
    let count = operands[0].len() / width;
    let element = |index: usize| {
        let place = index * width..(index + 1) * width;
        let values = operands.iter().map(|bytes| decoded(dtype, &bytes[place.clone()]));
        let sum = || values.clone().sum::<i64>();
        match op {
            ReduceOp::Avg if !is_integral(dtype) => quarters(dtype, sum(), ranks),
            ReduceOp::Avg => encoded(dtype, sum() / ranks),
            ReduceOp::PremulSum(_) => encoded(dtype, 2 * sum()),
            ReduceOp::Sum => encoded(dtype, sum()),
            ReduceOp::Product => encoded(dtype, values.product()),
            ReduceOp::Min => encoded(dtype, values.min().expect("a rank")),
            ReduceOp::Max => encoded(dtype, values.max().expect("a rank")),
            ReduceOp::BitAnd => encoded(dtype, values.reduce(|a, b| a & b).expect("a rank")),
            ReduceOp::BitOr => encoded(dtype, values.reduce(|a, b| a | b).expect("a rank")),
            ReduceOp::BitXor => encoded(dtype, values.reduce(|a, b| a ^ b).expect("a rank")),
        }
    };
    (0..count).flat_map(element).collect()
}

fn is_integral(dtype: DType) -> bool {
    !dtype.is_floating_point() && !dtype.is_complex()
}

/// A sum divided by 1, 2 or 4, which is exact.
fn quarters(dtype: DType, sum: i64, ranks: i64) -> Vec<u8> {
    let value = sum as f64 / ranks as f64;
    match dtype {
        DType::Float16 | DType::Complex32 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BFloat16 | DType::BComplex32 => bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::Float32 | DType::Complex64 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

fn complex_product(dtype: DType, operands: &[Vec<u8>]) -> Vec<u8> {
    let (width, part) = (dtype.itemsize(), dtype.itemsize() / 2);
    let element = |index: usize| {
        let factors = operands.iter().map(|bytes| {
            let bytes = &bytes[index * width..(index + 1) * width];
            (decoded(dtype, &bytes[..part]), decoded(dtype, &bytes[part..]))
        });
        let product = |(a, b): (i64, i64), (c, d): (i64, i64)| (a * c - b * d, a * d + b * c);
        let (real, imaginary) = factors.reduce(product).expect("a rank");
        [encoded(dtype, real), encoded(dtype, imaginary)].concat()
    };
    (0..operands[0].len() / width).flat_map(element).collect()
}

/// Numbers whose sums are rounded.
pub(super) fn random(dtype: DType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    let mut element = |_| match dtype {
        DType::Float16 => f16::from_f64(next()).to_le_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f64(next()).to_le_bytes().to_vec(),
        DType::Float32 => (next() as f32).to_le_bytes().to_vec(),
        _ => next().to_le_bytes().to_vec(),
    };
    (0..count).flat_map(&mut element).collect()
}
