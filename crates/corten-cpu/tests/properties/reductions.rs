//! Reductions over any dimensions of any layout.

use crate::numbers::{DTYPES, small, stored};
use crate::sample::{Layout, Number, Sample, call, cases, distinct, elements, layout, shape};
use crate::strides;
use corten_core::DType;
use corten_ops::IValue;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Amax,
    Amin,
    All,
    Any,
}

impl Reduction {
    pub(crate) const ALL: [Self; 5] = [Self::Sum, Self::Amax, Self::Amin, Self::All, Self::Any];

    /// The names of the form that returns and of the one that writes to `out=`.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Sum => ["sum.dim_IntList", "sum.IntList_out"],
            Self::Amax => ["amax", "amax.out"],
            Self::Amin => ["amin", "amin.out"],
            Self::All => ["all.dims", "all.dims_out"],
            Self::Any => ["any.dims", "any.dims_out"],
        }
    }

    fn is_extremum(self) -> bool {
        matches!(self, Self::Amax | Self::Amin)
    }

    fn result(self, dtype: DType) -> DType {
        match self {
            Self::Sum if dtype.is_integral(true) => DType::Int64,
            // Masks of bytes stay bytes.
            Self::All | Self::Any if dtype != DType::UInt8 => DType::Bool,
            _ => dtype,
        }
    }

    fn of_numbers(self, values: &[Number]) -> Number {
        let truth = |value| Number::new(f64::from(u8::from(value)), 0.0);
        let zero = Number::new(0.0, 0.0);
        match self {
            Self::Sum => values.iter().sum(),
            Self::Amax => values.iter().copied().max_by(|x, y| x.re.total_cmp(&y.re)).unwrap(),
            Self::Amin => values.iter().copied().min_by(|x, y| x.re.total_cmp(&y.re)).unwrap(),
            Self::All => truth(values.iter().all(|value| *value != zero)),
            Self::Any => truth(values.iter().any(|value| *value != zero)),
        }
    }
}

/// A reduction of a tensor along some dimensions. No dimension means all of them, except for truth.
pub(crate) struct Case {
    pub(crate) reduction: Reduction,
    pub(crate) x: Sample,
    pub(crate) dims: Vec<usize>,
    pub(crate) keep: bool,
}

impl Case {
    pub(crate) fn new(
        reduction: Reduction,
        (layout, dtype): (&Layout, DType),
        mask: u32,
        keep: bool,
    ) -> Self {
        let dims = (0..layout.sizes.len()).filter(|dim| mask & (1 << dim) != 0).collect();
        Self { reduction, x: layout.tensor(dtype, small(dtype)), dims, keep }
    }

    fn arguments(&self) -> Vec<IValue> {
        // Every second dimension counts from the end.
        let rank = self.x.layout.sizes.len();
        let name = |dim: &usize| *dim as i64 - if dim % 2 == 1 { rank as i64 } else { 0 };
        let dims = IValue::IntList(self.dims.iter().map(name).collect());
        let mut arguments = vec![self.x.argument(), dims, IValue::Bool(self.keep)];
        if self.reduction == Reduction::Sum {
            arguments.push(IValue::None);
        }
        arguments
    }

    fn reduces(&self, dim: usize) -> bool {
        let of_all = !matches!(self.reduction, Reduction::All | Reduction::Any);
        (self.dims.is_empty() && of_all) || self.dims.contains(&dim)
    }

    fn shape(&self) -> Vec<i64> {
        let sizes = self.x.layout.sizes.iter().enumerate();
        let kept = sizes.filter(|(dim, _)| self.keep || !self.reduces(*dim));
        kept.map(|(dim, &size)| if self.reduces(dim) { 1 } else { size }).collect()
    }

    /// The result's elements; `None` where it is not defined.
    fn twin(&self) -> Option<Vec<Number>> {
        let sizes = &self.x.layout.sizes;
        let kept: Vec<i64> =
            (0..sizes.len()).map(|dim| if self.reduces(dim) { 1 } else { sizes[dim] }).collect();
        // The element of the result to which each element of the tensor belongs.
        let belongs = Layout::contiguous(&kept).broadcast(sizes).positions();
        let mut groups = vec![Vec::new(); kept.iter().product::<i64>() as usize];
        for (group, value) in belongs.into_iter().zip(self.x.values()) {
            groups[group].push(value);
        }
        let complex = self.reduction.is_extremum() && self.x.dtype().is_complex();
        let empty = self.reduction.is_extremum() && reduced_to_nothing(self, sizes);
        if complex || empty {
            return None;
        }
        let dtype = self.reduction.result(self.x.dtype());
        let reduce = |group: &Vec<Number>| stored(self.reduction.of_numbers(group), dtype);
        Some(groups.iter().map(reduce).collect())
    }

    pub(crate) fn check(&self) -> Result<(), TestCaseError> {
        let result = call(self.reduction.names()[0], self.arguments());
        let Some(expected) = self.twin() else {
            prop_assert!(result.is_err());
            return Ok(());
        };
        let result = result.unwrap();
        prop_assert_eq!(result.dtype(), self.reduction.result(self.x.dtype()));
        prop_assert_eq!(result.sizes().to_vec(), self.shape());
        prop_assert!(strides::is_contiguous(&Layout::of(&result)));
        prop_assert_eq!(elements(&result), expected);
        Ok(())
    }

    /// The same into a tensor of this layout and another shape, or the right one.
    fn check_out(&self, out: &Sample) -> Result<(), TestCaseError> {
        let given = out.layout.sizes == self.shape();
        let arguments = self.arguments().into_iter().chain([out.argument()]);
        let result = call(self.reduction.names()[1], arguments);
        let Some(expected) = self.twin() else {
            prop_assert!(result.is_err());
            return Ok(());
        };
        result.unwrap();
        prop_assert_eq!(out.view.sizes().to_vec(), self.shape());
        match given {
            true => prop_assert_eq!(out.memory(), out.memory_with(&expected)),
            false => prop_assert_eq!(elements(&out.view), expected),
        }
        Ok(())
    }
}

/// Extrema have no identity: the reduced dimensions must have elements. With all dimensions
/// reduced that is the whole tensor.
fn reduced_to_nothing(case: &Case, sizes: &[i64]) -> bool {
    (0..sizes.len()).any(|dim| case.reduces(dim) && sizes[dim] == 0)
}

fn reduction() -> impl Strategy<Value = Reduction> {
    prop::sample::select(&Reduction::ALL[..])
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn results_are_the_twins(
        reduction in reduction(),
        layout in shape(5).prop_flat_map(layout),
        dtype in prop::sample::select(&DTYPES[..]),
        mask in 0..32_u32,
        keep in any::<bool>(),
    ) {
        Case::new(reduction, (&layout, dtype), mask, keep).check()?;
    }

    /// `out=` keeps its strides where the shape is right, and is resized where it is not.
    #[test]
    fn outputs_are_the_twins(
        reduction in reduction(),
        layout in shape(4).prop_flat_map(layout),
        dtype in prop::sample::select(&DTYPES[..]),
        mask in 0..16_u32,
        keep in any::<bool>(),
        right in any::<bool>(),
        draw in any::<prop::sample::Index>(),
        other in shape(3).prop_flat_map(distinct),
    ) {
        let case = Case::new(reduction, (&layout, dtype), mask, keep);
        let shape = case.shape();
        // A transposed and spaced layout of the right shape.
        let order: Vec<usize> = (0..shape.len()).collect();
        let mut spaced = crate::sample::packed(&shape, &order);
        let step = draw.index(3) as i64 + 1;
        spaced.iter_mut().for_each(|stride| *stride *= step);
        let given = Layout { sizes: shape, strides: spaced, offset: step };
        let out = if right { given } else { other };
        let result = reduction.result(dtype);
        case.check_out(&out.tensor(result, small(result)).resizable())?;
    }

    /// A dimension may be named once, and must be there.
    #[test]
    fn dimensions_are_checked(layout in shape(4).prop_flat_map(layout), dim in -6..6_i64) {
        let rank = layout.sizes.len().max(1) as i64;
        let x = layout.tensor(DType::Float32, small(DType::Float32));
        let sum = |dims: &[i64]| {
            let dims = IValue::IntList(dims.into());
            call("sum.dim_IntList", [x.argument(), dims, IValue::Bool(false), IValue::None])
        };
        prop_assert_eq!(sum(&[dim]).is_ok(), (-rank..rank).contains(&dim));
        prop_assert!(sum(&[dim, dim]).is_err());
    }
}
