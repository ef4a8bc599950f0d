//! Loops over random shapes, strides and dtypes against loops that are too simple to be wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use corten_core::{
    Access, AccessSet, Complex, DType, Result, Scalar, TensorOptions, cast, match_dtype,
};
use corten_ops::{Tensor, op};
use proptest::prelude::*;

/// A shape, the order of its dimensions in memory, steps and whether dimensions are broadcast.
#[derive(Clone, Debug)]
struct Layout {
    sizes: Vec<i64>,
    order: Vec<usize>,
    steps: Vec<i64>,
    offset: i64,
}

fn layout(sizes: Vec<i64>) -> impl Strategy<Value = Layout> {
    let rank = sizes.len();
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    let steps =
        prop::collection::vec(prop_oneof![4 => Just(1i64), 1 => 2..4i64, 1 => Just(0)], rank);
    (order, steps, 0..3i64).prop_map(move |(order, steps, offset)| Layout {
        sizes: sizes.clone(),
        order,
        steps,
        offset,
    })
}

impl Layout {
    /// A tensor of this layout over a storage of small numbers.
    fn tensor(&self, dtype: DType, seed: i64) -> Tensor {
        let mut strides = vec![0; self.sizes.len()];
        let mut extent = 1;
        for &dim in &self.order {
            strides[dim] = extent * self.steps[dim];
            extent *= self.sizes[dim].max(1) * self.steps[dim].max(1);
        }
        let numel = extent + self.offset;
        let values = |i: i64| {
            ((i * 7 + seed) % 19 - 6) as f64 * if dtype.is_integral(true) { 1.0 } else { 0.25 }
        };
        let whole = filled(dtype, numel, values);
        whole.as_view_of(&self.sizes, &strides, self.offset).unwrap().into()
    }

    /// The same with distinct elements: for outputs.
    fn dense(&self) -> Self {
        Self { steps: self.steps.iter().map(|&step| step.max(1)).collect(), ..self.clone() }
    }
}

fn filled(dtype: DType, numel: i64, value: impl Fn(i64) -> f64) -> Tensor {
    let tensor: Tensor =
        corten_core::TensorBase::empty(&[numel], TensorOptions::default().dtype(dtype))
            .unwrap()
            .into();
    let fill = || -> Result<()> {
        match_dtype!(dtype, "filled", All, T => {
            for i in 0..numel {
                // SAFETY: the tensor is fresh and has `numel` elements of this type.
                unsafe { tensor.data_ptr().cast::<T>().add(i as usize).write(cast(value(i))) };
            }
            Ok(())
        })
    };
    fill().unwrap();
    tensor
}

/// The elements in logical order, read one by one.
fn elements(tensor: &Tensor) -> Vec<Complex<f64>> {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let numel: i64 = sizes.iter().product();
    let set = AccessSet::acquire(&[(tensor.base(), Access::Read)]).unwrap();
    let read = || -> Result<Vec<Complex<f64>>> {
        match_dtype!(tensor.dtype(), "elements", All, T => {
            let first = set.read_ptr::<T>(0)?;
            let at = |mut i: i64| {
                let mut offset = 0;
                for (&size, &stride) in sizes.iter().zip(&strides).rev() {
                    offset += i % size * stride;
                    i /= size;
                }
                // SAFETY: the offset is that of an element of the tensor.
                cast::<T, Complex<f64>>(unsafe { first.offset(offset as isize).read() })
            };
            Ok((0..numel).map(at).collect())
        })
    };
    read().unwrap()
}

fn rounded(value: Complex<f64>, dtype: DType) -> Complex<f64> {
    let round = || -> Result<Complex<f64>> {
        match_dtype!(dtype, "rounded", All, T => Ok(cast::<T, Complex<f64>>(cast::<_, T>(value))))
    };
    round().unwrap()
}

const DTYPES: [DType; 13] = [
    DType::Float32,
    DType::Float64,
    DType::Float16,
    DType::BFloat16,
    DType::Int64,
    DType::Int32,
    DType::Int16,
    DType::Int8,
    DType::UInt8,
    DType::Bool,
    DType::Complex64,
    DType::Complex128,
    DType::Float32,
];

fn shape() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(
        prop_oneof![1 => Just(1i64), 6 => 2..6i64, 1 => 30..70i64, 1 => Just(0i64)],
        0..4,
    )
}

fn init() {
    corten_ops::init();
    corten_cpu::init().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn copies(
        (from, to) in shape().prop_flat_map(|sizes| (layout(sizes.clone()), layout(sizes))),
        a in prop::sample::select(&DTYPES[..]),
        b in prop::sample::select(&DTYPES[..]),
    ) {
        init();
        let (source, target) = (from.tensor(a, 3), to.dense().tensor(b, 5));
        op::copy_(&target, &source, false).unwrap();
        let want: Vec<_> = elements(&source).into_iter().map(|x| rounded(x, b)).collect();
        prop_assert_eq!(elements(&target), want);
    }

    #[test]
    fn sums_of_two(
        (x, y, out) in shape().prop_flat_map(|sizes| {
            (layout(sizes.clone()), layout(sizes.clone()), layout(sizes))
        }),
        dtype in prop::sample::select(&DTYPES[..]),
    ) {
        init();
        let (x, y) = (x.tensor(dtype, 3), y.tensor(dtype, 8));
        let sum = |(a, b): (Complex<f64>, Complex<f64>)| match dtype {
            DType::Bool => Complex::new(f64::from(u8::from(a.re + b.re != 0.0)), 0.0),
            _ => a + b,
        };
        let want: Vec<_> = elements(&x).into_iter().zip(elements(&y)).map(sum).collect();
        let wrapped: Vec<_> = match dtype {
            DType::UInt8 => want.iter().map(|z| Complex::new(z.re.rem_euclid(256.0), 0.0)).collect(),
            _ => want,
        };
        let fresh = op::add_tensor(&x, &y, Scalar::Int(1)).unwrap();
        prop_assert_eq!(&elements(&fresh), &wrapped);
        let target = out.dense().tensor(dtype, 1);
        op::add_out(&x, &y, Scalar::Int(1), &target).unwrap();
        prop_assert_eq!(&elements(&target), &wrapped);
    }

    #[test]
    fn comparisons(
        (x, y) in shape().prop_flat_map(|sizes| (layout(sizes.clone()), layout(sizes))),
        dtype in prop::sample::select(&DTYPES[..10]),
    ) {
        init();
        let (x, y) = (x.tensor(dtype, 3), y.tensor(dtype, 4));
        let less = op::lt_tensor(&x, &y).unwrap();
        let want = elements(&x).into_iter().zip(elements(&y)).map(|(a, b)| a.re < b.re);
        let got: Vec<bool> = elements(&less).into_iter().map(|z| z.re == 1.0).collect();
        prop_assert_eq!(got, want.collect::<Vec<_>>());
    }

    #[test]
    fn reductions(
        x in shape().prop_flat_map(layout),
        dtype in prop::sample::select(&DTYPES[..10]),
        mask in 0u32..16,
    ) {
        init();
        let x = x.tensor(dtype, 3);
        let sizes = x.sizes();
        let dims: Vec<i64> = (0..sizes.len() as i64).filter(|dim| mask & (1 << dim) != 0).collect();
        prop_assume!(!dims.is_empty());
        let kept: Vec<usize> = (0..sizes.len()).filter(|dim| !dims.contains(&(*dim as i64))).collect();
        let count: i64 = kept.iter().map(|&dim| sizes[dim]).product();
        let mut sums = vec![0.0; count as usize];
        let mut greatest = vec![f64::NEG_INFINITY; count as usize];
        for (i, value) in elements(&x).into_iter().enumerate() {
            let mut rest = i as i64;
            let mut index = vec![0; sizes.len()];
            for dim in (0..sizes.len()).rev() {
                index[dim] = rest % sizes[dim];
                rest /= sizes[dim];
            }
            let place = kept.iter().fold(0, |place, &dim| place * sizes[dim] + index[dim]) as usize;
            sums[place] += value.re;
            greatest[place] = greatest[place].max(value.re);
        }
        let sum = op::sum_dim_intlist(&x, Some(&dims), false, None).unwrap();
        for (got, want) in elements(&sum).into_iter().zip(sums) {
            let allowed = if dtype.is_reduced_float() { 0.02 * want.abs() + 0.3 } else { 1e-4 };
            prop_assert!((got.re - want).abs() <= allowed, "{} {}", got.re, want);
        }
        if x.numel() > 0 {
            let amax = op::amax(&x, &dims, false).unwrap();
            let got: Vec<f64> = elements(&amax).into_iter().map(|z| z.re).collect();
            prop_assert_eq!(got, greatest);
        }
    }
}

/// Rows that lie far from each other are read side by side, near ones one after the other.
#[test]
fn columns_of_long_rows_are_those_of_short_ones() {
    init();
    let columns = 50_003;
    for rows in [3, 8, 9, 25, 33] {
        let values = |i: i64| ((i * 7919) % 1013) as f64 / 8.0 - 50.0;
        let flat = filled(DType::Float32, rows * columns, values);
        let x = op::view(&flat, &[rows, columns]).unwrap();
        let all = [
            op::sum_dim_intlist(&x, Some(&[0]), false, None).unwrap(),
            op::amax(&x, &[0], false).unwrap(),
            op::max_dim(&x, 0, false).unwrap().1,
        ];
        for start in [0, 64, 2047, 30_000, columns - 100] {
            let part = op::narrow(&x, 1, start, 100).unwrap();
            let part = op::contiguous(&part, corten_core::MemoryFormat::Contiguous).unwrap();
            let each = [
                op::sum_dim_intlist(&part, Some(&[0]), false, None).unwrap(),
                op::amax(&part, &[0], false).unwrap(),
                op::max_dim(&part, 0, false).unwrap().1,
            ];
            for (all, each) in all.iter().zip(&each) {
                let all = elements(&op::narrow(all, 0, start, 100).unwrap());
                assert_eq!(all, elements(each), "{rows} rows, column {start}");
            }
        }
    }
}

/// Slices are written by the threads that they belong to, each in the order of the index.
#[test]
fn threads_add_slices_by_index_as_one_thread_does() {
    init();
    let threads = corten_ops::parallel::num_threads();
    let [batches, rows, picks, cols] = [3, 50, 400, 40];
    let part = |numel: i64, sizes: &[i64]| {
        let flat = filled(DType::Float32, numel, |i| 1.0 / (1 + (i * 7919) % 1013) as f64);
        op::view(&flat, sizes).unwrap()
    };
    let source = part(batches * picks * cols, &[batches, picks, cols]);
    let index = filled(DType::Int64, picks, |i| ((i * i * 31) % rows) as f64);
    let target = part(batches * rows * cols, &[batches, rows, cols]);
    let sums = [1, 4].map(|threads| {
        corten_ops::parallel::set_num_threads(threads);
        elements(&op::index_add(&target, 1, &index, &source, Scalar::Int(1)).unwrap())
    });
    corten_ops::parallel::set_num_threads(threads);
    assert_eq!(sums[0], sums[1]);
}
