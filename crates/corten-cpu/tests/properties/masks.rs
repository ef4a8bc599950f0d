//! Masks: `masked_fill`, `masked_select`, `masked_scatter` and `nonzero`.

use crate::numbers::{small, stored};
use crate::sample::{
    Layout, Number, Sample, call, cases, distinct, elements, layout, part_of, read, shape,
};
use crate::selection::{broadcast, true_places};
use corten_core::DType;
use corten_ops::IValue;
use proptest::prelude::*;

fn filled(layout: &Layout, dtype: DType) -> Sample {
    layout.tensor(dtype, small(dtype))
}

/// The elements in a broadcast shape.
fn seen(sample: &Sample, shape: &[i64]) -> Vec<Number> {
    read(&sample.memory(), &sample.layout.broadcast(shape))
}

fn is_true(value: &Number) -> bool {
    value.re == 1.0
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::NUMERIC)
}

/// A target and a mask that broadcasts to its shape.
fn target_and_mask() -> impl Strategy<Value = (Layout, Layout)> {
    shape(4).prop_flat_map(|shape| (distinct(shape.clone()), part_of(shape).prop_flat_map(layout)))
}

proptest! {
    #![proptest_config(cases(800))]

    /// Where elements overlap, a place is filled if the mask is true for one of them.
    #[test]
    fn masked_fill(
        (target, mask) in shape(4).prop_flat_map(|shape| {
            (layout(shape.clone()), part_of(shape).prop_flat_map(layout))
        }),
        dtype in dtype(),
        number in 0..100_i64,
        as_tensor in any::<bool>(),
    ) {
        let (target, mask) = (filled(&target, dtype), filled(&mask, DType::Bool));
        let value = stored(Number::new(number as f64, 0.0), dtype);
        let chosen = seen(&mask, &target.layout.sizes);
        let mut expected = target.memory();
        let places = target.layout.positions().into_iter().zip(&chosen);
        places.filter(|(_, chosen)| is_true(chosen)).for_each(|(at, _)| expected[at] = value);
        let scalar = Layout::contiguous(&[]).tensor(dtype, |_| value);
        let (name, value) = match as_tensor {
            true => ("masked_fill_.Tensor", scalar.argument()),
            false => ("masked_fill_.Scalar", IValue::Int(number)),
        };
        call(name, [target.argument(), mask.argument(), value]).unwrap();
        prop_assert_eq!(target.memory(), expected);
    }

    /// Tensor and mask broadcast with each other.
    #[test]
    fn masked_select(
        (x, mask) in shape(4).prop_flat_map(|shape| {
            (part_of(shape.clone()).prop_flat_map(layout), part_of(shape).prop_flat_map(layout))
        }),
        dtype in dtype(),
    ) {
        let (x, mask) = (filled(&x, dtype), filled(&mask, DType::Bool));
        let shape = broadcast(&[&x.layout.sizes, &mask.layout.sizes]).unwrap();
        let pairs = seen(&x, &shape).into_iter().zip(seen(&mask, &shape));
        let expected: Vec<Number> =
            pairs.filter(|(_, chosen)| is_true(chosen)).map(|(value, _)| value).collect();
        let result = call("masked_select", [x.argument(), mask.argument()]).unwrap();
        prop_assert_eq!(result.sizes().to_vec(), vec![expected.len() as i64]);
        prop_assert_eq!(elements(&result), expected);
    }

    /// Too few elements to write are an error that changes nothing.
    #[test]
    fn masked_scatter(
        (target, mask) in target_and_mask(),
        source in shape(4).prop_flat_map(layout),
        dtype in dtype(),
    ) {
        let (target, mask) = (filled(&target, dtype), filled(&mask, DType::Bool));
        let source = filled(&source, dtype);
        let chosen = seen(&mask, &target.layout.sizes);
        let enough = chosen.iter().filter(|chosen| is_true(chosen)).count() <= source.layout.numel();
        let mut new = source.values().into_iter();
        let expected = target.values().into_iter().zip(&chosen).map(|(old, chosen)| {
            if is_true(chosen) { new.next().unwrap_or(old) } else { old }
        });
        let expected = target.memory_with(&expected.collect::<Vec<_>>());
        let before = target.memory();
        let arguments = [target.argument(), mask.argument(), source.argument()];
        prop_assert_eq!(call("masked_scatter_", arguments).is_ok(), enough);
        prop_assert_eq!(target.memory(), if enough { expected } else { before });
    }

    #[test]
    fn nonzero(x in shape(5).prop_flat_map(layout), dtype in dtype()) {
        let x = filled(&x, dtype);
        let places = true_places(&x.layout.sizes, &x.values());
        let count = x.values().iter().filter(|value| **value != Number::default()).count();
        let rows = (0..count).flat_map(|row| places.iter().map(move |column| column[row]));
        let expected: Vec<Number> = rows.map(|at| Number::new(at as f64, 0.0)).collect();
        let result = call("nonzero", [x.argument()]).unwrap();
        prop_assert_eq!(result.dtype(), DType::Int64);
        prop_assert_eq!(result.sizes().to_vec(), vec![count as i64, places.len() as i64]);
        prop_assert_eq!(elements(&result), expected);
    }
}
