//! One index per element or per slice: `gather`, the `scatter` and `index_…` families, `take` and
//! `put_`.

use crate::numbers::{DTYPES, small, stored};
use crate::sample::{Layout, Number, Sample, call, cases, distinct, elements, layout, shape};
use crate::selection::{coordinates, wrapped};
use corten_core::DType;
use corten_ops::IValue;
use proptest::prelude::*;

/// Elements in row-major order with their shape; a scalar is a vector of one element.
#[derive(Clone)]
struct Grid {
    sizes: Vec<i64>,
    values: Vec<Number>,
}

impl Grid {
    fn of(sample: &Sample) -> Self {
        let sizes = match sample.layout.sizes.is_empty() {
            true => vec![1],
            false => sample.layout.sizes.clone(),
        };
        Self { sizes, values: sample.values() }
    }

    /// The row-major position of an element.
    fn at(&self, coordinates: &[i64]) -> usize {
        self.sizes.iter().zip(coordinates).fold(0, |at, (size, i)| at * size + i) as usize
    }

    fn coordinates(&self) -> impl Iterator<Item = Vec<i64>> + use<> {
        let sizes = self.sizes.clone();
        (0..self.values.len()).map(move |at| coordinates(&sizes, at))
    }
}

/// The coordinates with another one along a dimension.
fn moved(mut coordinates: Vec<i64>, dim: usize, to: i64) -> Vec<i64> {
    coordinates[dim] = to;
    coordinates
}

fn integer(value: Number) -> i64 {
    value.re as i64
}

fn inside(index: i64, size: i64) -> Option<i64> {
    (0..size).contains(&index).then_some(index)
}

/// Indices from 0 to size - 1, as `int32` or `int64`; from some seeds, one place too far.
fn indices(layout: &Layout, narrow: bool, size: i64, seed: u32) -> Sample {
    let reach = size.max(1) + i64::from(seed.is_multiple_of(16));
    let dtype = if narrow { DType::Int32 } else { DType::Int64 };
    layout.tensor(dtype, move |at| {
        let mixed = (at + 1).wrapping_mul(i64::from(seed) * 2 + 40_503) / 64;
        Number::new(mixed.rem_euclid(reach) as f64, 0.0)
    })
}

fn filled(layout: &Layout, dtype: DType) -> Sample {
    layout.tensor(dtype, small(dtype))
}

/// Compares the memory with the elements the twin wrote, or with what was there if it refused.
fn check_memory(
    target: &Sample,
    result: &corten_core::Result<corten_ops::Tensor>,
    twin: Option<Vec<Number>>,
    before: Vec<Number>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(result.is_ok(), twin.is_some(), "{:?}", result.as_ref().err());
    let expected = twin.map_or(before, |values| target.memory_with(&values));
    prop_assert_eq!(target.memory(), expected);
    Ok(())
}

/// Calls the form of an operator that writes to a copy: the target does not change.
fn check_copying(
    name: &str,
    arguments: Vec<IValue>,
    target: &Sample,
    twin: Option<&Vec<Number>>,
) -> Result<(), TestCaseError> {
    let before = target.memory();
    let result = call(name, arguments);
    prop_assert_eq!(result.is_ok(), twin.is_some());
    if let (Ok(result), Some(twin)) = (result, twin) {
        prop_assert_eq!(&elements(&result), twin);
        prop_assert_eq!(result.sizes().to_vec(), target.layout.sizes.clone());
    }
    prop_assert_eq!(target.memory(), before);
    Ok(())
}

fn dim_argument(dim: usize, rank: usize, seed: u32) -> IValue {
    IValue::Int(dim as i64 - if seed.is_multiple_of(2) { rank.max(1) as i64 } else { 0 })
}

/// A shape, a dimension of it, and the shape with another size there and fewer elsewhere.
fn shapes() -> impl Strategy<Value = (Vec<i64>, usize, Vec<i64>)> {
    let cuts = prop::collection::vec(0..5_i64, 4);
    (shape(4), any::<prop::sample::Index>(), 0..5_i64, cuts).prop_map(
        |(shape, dim, along, cuts)| {
            let dim = dim.index(shape.len().max(1));
            let mut index: Vec<i64> = shape
                .iter()
                .zip(cuts)
                .map(|(size, cut)| size - i64::from(cut == 0 && *size > 0))
                .collect();
            if let Some(size) = index.get_mut(dim) {
                *size = along;
            }
            (shape, dim, index)
        },
    )
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&DTYPES[..])
}

/// For what only moves elements.
fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::NUMERIC)
}

/// What `scatter` does with the element that is there and the new one.
#[derive(Clone, Copy, Debug)]
enum Scatter {
    Write,
    /// The number 2.
    Fill,
    Add,
    ReduceAdd,
    ReduceMultiply,
}

impl Scatter {
    const ALL: [Self; 5] =
        [Self::Write, Self::Fill, Self::Add, Self::ReduceAdd, Self::ReduceMultiply];

    /// The names of the form that writes to the tensor and of the one that writes to a copy.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Write => ["scatter_.src", "scatter.src"],
            Self::Fill => ["scatter_.value", "scatter.value"],
            Self::Add => ["scatter_add_", "scatter_add"],
            Self::ReduceAdd | Self::ReduceMultiply => ["scatter_.reduce", "scatter.reduce"],
        }
    }

    /// What follows the index.
    fn rest(self, source: &Sample) -> Vec<IValue> {
        match self {
            Self::Write | Self::Add => vec![source.argument()],
            Self::Fill => vec![IValue::Int(2)],
            Self::ReduceAdd => vec![source.argument(), IValue::String("add".into())],
            Self::ReduceMultiply => vec![source.argument(), IValue::String("multiply".into())],
        }
    }

    fn combined(self, old: Number, new: Number) -> Number {
        match self {
            Self::Write => new,
            Self::Fill => Number::new(2.0, 0.0),
            Self::Add | Self::ReduceAdd => old + new,
            Self::ReduceMultiply => old * new,
        }
    }
}

/// The target's elements after `scatter`; `None` for an index out of range.
fn scattered(
    (how, dtype): (Scatter, DType),
    target: &Sample,
    dim: usize,
    index: &Sample,
    source: &Sample,
) -> Option<Vec<Number>> {
    let (mut grid, index, source) = (Grid::of(target), Grid::of(index), Grid::of(source));
    for coordinates in index.coordinates() {
        let to = inside(integer(index.values[index.at(&coordinates)]), grid.sizes[dim])?;
        let new = source.values[source.at(&coordinates)];
        let at = grid.at(&moved(coordinates, dim, to));
        grid.values[at] = stored(how.combined(grid.values[at], new), dtype);
    }
    Some(grid.values)
}

/// `index_copy_`, `index_add_` and `index_fill_`: whole slices along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slices {
    Copy,
    Add,
    Fill,
}

fn sliced(
    (how, dtype): (Slices, DType),
    target: &Sample,
    dim: usize,
    index: &[i64],
    source: &Grid,
) -> Option<Vec<Number>> {
    let mut grid = Grid::of(target);
    if source.values.is_empty() {
        // With nothing to write, PyTorch does not look at the indices.
        return Some(grid.values);
    }
    let size = grid.sizes[dim];
    let fit = |index: &i64| match how {
        Slices::Fill => wrapped(*index, size),
        _ => inside(*index, size),
    };
    let index: Vec<i64> = index.iter().map(fit).collect::<Option<_>>()?;
    for coordinates in source.coordinates() {
        let new = source.values[source.at(&coordinates)];
        let to = index[coordinates[dim] as usize];
        let at = grid.at(&moved(coordinates, dim, to));
        let value = match how {
            // `alpha` is 2.
            Slices::Add => grid.values[at] + stored(new * 2.0, dtype),
            _ => new,
        };
        grid.values[at] = stored(value, dtype);
    }
    Some(grid.values)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn gather(
        (source, dim, index) in shapes().prop_flat_map(|(shape, dim, index)| {
            (layout(shape), Just(dim), layout(index))
        }),
        dtype in any_dtype(),
        narrow in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let x = filled(&source, dtype);
        let grid = Grid::of(&x);
        let index = indices(&index, narrow, grid.sizes[dim], seed);
        let picks = Grid::of(&index);
        let rank = source.sizes.len();
        let expected: Option<Vec<Number>> = picks.coordinates().map(|at| {
            let from = inside(integer(picks.values[picks.at(&at)]), grid.sizes[dim])?;
            Some(grid.values[grid.at(&moved(at, dim, from))])
        }).collect();
        let arguments =
            [x.argument(), dim_argument(dim, rank, seed), index.argument(), IValue::Bool(false)];
        let result = call("gather", arguments);
        prop_assert_eq!(result.is_ok(), expected.is_some());
        if let (Ok(result), Some(expected)) = (result, expected) {
            prop_assert_eq!(result.sizes().to_vec(), index.layout.sizes.clone());
            prop_assert_eq!(elements(&result), expected);
        }
    }

    #[test]
    fn scatter(
        how in prop::sample::select(&Scatter::ALL[..]),
        (target, dim, index, source) in shapes().prop_flat_map(|(shape, dim, index)| {
            let larger: Vec<i64> = index.iter().enumerate().map(|(d, n)| n + (d as i64 % 2)).collect();
            (distinct(shape), Just(dim), layout(index), layout(larger))
        }),
        dtype in dtype(),
        narrow in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let (target, source) = (filled(&target, dtype), filled(&source, dtype));
        let rank = target.layout.sizes.len();
        let index = indices(&index, narrow, Grid::of(&target).sizes[dim], seed);
        let twin = scattered((how, dtype), &target, dim, &index, &source);
        let before = target.memory();
        let dim = dim_argument(dim, rank, seed);
        let arguments = [target.argument(), dim, index.argument()].into_iter();
        let arguments: Vec<IValue> = arguments.chain(how.rest(&source)).collect();
        let [in_place, copying] = how.names();
        check_copying(copying, arguments.clone(), &target, twin.as_ref())?;
        let result = call(in_place, arguments);
        check_memory(&target, &result, twin, before)?;
    }

    #[test]
    fn slices(
        how in prop::sample::select(&[Slices::Copy, Slices::Add, Slices::Fill][..]),
        (target, dim, source) in shapes().prop_flat_map(|(shape, dim, index)| {
            let mut source = shape.clone();
            if let Some(size) = source.get_mut(dim) {
                *size = index[dim];
            }
            (distinct(shape), Just(dim), layout(source))
        }),
        dtype in dtype(),
        seed in any::<u32>(),
        step in 1..3_i64,
    ) {
        let (target, source) = (filled(&target, dtype), filled(&source, dtype));
        let mut grid = Grid::of(&source);
        let (rank, size) = (target.layout.sizes.len(), Grid::of(&target).sizes[dim]);
        let vector = Layout { sizes: vec![grid.sizes[dim]], strides: vec![step], offset: 1 };
        let index = indices(&vector, false, size, seed);
        let places: Vec<i64> = index.values().into_iter().map(integer).collect();
        let two = Number::new(if dtype == DType::Bool { 1.0 } else { 2.0 }, 0.0);
        let ([in_place, copying], rest) = match how {
            Slices::Copy => (["index_copy_", "index_copy"], vec![source.argument()]),
            Slices::Add => {
                (["index_add_", "index_add"], vec![source.argument(), IValue::Int(2)])
            }
            Slices::Fill => {
                (["index_fill_.int_Scalar", "index_fill.int_Scalar"], vec![IValue::Int(2)])
            }
        };
        if how == Slices::Fill {
            grid.values.fill(two);
        }
        let twin = sliced((how, dtype), &target, dim, &places, &grid);
        let before = target.memory();
        let arguments = [target.argument(), dim_argument(dim, rank, seed), index.argument()];
        let arguments: Vec<IValue> = arguments.into_iter().chain(rest).collect();
        check_copying(copying, arguments.clone(), &target, twin.as_ref())?;
        let result = call(in_place, arguments);
        check_memory(&target, &result, twin, before)?;
    }

    #[test]
    fn index_select(
        (source, dim) in shapes().prop_flat_map(|(shape, dim, _)| (layout(shape), Just(dim))),
        (count, step) in (0..6_i64, 0..3_i64),
        dtype in any_dtype(),
        narrow in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let x = filled(&source, dtype);
        let rank = source.sizes.len();
        let grid = Grid::of(&x);
        let count = if rank == 0 { 1 } else { count };
        let vector = Layout { sizes: vec![count], strides: vec![step], offset: 1 };
        let index = indices(&vector, narrow, grid.sizes[dim], seed);
        let places: Option<Vec<i64>> =
            index.values().into_iter().map(|i| inside(integer(i), grid.sizes[dim])).collect();
        let arguments = [x.argument(), dim_argument(dim, rank, seed), index.argument()];
        let result = call("index_select", arguments);
        prop_assert_eq!(result.is_ok(), places.is_some(), "{:?}", result.err());
        let (Ok(result), Some(places)) = (result, places) else { return Ok(()) };
        let mut sizes = grid.sizes.clone();
        sizes[dim] = count;
        let numel = sizes.iter().product::<i64>() as usize;
        let of = Grid { sizes, values: vec![Number::default(); numel] };
        let expected: Vec<Number> = of
            .coordinates()
            .map(|at| (places[at[dim] as usize], at))
            .map(|(place, at)| grid.values[grid.at(&moved(at, dim, place))])
            .collect();
        prop_assert_eq!(elements(&result), expected);
        prop_assert_eq!(result.sizes().to_vec(), if rank == 0 { vec![] } else { of.sizes });
    }

    /// The tensor seen as a vector, to read from and to write to.
    #[test]
    fn take_and_put(
        target in shape(4).prop_flat_map(distinct),
        (index, source) in shape(3).prop_flat_map(|shape| (layout(shape.clone()), layout(shape))),
        dtype in dtype(),
        accumulate in any::<bool>(),
        (seed, down) in (any::<u32>(), any::<bool>()),
    ) {
        let (target, source) = (filled(&target, dtype), filled(&source, dtype));
        let numel = target.layout.numel() as i64;
        let shifted = indices(&index, false, numel, seed);
        // Half of the time all indices count from the end.
        let index = index.tensor(DType::Int64, |at| {
            shifted.memory()[at as usize] - if down { numel as f64 } else { 0.0 }
        });
        let places: Option<Vec<i64>> =
            index.values().into_iter().map(|i| wrapped(integer(i), numel)).collect();
        let (before, values) = (target.memory(), target.values());
        let taken = call("take", [target.argument(), index.argument()]);
        prop_assert_eq!(taken.is_ok(), places.is_some());
        if let (Ok(taken), Some(places)) = (taken, &places) {
            let expected: Vec<Number> = places.iter().map(|&at| values[at as usize]).collect();
            prop_assert_eq!(elements(&taken), expected);
            prop_assert_eq!(taken.sizes().to_vec(), index.layout.sizes.clone());
        }
        let twin = places.map(|places| {
            let mut values = values;
            for (at, new) in places.into_iter().zip(source.values()) {
                let old = if accumulate { values[at as usize] } else { Number::default() };
                values[at as usize] = stored(old + new, dtype);
            }
            values
        });
        let arguments =
            [target.argument(), index.argument(), source.argument(), IValue::Bool(accumulate)];
        let result = call("put_", arguments);
        check_memory(&target, &result, twin, before)?;
    }
}
