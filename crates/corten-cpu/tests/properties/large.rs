//! The same walks with rows longer than vectors and tiles, and long enough to be split over
//! threads.

use crate::casts::check_copy;
use crate::elementwise::{Input, Op, check, input, samples};
use crate::numbers::DTYPES;
use crate::reductions::{Case, Reduction};
use crate::sample::{Layout, cases, distinct, layout, part_of};
use corten_core::DType;
use proptest::collection::vec;
use proptest::prelude::*;

/// Shapes with rows that have whole vectors and a rest.
fn wide() -> impl Strategy<Value = Vec<i64>> {
    let size = prop_oneof![1 => Just(1_i64), 2 => 2..6_i64, 5 => 15..36_i64, 2 => 250..300_i64];
    vec(size, 1..4).prop_map(|mut sizes| {
        let mut numel = 1;
        for size in &mut sizes {
            *size = if numel * *size > 3000 { 2 } else { *size };
            numel *= *size;
        }
        sizes
    })
}

/// Shapes with more elements than the 32 768 from which on a walk is split.
fn long() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        Just(vec![33_000]),
        Just(vec![181, 190]),
        Just(vec![3, 11_003]),
        Just(vec![11_003, 3]),
        Just(vec![2, 5, 47, 71]),
        Just(vec![16_500, 1, 2]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop::sample::select(&Op::ALL[..])
}

fn inputs(shape: impl Strategy<Value = Vec<i64>>) -> impl Strategy<Value = Vec<Input>> {
    shape.prop_flat_map(|shape| vec(input(shape), 3))
}

/// A reduction and whether it keeps its dimensions.
fn reduction() -> impl Strategy<Value = (Reduction, DType, u32, bool)> {
    let reduction = prop::sample::select(&Reduction::ALL[..]);
    (reduction, prop::sample::select(&DTYPES[..]), 0..16_u32, any::<bool>())
}

/// Two views of a shape, of which the second is read, with their dtypes.
fn copy(
    shape: impl Strategy<Value = Vec<i64>>,
) -> impl Strategy<Value = ((Layout, Layout), [DType; 2], u64)> {
    let layouts = shape
        .prop_flat_map(|shape| (distinct(shape.clone()), part_of(shape).prop_flat_map(layout)));
    let dtypes = (prop::sample::select(DType::NUMERIC), prop::sample::select(DType::NUMERIC));
    (layouts, dtypes, any::<bool>(), any::<u64>()).prop_map(
        |(layouts, (to, from), convert, seed)| {
            (layouts, [to, if convert { from } else { to }], seed)
        },
    )
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn wide_elementwise(op in op(), inputs in inputs(wide()), one_dtype in any::<bool>()) {
        check(op, &samples(op, &inputs, one_dtype))?;
    }

    #[test]
    fn wide_reductions(
        (reduction, dtype, mask, keep) in reduction(),
        layout in wide().prop_flat_map(layout),
    ) {
        Case::new(reduction, (&layout, dtype), mask, keep).check()?;
    }

    #[test]
    fn wide_copies(((target, source), [to, from], seed) in copy(wide())) {
        check_copy((&target, to), (&source, from), seed)?;
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn long_elementwise(op in op(), inputs in inputs(long()), one_dtype in any::<bool>()) {
        check(op, &samples(op, &inputs, one_dtype))?;
    }

    #[test]
    fn long_reductions(
        (reduction, dtype, mask, keep) in reduction(),
        layout in long().prop_flat_map(layout),
    ) {
        Case::new(reduction, (&layout, dtype), mask, keep).check()?;
    }

    #[test]
    fn long_copies(((target, source), [to, from], seed) in copy(long())) {
        check_copy((&target, to), (&source, from), seed)?;
    }
}
