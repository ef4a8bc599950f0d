//! `TensorIterator`: writing to tensors that exist.

use crate::elementwise::{Input, Op, arguments, broadcast_shape, input, samples};
use crate::numbers::{DTYPES, category, small, stored};
use crate::sample::{
    Layout, Number, Sample, call, cases, distinct, elements, layout, part_of, shape,
};
use crate::strides;
use corten_core::DType;
use corten_ops::IValue;
use proptest::collection::vec;
use proptest::prelude::*;

/// Whether a result of one dtype may be written to a tensor of another: not to a lower category.
/// Integers and floats may lose bits.
fn can_cast(from: DType, to: DType) -> bool {
    category(from) <= category(to)
}

/// Operators that can write to their first input.
const IN_PLACE: [Op; 5] = [Op::Neg, Op::Add, Op::Mul, Op::Eq, Op::Addcmul];

fn filled(layout: &Layout, dtype: DType) -> Sample {
    layout.tensor(dtype, small(dtype))
}

fn written(values: Vec<Number>, dtype: DType) -> Vec<Number> {
    values.into_iter().map(|value| stored(value, dtype)).collect()
}

/// The common dtype if the result fits the given output. Comparisons fit everywhere; `neg` and
/// `where` do not convert.
fn fits(op: Op, common: Option<DType>, out: DType) -> Option<DType> {
    common.filter(|common| match op {
        Op::Eq => true,
        Op::Neg | Op::Where => *common == out,
        _ => can_cast(*common, out),
    })
}

type Written = (Layout, DType);

fn target(shape: Vec<i64>) -> impl Strategy<Value = Written> {
    (distinct(shape), prop::sample::select(&DTYPES[..]))
}

/// A tensor to write to and the inputs that broadcast to its shape.
fn target_and_inputs() -> impl Strategy<Value = (Written, Vec<Input>)> {
    shape(5).prop_flat_map(|shape| (target(shape.clone()), vec(input(shape), 3)))
}

proptest! {
    #![proptest_config(cases(600))]

    /// `a.add_(b)` writes to the elements of `a` and nowhere else, or fails and writes nothing.
    #[test]
    fn in_place(
        op in prop::sample::select(&IN_PLACE[..]),
        ((layout, dtype), inputs) in target_and_inputs(),
        one_dtype in any::<bool>(),
    ) {
        let mut inputs = inputs;
        inputs[0] = (layout, dtype);
        let inputs = samples(op, &inputs, one_dtype);
        let target = &inputs[0];
        let common = fits(op, op.common(&inputs), target.dtype());
        let expected = common.map(|common| {
            let values = op.twin(common, &inputs, &target.layout.sizes);
            target.memory_with(&written(values, target.dtype()))
        });
        let before = target.memory();
        let result = call(op.names()[2], arguments(&inputs, op));
        prop_assert_eq!(result.is_ok(), expected.is_some());
        prop_assert_eq!(target.memory(), expected.unwrap_or(before));
        prop_assert_eq!(Layout::of(&target.view).strides, target.layout.strides.clone());
    }

    /// `out=` of the right shape keeps its strides, whatever they are.
    #[test]
    fn given_outputs(
        op in prop::sample::select(&Op::ALL[..]),
        ((layout, dtype), inputs) in target_and_inputs(),
        one_dtype in any::<bool>(),
    ) {
        let inputs = samples(op, &inputs, one_dtype);
        let out = filled(&layout, if one_dtype { inputs[inputs.len() - 1].dtype() } else { dtype });
        let shape = broadcast_shape(&inputs);
        prop_assume!(shape == layout.sizes);
        let expected = fits(op, op.common(&inputs), out.dtype()).map(|common| {
            out.memory_with(&written(op.twin(common, &inputs, &shape), out.dtype()))
        });
        let before = out.memory();
        let arguments = arguments(&inputs, op).into_iter().chain([out.argument()]);
        let result = call(op.names()[1], arguments);
        prop_assert_eq!(result.is_ok(), expected.is_some());
        prop_assert_eq!(out.memory(), expected.unwrap_or(before));
    }

    /// `out=` of another shape is resized and gets the strides of a fresh result.
    #[test]
    fn resized_outputs(
        op in prop::sample::select(&Op::ALL[..]),
        inputs in shape(5).prop_flat_map(|shape| vec(input(shape), 3)),
        (layout, dtype) in shape(3).prop_flat_map(target),
        one_dtype in any::<bool>(),
    ) {
        let inputs = samples(op, &inputs, one_dtype);
        let out = filled(&layout, if one_dtype { inputs[inputs.len() - 1].dtype() } else { dtype }).resizable();
        let shape = broadcast_shape(&inputs);
        prop_assume!(shape != layout.sizes);
        let arguments = arguments(&inputs, op).into_iter().chain([out.argument()]);
        let result = call(op.names()[1], arguments);
        let Some(common) = fits(op, op.common(&inputs), out.dtype()) else {
            prop_assert!(result.is_err());
            // Whether an operator knows the dtype at all is found out later.
            let refused = op.common(&inputs).is_some();
            prop_assert!(!refused || Layout::of(&out.view).sizes == layout.sizes);
            return Ok(());
        };
        result.unwrap();
        prop_assert_eq!(out.view.sizes().to_vec(), shape.clone());
        let expected = strides::of_result(&shape, &op.layouts(common, &inputs));
        prop_assert_eq!(out.view.strides().to_vec(), expected);
        let values = written(op.twin(common, &inputs, &shape), out.dtype());
        prop_assert_eq!(elements(&out.view), values);
    }

    /// An output whose elements are one element is refused.
    #[test]
    fn expanded_outputs_are_refused(
        layout in shape(4).prop_flat_map(layout),
    ) {
        prop_assume!(layout.numel() > 1);
        let mut shared = layout.clone();
        let dim = layout.sizes.iter().position(|size| *size > 1).unwrap();
        shared.strides[dim] = 0;
        let (x, out) = (filled(&layout, DType::Int32), filled(&shared, DType::Int32));
        let before = out.memory();
        let inputs = [x.argument(), x.argument(), IValue::Int(1), out.argument()];
        prop_assert!(call("add.out", inputs).is_err());
        let itself = [out.argument(), x.argument(), IValue::Int(1)];
        prop_assert!(call("add_.Tensor", itself).is_err());
        prop_assert_eq!(out.memory(), before);
    }

    /// A dense output may be a dense input of the same layout, but not overlap it in part.
    #[test]
    fn outputs_overlap_inputs_wholly_or_not(
        sizes in shape(3),
        shift in 0..20_i64,
        (transposed, copy) in (any::<bool>(), any::<bool>()),
    ) {
        let numel = sizes.iter().product::<i64>();
        prop_assume!(numel > 0);
        let room = Layout::contiguous(&[numel + shift]);
        let whole = filled(&room, DType::Int64);
        let input = whole.sibling(&Layout::contiguous(&sizes));
        let mut moved = Layout { offset: shift, ..Layout::contiguous(&sizes) };
        if transposed {
            moved.sizes.reverse();
            moved.strides.reverse();
            prop_assume!(moved.sizes == sizes);
        }
        let out = whole.sibling(&moved);
        let refused = match shift {
            0 => moved.strides != input.layout.strides,
            _ => shift < numel,
        };
        let before = whole.memory();
        let factor = if copy { 1.0 } else { 2.0 };
        let values: Vec<Number> = input.values().into_iter().map(|x| x * factor).collect();
        let expected = if refused { before } else { out.memory_with(&values) };
        let [x, y] = [input.argument(), input.argument()];
        let result = match copy {
            true => call("copy_", [out.argument(), x, IValue::Bool(false)]),
            false => call("add.out", [x, y, IValue::Int(1), out.argument()]),
        };
        prop_assert_eq!(result.is_err(), refused);
        prop_assert_eq!(whole.memory(), expected);
    }

    /// A fill may write to overlapping memory, since every write is the same.
    #[test]
    fn fills(
        layout in shape(5).prop_flat_map(layout),
        dtype in prop::sample::select(DType::NUMERIC),
        number in -3..100_i64,
    ) {
        let target = filled(&layout, dtype);
        let value = stored(Number::new(number as f64, 0.0), dtype);
        let expected = target.memory_with(&vec![value; layout.numel()]);
        call("fill_.Scalar", [target.argument(), IValue::Int(number)]).unwrap();
        prop_assert_eq!(target.memory(), expected);
    }

    /// `copy_` reads any layout in any part of the shape.
    #[test]
    fn copies(
        ((target, to), (source, from)) in shape(5).prop_flat_map(|shape| {
            let source = part_of(shape.clone()).prop_flat_map(layout);
            (target(shape), (source, prop::sample::select(&DTYPES[..])))
        }),
    ) {
        let (target, source) = (filled(&target, to), filled(&source, from));
        let seen = source.sibling(&source.layout.broadcast(&target.layout.sizes));
        let expected = target.memory_with(&written(seen.values(), to));
        call("copy_", [target.argument(), source.argument(), IValue::Bool(false)]).unwrap();
        prop_assert_eq!(target.memory(), expected);
    }
}
