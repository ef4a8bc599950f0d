//! `TensorIterator`: values, dtype and strides of results, for operands of any layout.

use crate::numbers::{Class, DTYPES, result_type, small, stored};
use crate::sample::{Layout, Number, Sample, call, cases, elements, layout, part_of, read, shape};
use crate::strides;
use corten_core::{DType, Result};
use corten_ops::{IValue, Tensor};
use proptest::collection::vec;
use proptest::prelude::*;

/// Operators with one, two and three inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Neg,
    Add,
    Mul,
    Eq,
    Where,
    Addcmul,
}

impl Op {
    pub(crate) const ALL: [Self; 6] =
        [Self::Neg, Self::Add, Self::Mul, Self::Eq, Self::Where, Self::Addcmul];

    pub(crate) fn arity(self) -> usize {
        match self {
            Self::Neg => 1,
            Self::Add | Self::Mul | Self::Eq => 2,
            Self::Where | Self::Addcmul => 3,
        }
    }

    /// The names of the forms that return, that write to `out=` and that write to the first input.
    pub(crate) fn names(self) -> [&'static str; 3] {
        match self {
            Self::Neg => ["neg", "neg.out", "neg_"],
            Self::Add => ["add.Tensor", "add.out", "add_.Tensor"],
            Self::Mul => ["mul.Tensor", "mul.out", "mul_.Tensor"],
            Self::Eq => ["eq.Tensor", "eq.Tensor_out", "eq_.Tensor"],
            Self::Where => ["where.self", "where.self_out", ""],
            Self::Addcmul => ["addcmul", "addcmul.out", "addcmul_"],
        }
    }

    /// The number behind the tensors: a factor.
    pub(crate) fn rest(self) -> Vec<IValue> {
        match self {
            Self::Add | Self::Addcmul => vec![IValue::Int(1)],
            _ => vec![],
        }
    }

    /// The dtype in which it computes; `None` where there is none.
    pub(crate) fn common(self, inputs: &[Sample]) -> Option<DType> {
        let class = |rank| if rank == 0 { Class::RankZero } else { Class::Dimensional };
        let promoted = inputs[if self == Self::Where { 1 } else { 0 }..].iter();
        let classes: Vec<_> =
            promoted.map(|input| (input.dtype(), class(input.layout.sizes.len()))).collect();
        let known =
            |dtype: &DType| *dtype != DType::Bool || !matches!(self, Self::Neg | Self::Addcmul);
        result_type(&classes).filter(known)
    }

    fn of_numbers(self, dtype: DType, x: &[Number]) -> Number {
        let truth = |value| Number::new(f64::from(u8::from(value)), 0.0);
        match self {
            Self::Neg => -x[0],
            Self::Add if dtype == DType::Bool => truth(x[0].re + x[1].re > 0.0),
            Self::Add => x[0] + x[1],
            Self::Mul => x[0] * x[1],
            Self::Eq => truth(x[0] == x[1]),
            Self::Where => x[if x[0].re == 1.0 { 1 } else { 2 }],
            Self::Addcmul => x[0] + x[1] * x[2],
        }
    }

    /// The results in `shape`, in row-major order, as they are in the common dtype.
    pub(crate) fn twin(self, dtype: DType, inputs: &[Sample], shape: &[i64]) -> Vec<Number> {
        let seen = |input: &Sample| -> Vec<Number> {
            let values = read(&input.memory(), &input.layout.broadcast(shape));
            values.into_iter().map(|value| stored(value, dtype)).collect()
        };
        let inputs: Vec<Vec<Number>> = inputs.iter().map(seen).collect();
        let count = shape.iter().product::<i64>() as usize;
        (0..count)
            .map(|i| inputs.iter().map(|input| input[i]).collect::<Vec<_>>())
            .map(|x| stored(self.of_numbers(dtype, &x), self.result(dtype)))
            .collect()
    }

    /// The dtype of the result, given that of the computation.
    pub(crate) fn result(self, common: DType) -> DType {
        if self == Self::Eq { DType::Bool } else { common }
    }

    /// The layouts that decide the strides of a result: inputs of another dtype are copied first.
    pub(crate) fn layouts(self, common: DType, inputs: &[Sample]) -> Vec<Layout> {
        let converted = |(i, input): (usize, &Sample)| {
            let layout = input.layout.clone();
            let read_directly = input.dtype() == common || (self == Self::Where && i == 0);
            match read_directly || layout.numel() == 1 {
                true => layout,
                false => Layout { strides: strides::of_copy(&layout), ..layout },
            }
        };
        inputs.iter().enumerate().map(converted).collect()
    }
}

/// The shape to which all broadcast; the parts of one shape always do.
pub(crate) fn broadcast_shape(inputs: &[Sample]) -> Vec<i64> {
    let rank = inputs.iter().map(|input| input.layout.sizes.len()).max().unwrap_or(0);
    let mut shape = vec![1; rank];
    for sizes in inputs.iter().map(|input| &input.layout.sizes) {
        let missing = rank - sizes.len();
        for (d, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
            shape[missing + d] = size;
        }
    }
    shape
}

/// An input before its tensor is made.
pub(crate) type Input = (Layout, DType);

/// An input that broadcasts to `shape`.
pub(crate) fn input(shape: Vec<i64>) -> impl Strategy<Value = Input> {
    (part_of(shape).prop_flat_map(layout), prop::sample::select(&DTYPES[..]))
}

/// As many inputs as the operator has; their dtypes are often one.
pub(crate) fn samples(op: Op, inputs: &[Input], one_dtype: bool) -> Vec<Sample> {
    let shared = inputs[0].1;
    let make = |(i, (layout, dtype)): (usize, &Input)| {
        let dtype = match op {
            Op::Where if i == 0 => DType::Bool,
            _ if one_dtype => shared,
            _ => *dtype,
        };
        let small = small(dtype);
        layout.tensor(dtype, |at| small(at * (i as i64 + 2) + i as i64))
    };
    inputs.iter().take(op.arity()).enumerate().map(make).collect()
}

pub(crate) fn arguments(inputs: &[Sample], op: Op) -> Vec<IValue> {
    inputs.iter().map(Sample::argument).chain(op.rest()).collect()
}

/// Compares a call's result with the twin's.
pub(crate) fn check(op: Op, inputs: &[Sample]) -> std::result::Result<(), TestCaseError> {
    let before: Vec<_> = inputs.iter().map(Sample::memory).collect();
    let result: Result<Tensor> = call(op.names()[0], arguments(inputs, op));
    let Some(common) = op.common(inputs) else {
        prop_assert!(result.is_err());
        return Ok(());
    };
    let result = result.unwrap();
    let shape = broadcast_shape(inputs);
    prop_assert_eq!(result.dtype(), op.result(common));
    prop_assert_eq!(result.sizes().to_vec(), shape.clone());
    let expected = strides::of_result(&shape, &op.layouts(common, inputs));
    prop_assert_eq!(result.strides().to_vec(), expected);
    prop_assert_eq!(elements(&result), op.twin(common, inputs, &shape));
    prop_assert_eq!(inputs.iter().map(Sample::memory).collect::<Vec<_>>(), before);
    Ok(())
}

proptest! {
    #![proptest_config(cases(1200))]

    #[test]
    fn results_are_the_twins(
        op in prop::sample::select(&Op::ALL[..]),
        inputs in shape(5).prop_flat_map(|shape| vec(input(shape), 3)),
        one_dtype in any::<bool>(),
    ) {
        check(op, &samples(op, &inputs, one_dtype))?;
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// Shapes that do not broadcast are refused.
    #[test]
    fn shapes_must_broadcast(a in shape(4), b in shape(4)) {
        let fit = a.iter().rev().zip(b.iter().rev()).all(|(x, y)| x == y || *x == 1 || *y == 1);
        let of = |sizes: &[i64]| Layout::contiguous(sizes).tensor(DType::Int16, small(DType::Int16));
        let inputs = [of(&a), of(&b)];
        match fit {
            true => check(Op::Add, &inputs)?,
            false => prop_assert!(call("add.Tensor", arguments(&inputs, Op::Add)).is_err()),
        }
    }
}
