//! The `out=` forms of the operators that pick elements.

use crate::numbers::small;
use crate::sample::{Layout, Number, Sample, call, cases, distinct, elements, layout, shape};
use corten_core::DType;
use corten_ops::IValue;
use proptest::prelude::*;

/// An operator that picks elements; the form with `out=` has the same arguments and one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    Gather,
    IndexSelect,
    Take,
    MaskedSelect,
    Nonzero,
    Index,
}

impl Pick {
    const ALL: [Self; 6] = [
        Self::Gather,
        Self::IndexSelect,
        Self::Take,
        Self::MaskedSelect,
        Self::Nonzero,
        Self::Index,
    ];

    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Gather => ["gather", "gather.out"],
            Self::IndexSelect => ["index_select", "index_select.out"],
            Self::Take => ["take", "take.out"],
            Self::MaskedSelect => ["masked_select", "masked_select.out"],
            Self::Nonzero => ["nonzero", "nonzero.out"],
            Self::Index => ["index.Tensor", "index.Tensor_out"],
        }
    }

    fn result(self, dtype: DType) -> DType {
        if self == Self::Nonzero { DType::Int64 } else { dtype }
    }

    fn arguments(self, x: &Sample) -> Vec<IValue> {
        let zeros = |sizes: &[i64]| {
            Layout::contiguous(sizes).tensor(DType::Int64, |_| Number::default()).argument()
        };
        let mask = |_| x.layout.tensor(DType::Bool, small(DType::Bool));
        let first = x.argument();
        match self {
            Self::Gather => vec![first, IValue::Int(0), zeros(&x.layout.sizes), false.into()],
            Self::IndexSelect => vec![first, IValue::Int(-1), zeros(&[3])],
            Self::Take => vec![first, zeros(&[2, 2])],
            Self::MaskedSelect => vec![first, mask(()).argument()],
            Self::Nonzero => vec![first],
            Self::Index => vec![first, IValue::OptionalTensorList(vec![Some(mask(()).view)])],
        }
    }
}

fn filled(layout: &Layout, dtype: DType) -> Sample {
    layout.tensor(dtype, small(dtype))
}

/// The right shape in any layout, or any shape.
fn out_layout(right: bool, shape: Vec<i64>) -> BoxedStrategy<Layout> {
    match right {
        true => distinct(shape).boxed(),
        false => crate::sample::shape(3).prop_flat_map(distinct).boxed(),
    }
}

fn pick() -> impl Strategy<Value = Pick> {
    prop::sample::select(&Pick::ALL[..])
}

proptest! {
    #![proptest_config(cases(600))]

    /// The elements of the plain form, in the strides that `out` has or, resized, row by row; an
    /// index decides the strides itself.
    #[test]
    fn outputs_hold_what_is_picked(
        pick in pick(),
        (layout, dtype) in (shape(3).prop_flat_map(layout), prop::sample::select(DType::NUMERIC)),
        (right, seed) in (any::<bool>(), any::<u64>()),
    ) {
        let x = filled(&layout, dtype);
        prop_assume!(layout.numel() > 0 && !layout.sizes.is_empty());
        let picked = call(pick.names()[0], pick.arguments(&x)).unwrap();
        let out = sampled(out_layout(right, picked.sizes().to_vec()), seed);
        let out = filled(&out, pick.result(dtype)).resizable();
        let given = *picked.sizes() == out.layout.sizes[..];
        let expected = elements(&picked);
        let memory = given.then(|| out.memory_with(&expected));
        let arguments = pick.arguments(&x).into_iter().chain([out.argument()]);
        call(pick.names()[1], arguments).unwrap();
        prop_assert_eq!(out.view.sizes(), picked.sizes());
        prop_assert_eq!(elements(&out.view), expected);
        let strides = Layout::of(&out.view).strides;
        match memory {
            Some(memory) => {
                prop_assert_eq!(out.memory(), memory);
                prop_assert_eq!(strides, out.layout.strides);
            }
            None if pick == Pick::Index => prop_assert_eq!(strides, picked.strides().to_vec()),
            None => prop_assert_eq!(strides, Layout::contiguous(&picked.sizes()).strides),
        }
    }

    /// Another dtype is refused, as is an output whose elements are one element.
    #[test]
    fn outputs_are_checked(
        pick in pick(),
        layout in shape(3).prop_flat_map(layout),
        other in any::<bool>(),
    ) {
        prop_assume!(layout.numel() > 0 && !layout.sizes.is_empty());
        let x = filled(&layout, DType::Float32);
        let picked = call(pick.names()[0], pick.arguments(&x)).unwrap();
        prop_assume!(other || picked.numel() > 1);
        let dtype = if other { DType::Float64 } else { pick.result(DType::Float32) };
        let mut shared = Layout::contiguous(&picked.sizes());
        if !other {
            shared.strides.fill(0);
        }
        let out = filled(&shared, dtype);
        let before = out.memory();
        let arguments = pick.arguments(&x).into_iter().chain([out.argument()]);
        prop_assert!(call(pick.names()[1], arguments).is_err());
        prop_assert_eq!(out.memory(), before);
    }

    /// What is picked may not be written where it comes from.
    #[test]
    fn outputs_may_not_overlap(pick in pick(), sizes in shape(3)) {
        let layout = Layout::contiguous(&sizes);
        let x = filled(&layout, DType::Int64);
        prop_assume!(layout.numel() > 0 && !sizes.is_empty());
        let picked = call(pick.names()[0], pick.arguments(&x)).unwrap();
        let out = Layout::contiguous(&picked.sizes());
        prop_assume!((1..=layout.numel()).contains(&out.numel()));
        let out = x.sibling(&out);
        let before = x.memory();
        let arguments = pick.arguments(&x).into_iter().chain([out.argument()]);
        prop_assert!(call(pick.names()[1], arguments).is_err());
        prop_assert_eq!(x.memory(), before);
    }
}

/// A value of a strategy that depends on results.
fn sampled<T: std::fmt::Debug>(strategy: BoxedStrategy<T>, seed: u64) -> T {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{RngSeed, TestRunner};
    let config = ProptestConfig { rng_seed: RngSeed::Fixed(seed), ..ProptestConfig::default() };
    strategy.new_tree(&mut TestRunner::new(config)).unwrap().current()
}
