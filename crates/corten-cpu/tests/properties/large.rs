//! The same walks where they are long enough to be split over threads.

use crate::elementwise::{Input, Op, check, input, samples};
use crate::numbers::DTYPES;
use crate::reductions::{Case, Reduction};
use crate::sample::{cases, layout};
use proptest::collection::vec;
use proptest::prelude::*;

/// Shapes with more elements than the 32 768 from which on a walk is split.
fn shape() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        Just(vec![33_000]),
        Just(vec![181, 190]),
        Just(vec![3, 11_003]),
        Just(vec![11_003, 3]),
        Just(vec![2, 5, 47, 71]),
        Just(vec![16_500, 1, 2]),
    ]
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    shape().prop_flat_map(|shape| vec(input(shape), 3))
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn elementwise(
        op in prop::sample::select(&Op::ALL[..]),
        inputs in inputs(),
        one_dtype in any::<bool>(),
    ) {
        check(op, &samples(op, &inputs, one_dtype))?;
    }

    #[test]
    fn reductions(
        reduction in prop::sample::select(&Reduction::ALL[..]),
        layout in shape().prop_flat_map(layout),
        dtype in prop::sample::select(&DTYPES[..]),
        mask in 0..16_u32,
        keep in any::<bool>(),
    ) {
        Case::new(reduction, (&layout, dtype), mask, keep).check()?;
    }
}
