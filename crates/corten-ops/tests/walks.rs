//! The walk against a naive twin.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use corten_core::{DType, Device, Reader, Result, TensorBase, TensorOptions};
use corten_ops::iter::{TensorIterator, TensorIteratorConfig};
use corten_ops::meta::Reduce;
use corten_ops::{Tensor, op};
use proptest::prelude::*;

/// Shape of one operand: for each dimension of the broadcast shape, how it takes part.
#[derive(Clone, Debug)]
struct Plan {
    /// Number of leading dimensions left out.
    skip: usize,
    /// Dimensions of size 1.
    ones: Vec<bool>,
    /// Order of dimensions in memory.
    order: Vec<usize>,
    /// Distance between elements in memory; negative for reversed.
    steps: Vec<i64>,
}

fn plan(rank: usize) -> impl Strategy<Value = Plan> {
    (
        0..=rank,
        prop::collection::vec(prop::bool::weighted(0.2), rank),
        Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        prop::collection::vec(prop::sample::select(vec![1_i64, 1, 1, 2, -1]), rank),
        prop::bool::weighted(0.7),
    )
        .prop_map(|(skip, ones, order, steps, whole)| Plan {
            skip: if whole { 0 } else { skip },
            ones,
            order,
            steps,
        })
}

/// A tensor of i64 with distinct values, laid out as planned.
fn operand(shape: &[i64], plan: &Plan, salt: i64) -> Tensor {
    let size = |d: usize| if plan.ones[d] { 1 } else { shape[d] };
    let (mut stride, mut offset) = (1, 0);
    let mut strides = vec![0; shape.len()];
    for &d in plan.order.iter().rev() {
        let room = size(d) * plan.steps[d].abs();
        strides[d] = stride * plan.steps[d];
        if plan.steps[d] < 0 {
            offset += (size(d) - 1).max(0) * stride;
        }
        stride *= room.max(1);
    }
    let values: Vec<i64> = (0..stride.max(1)).map(|i| i * 7 + salt).collect();
    let flat = Tensor::from_vec(values, &[stride.max(1)]).unwrap();
    let sizes: Vec<i64> = (plan.skip..shape.len()).map(size).collect();
    flat.as_view_of(&sizes, &strides[plan.skip..], offset).unwrap().into()
}

/// One element, found by its index alone.
fn element(tensor: &Tensor, index: &[i64]) -> i64 {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let own = &index[index.len() - sizes.len()..];
    let place =
        |((&i, &size), &stride): ((&i64, &i64), &i64)| if size == 1 { 0 } else { i * stride };
    let offset: i64 = own.iter().zip(&sizes).zip(&strides).map(place).sum();
    let one = tensor.as_view_of(&[], &[], tensor.storage_offset() + offset).unwrap();
    Reader::<i64>::new(&one).unwrap()[0]
}

fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &size in shape {
        all = all.iter().flat_map(|i| (0..size).map(move |k| [&i[..], &[k]].concat())).collect();
    }
    all
}

/// `out = a + 1000 * b`.
fn combine(iter: &mut TensorIterator, grain: i64) {
    iter.for_each(
        |pointers, strides, n0, n1| {
            for j in 0..n1 {
                for i in 0..n0 {
                    let at = |k: usize| {
                        let offset = i * strides[k] + j * strides[3 + k];
                        pointers[k].wrapping_offset(offset as isize).cast::<i64>()
                    };
                    // SAFETY: the iterator vouches for these elements.
                    unsafe { at(0).write(at(1).read() + 1000 * at(2).read()) };
                }
            }
        },
        grain,
    )
    .unwrap();
}

fn broadcast(a: &Tensor, b: &Tensor) -> Vec<i64> {
    corten_core::geometry::infer_broadcast(&a.sizes(), &b.sizes()).unwrap().to_vec()
}

fn check_walk(shape: &[i64], a: &Plan, b: &Plan, linear: bool) {
    let (a, b) = (operand(shape, a, 3), operand(shape, b, 11));
    let mut iter = TensorIteratorConfig::binary()
        .enforce_linear_iteration(linear)
        .add_output(None)
        .add_input(&a)
        .add_input(&b)
        .build()
        .unwrap();
    combine(&mut iter, 3);
    iter.finish().unwrap();
    let out = iter.into_output(0);
    assert_eq!(out.sizes().as_slice(), broadcast(&a, &b));
    for index in indices(&out.sizes()) {
        assert_eq!(element(&out, &index), element(&a, &index) + 1000 * element(&b, &index));
    }
}

fn shape_and_plans() -> impl Strategy<Value = (Vec<i64>, Plan, Plan)> {
    prop::collection::vec(prop::sample::select(vec![1_i64, 2, 3, 4, 0]), 0..5).prop_flat_map(
        |shape| {
            let rank = shape.len();
            (Just(shape), plan(rank), plan(rank))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_element_is_visited_once((shape, a, b) in shape_and_plans(), linear in any::<bool>()) {
        check_walk(&shape, &a, &b, linear);
    }

    #[test]
    fn ranges_make_up_the_walk((shape, a, b) in shape_and_plans(), cut in 0.0..1.0_f64) {
        let (a, b) = (operand(&shape, &a, 3), operand(&shape, &b, 11));
        let config = TensorIteratorConfig::binary().add_output(None).add_input(&a).add_input(&b);
        let mut iter = config.build().unwrap();
        let (numel, mut seen) = (iter.numel(), vec![]);
        let cut = (cut * numel as f64) as i64;
        for range in [0..cut, cut..numel] {
            let visit = |pointers: &[*mut u8], strides: &[i64], n0: i64, n1: i64| {
                for j in 0..n1 {
                    for i in 0..n0 {
                        let offset = i * strides[0] + j * strides[3];
                        seen.push(pointers[0].wrapping_offset(offset as isize).addr());
                    }
                }
            };
            iter.serial_for_each(visit, range).unwrap();
        }
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len() as i64, numel);
    }

    #[test]
    fn reductions_in_order_are_planned_as_others(
        shape in prop::collection::vec(0_i64..4, 0..6), mask in 0_u32..64, keepdim: bool
    ) {
        let input: Tensor = TensorBase::empty(&shape, DType::Int64).unwrap().into();
        let dims: Vec<i64> = (0..shape.len()).filter(|d| mask >> d & 1 != 0).map(|d| d as i64).collect();
        let reduce = Reduce::over(&input, Some(&dims), keepdim).unwrap();
        let outputs = [(None, DType::Int64), (None, DType::Bool)];
        let (short, long) = (reduce.plan(&outputs).unwrap(), reduce.plan_broadcast(&outputs).unwrap());
        prop_assert_eq!(short.numel(), long.numel());
        prop_assert_eq!(short.shape(), long.shape());
        prop_assert_eq!(short.num_reduce_dims(), long.num_reduce_dims());
        prop_assert_eq!(short.common_dtype(), long.common_dtype());
        for i in 0..3 {
            prop_assert_eq!(short.strides(i), long.strides(i));
            prop_assert_eq!(short.dtype(i), long.dtype(i));
        }
        for i in 0..2 {
            prop_assert_eq!(short.output(i).sizes(), long.output(i).sizes());
            prop_assert_eq!(short.output(i).strides(), long.output(i).strides());
        }
    }

    #[test]
    fn reductions_fold_every_slice((shape, a, _b) in shape_and_plans(), mask in 0_u32..32) {
        let input = operand(&shape, &Plan { skip: 0, ..a }, 3);
        let dims: Vec<i64> = (0..shape.len()).filter(|d| mask >> d & 1 != 0).map(|d| d as i64).collect();
        let sizes = input.sizes();
        let reduce = Reduce::over(&input, Some(&dims), false).unwrap();
        let mut iter = reduce.plan(&[(None, DType::Int64)]).unwrap();
        iter.for_each_reduced(|pointers, slice| {
            let mut sum = 0;
            slice.rows(pointers[1], |first, stride, n| {
                for i in 0..n {
                    // SAFETY: the slice vouches for these elements.
                    sum += unsafe { first.wrapping_offset((i * stride) as isize).cast::<i64>().read() };
                }
            })?;
            // SAFETY: the address of the one element of the output.
            unsafe { pointers[0].cast::<i64>().write(sum) };
            Ok(())
        }).unwrap();
        let out = iter.into_output(0);
        let kept = |d: &usize| !dims.contains(&(*d as i64));
        for index in indices(&out.sizes()) {
            let matches = |full: &&Vec<i64>| (0..sizes.len()).filter(kept).map(|d| full[d]).eq(index.iter().copied());
            let sum: i64 = indices(&sizes).iter().filter(matches).map(|full| element(&input, full)).sum();
            prop_assert_eq!(element(&out, &index), sum);
        }
    }
}

fn meta(sizes: &[i64], strides: &[i64]) -> Tensor {
    let options = TensorOptions::new().device(Device::META);
    TensorBase::empty_strided(sizes, strides, options).unwrap().into()
}

#[test]
fn large_walks_split_for_32_bit_offsets() {
    let (a, b) = (meta(&[1 << 16, 1 << 17], &[1 << 17, 1]), meta(&[1 << 17], &[1]));
    let config = TensorIteratorConfig::binary().add_output(None).add_input(&a).add_input(&b);
    let iter = config.build().unwrap();
    assert!(!iter.can_use_32bit_indexing());
    let parts = iter.parts_32bit();
    assert!(parts.len() > 1 && parts.iter().all(TensorIterator::can_use_32bit_indexing));
    assert_eq!(parts.iter().map(TensorIterator::numel).sum::<i64>(), 1 << 33);
}

#[test]
fn parts_take_access_unless_the_whole_has_it() {
    for held in [false, true] {
        let source: Tensor = TensorBase::empty(&[8], DType::Int64).unwrap().into();
        let config = TensorIteratorConfig::unary().add_output(None).add_input(&source);
        let mut second = config.build().unwrap();
        if held {
            second.acquire().unwrap();
        }
        let mut first = second.split(0);
        let start = source.data_ptr().addr();
        assert_eq!(first.pointers().unwrap()[1].addr(), start);
        drop(first);
        assert_eq!(second.pointers().unwrap()[1].addr(), start + 4 * 8);
    }
}

#[test]
fn a_reduction_split_along_a_reduced_dim_accumulates() {
    let input = meta(&[1 << 17, 1 << 16], &[1 << 16, 1]);
    let reduce = Reduce::over(&input, None, false).unwrap();
    let iter = reduce.plan(&[(None, DType::Float32)]).unwrap();
    let parts = iter.parts_32bit();
    let last = parts.len() - 1;
    for (i, part) in parts.iter().enumerate() {
        assert_eq!(part.is_final_output(), i == last);
        assert_eq!(part.should_accumulate(), i > 0);
    }
}

#[test]
fn errors_are_in_the_words_of_pytorch() {
    let (a, b) = (meta(&[2], &[1]), meta(&[3], &[1]));
    let build =
        |config: TensorIteratorConfig| config.build().map(drop).unwrap_err().message().to_owned();
    let binary = TensorIteratorConfig::binary;
    assert_eq!(
        build(binary().add_output(None).add_input(&a).add_input(&b)),
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    );
    let matrix = meta(&[2, 2], &[2, 1]);
    assert_eq!(
        build(binary().add_output(Some(&a)).add_input(&a).add_input(&matrix)),
        "output with shape [2] doesn't match the broadcast shape [2, 2]"
    );
    let expanded = meta(&[3], &[0]);
    assert_eq!(
        build(binary().add_output(Some(&expanded)).add_input(&expanded).add_input(&b)),
        "unsupported operation: more than one element of the written-to tensor refers to a single \
         memory location. Please clone() the tensor before performing the operation."
    );
    let ints: Tensor =
        TensorBase::empty(&[2], TensorOptions::new().device(Device::META).dtype(DType::Int32))
            .unwrap()
            .into();
    assert_eq!(
        build(binary().add_output(Some(&ints)).add_input(&a).add_input(&a)),
        "result type Float can't be cast to the desired output type Int"
    );
    assert_eq!(
        build(TensorIteratorConfig::unary().add_output(Some(&ints)).add_input(&a)),
        "Found dtype Int but expected Float"
    );
}

#[test]
fn a_tensor_that_changed_after_planning_is_refused() {
    let tensor = |count: i64| Tensor::from(TensorBase::empty(&[count], DType::Int64).unwrap());
    let run = |iter: &mut TensorIterator| iter.for_each(|_, _, _, _| (), 1 << 15);
    let (x, out) = (tensor(1000), tensor(1000));
    let plan = || {
        let config = TensorIteratorConfig::new().add_output(Some(&out)).add_input(&x);
        config.build().unwrap()
    };
    let (mut unchanged, mut changed) = (plan(), plan());
    run(&mut unchanged).unwrap();
    drop(unchanged);
    x.base().set_data(tensor(10).base()).unwrap();
    let error = run(&mut changed).unwrap_err();
    assert!(error.to_string().contains("another shape or storage"), "{error}");
}

fn buffer() -> Result<Tensor> {
    Ok(TensorBase::empty(&[64], DType::Float32)?.into())
}

fn view(base: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Tensor> {
    corten_ops::init();
    op::as_strided(base, sizes, strides, Some(offset))
}

fn independent(out: &Tensor, input: &Tensor) -> Result<bool> {
    let config = TensorIteratorConfig::default().resize_outputs(false);
    let iter = config.add_output(Some(out)).add_input(input).build()?;
    Ok(iter.parts_are_independent())
}

#[test]
fn walks_that_touch_themselves_are_found() -> Result<()> {
    let (base, other) = (buffer()?, buffer()?);
    let of = |sizes: &[i64], strides: &[i64], offset| view(&base, sizes, strides, offset);
    let square = of(&[4, 4], &[4, 1], 0)?;
    assert!(independent(&square, &view(&other, &[4, 4], &[4, 1], 0)?)?);
    assert!(independent(&square, &square)?);
    assert!(independent(&square, &of(&[4, 4], &[4, 1], 16)?)?);
    let spaced = of(&[4, 4], &[8, 2], 0)?;
    assert!(independent(&spaced, &of(&[4, 4], &[8, 2], 0)?)?);
    assert!(!independent(&spaced, &of(&[4, 4], &[2, 8], 0)?)?);
    assert!(!independent(&spaced, &of(&[4, 4], &[8, 2], 8)?)?);
    let rows_meet = of(&[4, 4], &[3, 1], 0)?;
    assert!(!independent(&rows_meet, &view(&other, &[4, 4], &[4, 1], 0)?)?);
    Ok(())
}
