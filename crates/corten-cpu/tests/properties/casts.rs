//! Casts between all dtypes, bit by bit.

use crate::formats::{Value, decode, encode, same};
use crate::sample::{Layout, cases, distinct, layout, part_of, shape, start};
use crate::strides;
use corten_core::{DType, Reader, TensorBase, Writer};
use corten_ops::{Tensor, op};
use proptest::prelude::*;

/// Values at which a format rounds, ends or changes.
const EDGES: [f64; 55] = [
    0.0,
    0.25,
    0.5,
    0.75,
    1.0,
    1.5,
    2.5,
    3.5,
    7.0,
    9.5,
    15.0,
    17.0,
    127.0,
    127.5,
    128.0,
    240.0,
    247.9,
    248.0,
    255.0,
    255.5,
    256.0,
    257.0,
    300.7,
    448.0,
    463.9,
    464.0,
    465.0,
    480.0,
    511.0,
    32_767.5,
    32_768.0,
    57_344.0,
    61_439.0,
    61_440.0,
    65_504.0,
    65_519.0,
    65_520.0,
    65_535.5,
    65_536.0,
    16_777_217.0,
    2_147_483_647.0,
    2_147_483_647.9,
    2_147_483_648.0,
    2_147_483_649.0,
    4_294_967_295.0,
    4_294_967_296.0,
    9_007_199_254_740_993.0,
    9_223_372_036_854_775_808.0,
    18_446_744_073_709_551_616.0,
    1e20,
    3.4e38,
    3.402_823_6e38,
    1e300,
    f64::INFINITY,
    f64::NAN,
];

/// The smallest powers of two of a format and half of them: -9 and -10 for float8_e4m3fn, -16 and
/// -17 for the others, -24 for float16, -126, -133 and -149 for bfloat16 and float32.
const POWERS: [i32; 16] =
    [-6, -7, -9, -10, -11, -14, -16, -17, -18, -24, -25, -126, -127, -133, -134, -149];

fn edges() -> Vec<Value> {
    let powers = POWERS.map(|power| 2_f64.powi(power));
    let near = powers.iter().flat_map(|x| [*x, x * 1.5, x * 1.01, x * 0.99]);
    let magnitudes: Vec<f64> = EDGES.into_iter().chain(near).collect();
    let signed = magnitudes.iter().flat_map(|x| [*x, -x]).map(Value::Real);
    let integers = [i64::MIN, i64::MAX, i64::MAX - 1, (1 << 53) + 1, (1 << 24) + 1, -1, 65_519];
    let integers = integers.into_iter().map(|i| Value::Int(i.into()));
    let pairs = [(0.0, 1.0), (-1.5, f64::NAN), (f64::INFINITY, -2.5), (0.0, -0.0), (465.0, 1e-9)];
    let pairs = pairs.into_iter().map(|(re, im)| Value::Complex(re, im));
    let unsigned = [u64::MAX.into(), (1_i128 << 63) + 1];
    signed.chain(integers).chain(pairs).chain(unsigned.map(Value::Int)).collect()
}

/// A vector with these bytes.
fn vector(dtype: DType, elements: &[u128]) -> Tensor {
    start();
    let whole: Tensor = TensorBase::empty(&[elements.len() as i64], dtype).unwrap().into();
    let bytes = op::view_dtype(&whole, DType::UInt8).unwrap();
    let mut to = Writer::<u8>::new(&bytes).unwrap();
    for (to, element) in to.chunks_mut(dtype.itemsize()).zip(elements) {
        to.copy_from_slice(&element.to_le_bytes()[..dtype.itemsize()]);
    }
    drop(to);
    whole
}

/// The bytes of a vector's elements.
fn bits(whole: &Tensor) -> Vec<u128> {
    let bytes = op::view_dtype(whole, DType::UInt8).unwrap();
    let from = Reader::<u8>::new(&bytes).unwrap();
    let element = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, b| all << 8 | u128::from(*b));
    from.chunks(whole.itemsize()).map(element).collect()
}

fn cast(from: DType, to: DType, element: u128) -> u128 {
    if from == to { element } else { encode(to, decode(from, element)) }
}

/// Compares elements and names the first that differs.
fn compare(to: DType, got: &[u128], want: &[u128]) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), want.len());
    let wrong = got.iter().zip(want).position(|(got, want)| !same(to, *got, *want));
    if let Some(at) = wrong {
        let (got, want) = (got[at], want[at]);
        let values = (decode(to, got), decode(to, want));
        prop_assert!(false, "{to} element {at}: {got:#x} not {want:#x}, {values:?}");
    }
    Ok(())
}

fn check_vector(from: DType, to: DType, elements: &[u128]) {
    let target = vector(to, &vec![0; elements.len()]);
    op::copy_(&target, &vector(from, elements), false).unwrap();
    let want: Vec<u128> = elements.iter().map(|&element| cast(from, to, element)).collect();
    compare(to, &bits(&target), &want).unwrap_or_else(|error| panic!("from {from}: {error}"));
}

fn all_pairs() -> impl Iterator<Item = (DType, DType)> {
    DType::NUMERIC.iter().flat_map(|&from| DType::NUMERIC.iter().map(move |&to| (from, to)))
}

#[test]
fn every_pair_on_edge_values() {
    for (from, to) in all_pairs() {
        let elements: Vec<u128> = edges().into_iter().map(|value| encode(from, value)).collect();
        check_vector(from, to, &elements);
    }
}

#[test]
fn every_element_of_8_bits_to_every_dtype() {
    for (from, to) in all_pairs().filter(|(from, _)| from.itemsize() == 1) {
        let count = if from == DType::Bool { 2 } else { 256 };
        check_vector(from, to, &(0..count).collect::<Vec<_>>());
    }
}

#[test]
fn every_element_of_16_bits_to_narrower_formats() {
    let narrow = [DType::Float8E4m3fn, DType::Float8E5m2fnuz, DType::Float16, DType::BFloat16];
    for from in [DType::Float16, DType::BFloat16, DType::Int16] {
        for to in narrow.into_iter().chain([DType::Int8, DType::Bool]) {
            check_vector(from, to, &(0..=0xFFFF).step_by(3).collect::<Vec<_>>());
        }
    }
}

/// Arbitrary bytes, one in four times an edge value: by position, from a seed.
fn element(dtype: DType, seed: u64, at: usize, edges: &[Value]) -> u128 {
    let mixed = |x: u64| {
        let x = (x ^ (x >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    };
    let (a, b) = (mixed(seed ^ at as u64), mixed(mixed(seed).wrapping_add(at as u64)));
    if a % 4 == 0 {
        return encode(dtype, edges[(b >> 20) as usize % edges.len()]);
    }
    let bytes = (u128::from(a) << 64 | u128::from(b)) >> (128 - dtype.itemsize() * 8);
    if dtype == DType::Bool { bytes & 1 } else { bytes }
}

/// A memory of random elements and a view of it.
fn memory(layout: &Layout, dtype: DType, seed: u64) -> (Vec<u128>, Tensor) {
    let edges = edges();
    let last = layout.positions().into_iter().max().unwrap_or(0).max(layout.offset as usize);
    let length = last + 1 + last % 3;
    let elements: Vec<u128> = (0..length).map(|at| element(dtype, seed, at, &edges)).collect();
    (elements.clone(), vector(dtype, &elements))
}

fn view(whole: &Tensor, layout: &Layout) -> Tensor {
    whole.as_view_of(&layout.sizes, &layout.strides, layout.offset).unwrap().into()
}

/// `copy_` from a view of random elements, broadcast, to another.
pub(crate) fn check_copy(
    (target, to): (&Layout, DType),
    (source, from): (&Layout, DType),
    seed: u64,
) -> Result<(), TestCaseError> {
    let (elements, whole) = memory(source, from, seed);
    let (mut want, written) = memory(target, to, !seed);
    op::copy_(&view(&written, target), &view(&whole, source), false).unwrap();
    let seen = source.broadcast(&target.sizes).positions();
    for (at, seen) in target.positions().into_iter().zip(seen) {
        want[at] = cast(from, to, elements[seen]);
    }
    compare(to, &bits(&written), &want)?;
    prop_assert_eq!(bits(&whole), elements);
    Ok(())
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::NUMERIC)
}

proptest! {
    #![proptest_config(cases(1500))]

    /// `copy_` between any two views, the source broadcast.
    #[test]
    fn copies_cast_every_element(
        (target, source) in shape(4).prop_flat_map(|shape| {
            (distinct(shape.clone()), part_of(shape).prop_flat_map(layout))
        }),
        (from, to) in (dtype(), dtype()),
        seed in any::<u64>(),
    ) {
        check_copy((&target, to), (&source, from), seed)?;
    }

    /// `to()` casts and keeps the order of dimensions.
    #[test]
    fn conversions_cast_every_element(
        source in shape(4).prop_flat_map(layout),
        (from, to) in (dtype(), dtype()),
        seed in any::<u64>(),
    ) {
        let (elements, whole) = memory(&source, from, seed);
        let result = op::to_dtype(&view(&whole, &source), to, false, true, None).unwrap();
        let layout = Layout::of(&result);
        prop_assert_eq!(result.dtype(), to);
        prop_assert_eq!(layout.sizes.clone(), source.sizes.clone());
        prop_assert_eq!(layout.strides.clone(), strides::of_copy(&source));
        let seen = source.positions();
        let want: Vec<u128> = seen.iter().map(|&at| cast(from, to, elements[at])).collect();
        let got = bits(&result.as_view_of(&[want.len() as i64], &[1], 0).unwrap().into());
        let got: Vec<u128> = layout.positions().into_iter().map(|at| got[at]).collect();
        compare(to, &got, &want)?;
    }
}
