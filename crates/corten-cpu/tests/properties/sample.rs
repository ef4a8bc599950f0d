//! Random tensors: any layout over a known memory.

use corten_core::{Complex, DType, Reader, Result, TensorBase, cast, match_dtype};
use corten_ops::{IValue, Stack, Tensor, op, registry};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// An element of any dtype. All values in these tests are exact in it.
pub(crate) type Number = Complex<f64>;

/// So many cases, the same in every run.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed => fixed,
    };
    let cases = (count * given.cases / 256).max(1);
    let max_global_rejects = 2 * cases + given.max_global_rejects;
    ProptestConfig { cases, rng_seed, max_global_rejects, failure_persistence: None, ..given }
}

/// Registers the kernels and the memory of tensors, once.
pub(crate) fn start() {
    crate::memory::install();
    corten_ops::init();
    corten_cpu::init().unwrap();
}

/// Calls an operator by its name in the registry.
pub(crate) fn call(name: &str, arguments: impl IntoIterator<Item = IValue>) -> Result<Tensor> {
    start();
    let mut stack = Stack::new();
    arguments.into_iter().for_each(|argument| stack.push(argument));
    registry::find(&format!("aten::{name}"))
        .unwrap_or_else(|| panic!("there is no {name}"))
        .call_boxed(&mut stack)?;
    Ok(stack[0].get::<&Tensor>()?.clone())
}

/// Where the elements of a tensor are in its storage.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) offset: i64,
}

impl Layout {
    pub(crate) fn of(tensor: &Tensor) -> Self {
        Self {
            sizes: tensor.sizes().to_vec(),
            strides: tensor.strides().to_vec(),
            offset: tensor.storage_offset(),
        }
    }

    /// A fresh tensor's: row-major from the start.
    pub(crate) fn contiguous(sizes: &[i64]) -> Self {
        let order = (0..sizes.len()).rev().collect::<Vec<_>>();
        Self { sizes: sizes.to_vec(), strides: packed(sizes, &order), offset: 0 }
    }

    pub(crate) fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// The place in the storage of every element, in row-major order.
    pub(crate) fn positions(&self) -> Vec<usize> {
        let mut all = vec![self.offset];
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            all = all.iter().flat_map(|at| (0..size).map(move |i| at + i * stride)).collect();
        }
        all.into_iter().map(|at| at as usize).collect()
    }

    /// The layout seen in a broadcast shape: stride 0 along what repeats.
    pub(crate) fn broadcast(&self, shape: &[i64]) -> Self {
        let missing = shape.len() - self.sizes.len();
        let stride = |d: usize| match d.checked_sub(missing) {
            Some(own) if self.sizes[own] == shape[d] => self.strides[own],
            _ => 0,
        };
        let strides = (0..shape.len()).map(stride).collect();
        Self { sizes: shape.to_vec(), strides, offset: self.offset }
    }

    /// How long a storage must be.
    fn extent(&self) -> i64 {
        let reach = self.sizes.iter().zip(&self.strides).map(|(n, s)| (n - 1).max(0) * s);
        self.offset + reach.sum::<i64>() + 1
    }

    /// A tensor of this layout over a storage that `value` fills by position.
    pub(crate) fn tensor(&self, dtype: DType, value: impl Fn(i64) -> Number) -> Sample {
        // Elements behind the last one show stray writes; without them a sanitizer shows both.
        let length = self.extent() + self.extent() % 4;
        let values: Vec<Number> = (0..length).map(value).collect();
        let whole = vector(dtype, &values);
        let view = whole.as_view_of(&self.sizes, &self.strides, self.offset).unwrap().into();
        Sample { whole, view, layout: self.clone() }
    }
}

/// Strides without gaps when dimensions are packed in this order, fastest first.
pub(crate) fn packed(sizes: &[i64], order: &[usize]) -> Vec<i64> {
    let (mut strides, mut step) = (vec![0; sizes.len()], 1);
    for &dim in order {
        strides[dim] = step;
        step *= sizes[dim].max(1);
    }
    strides
}

/// A vector of numbers of a dtype, in the memory of a `Vec`, which need not be aligned to more than
/// an element.
pub(crate) fn vector(dtype: DType, values: &[Number]) -> Tensor {
    let make = || -> Result<Tensor> {
        match_dtype!(dtype, "vector", All, T => {
            let elements: Vec<T> = values.iter().map(|&value| cast(value)).collect();
            let count = elements.len() as i64;
            Tensor::from_vec(elements, &[count])
        })
    };
    start();
    make().unwrap()
}

/// A tensor with the memory under it.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    whole: Tensor,
    pub(crate) view: Tensor,
    pub(crate) layout: Layout,
}

impl Sample {
    /// The same in a storage that can grow, as that of a `Vec` cannot.
    pub(crate) fn resizable(self) -> Self {
        let whole = op::clone(&self.whole, None).unwrap();
        Self { whole, ..self.clone() }.sibling(&self.layout)
    }

    pub(crate) fn argument(&self) -> IValue {
        IValue::Tensor(self.view.clone())
    }

    pub(crate) fn dtype(&self) -> DType {
        self.view.dtype()
    }

    /// Everything in the storage, what lies between the elements included.
    pub(crate) fn memory(&self) -> Vec<Number> {
        memory(&self.whole)
    }

    /// The elements in row-major order.
    pub(crate) fn values(&self) -> Vec<Number> {
        read(&self.memory(), &self.layout)
    }

    /// The memory after the elements have become `values`.
    pub(crate) fn memory_with(&self, values: &[Number]) -> Vec<Number> {
        let mut memory = self.memory();
        for (at, value) in self.layout.positions().into_iter().zip(values) {
            memory[at] = *value;
        }
        memory
    }

    /// Another view of the same memory.
    pub(crate) fn sibling(&self, layout: &Layout) -> Self {
        let view = self.whole.as_view_of(&layout.sizes, &layout.strides, layout.offset);
        Self { whole: self.whole.clone(), view: view.unwrap().into(), layout: layout.clone() }
    }
}

fn memory(whole: &TensorBase) -> Vec<Number> {
    let read = || -> Result<Vec<Number>> {
        match_dtype!(whole.dtype(), "memory", All, T => {
            Ok(Reader::<T>::new(whole)?.iter().map(|&element| cast(element)).collect())
        })
    };
    read().unwrap()
}

/// The elements of a memory that a layout names, in row-major order.
pub(crate) fn read(memory: &[Number], layout: &Layout) -> Vec<Number> {
    layout.positions().into_iter().map(|at| memory[at]).collect()
}

/// The elements of any tensor in row-major order, read through its strides.
pub(crate) fn elements(tensor: &Tensor) -> Vec<Number> {
    let layout = Layout::of(tensor);
    if layout.numel() == 0 {
        return Vec::new();
    }
    read(&memory(&tensor.as_view_of(&[layout.extent()], &[1], 0).unwrap()), &layout)
}

/// Shapes of rank 0 to `rank` with sizes 0 to 5, of at most 300 elements.
pub(crate) fn shape(rank: usize) -> impl Strategy<Value = Vec<i64>> {
    let size = prop_oneof![1 => Just(0_i64), 5 => Just(1), 24 => 2..6_i64];
    vec(size, 0..rank + 1).prop_map(|mut sizes| {
        let mut numel = 1;
        for size in &mut sizes {
            *size = if numel * *size > 300 { 1 } else { *size };
            numel *= (*size).max(1);
        }
        sizes
    })
}

/// A shape that broadcasts to `shape`: often the same, else without leading dimensions or with
/// sizes 1.
pub(crate) fn part_of(shape: Vec<i64>) -> impl Strategy<Value = Vec<i64>> {
    let rank = shape.len();
    let ones = vec(prop_oneof![3 => Just(false), 1 => Just(true)], rank);
    let cut = (0..rank + 1, ones, 0..5_u8);
    cut.prop_map(move |(drop, ones, kind)| match kind {
        0..2 => shape.clone(),
        _ => {
            let cut = |(&size, one)| if one { 1 } else { size };
            let drop = if kind == 2 { drop } else { 0 };
            shape.iter().zip(ones).map(cut).skip(drop).collect()
        }
    })
}

#[derive(Clone, Copy, Debug)]
enum Style {
    Contiguous,
    ChannelsLast,
    Permuted,
    /// Permuted, with steps and perhaps repeated dimensions.
    Stepped,
    /// Rows that share elements.
    Overlapping,
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![
        3 => Just(Style::Contiguous),
        2 => Just(Style::ChannelsLast),
        3 => Just(Style::Permuted),
        3 => Just(Style::Stepped),
        1 => Just(Style::Overlapping),
    ]
}

/// What a layout is drawn from, before its sizes are known.
#[derive(Clone, Debug)]
struct Draw {
    style: Style,
    order: Vec<usize>,
    steps: Vec<i64>,
    /// Strides that dimensions of size 1 may get, which mean nothing.
    idle: Vec<i64>,
    offset: i64,
}

fn draw(rank: usize) -> impl Strategy<Value = Draw> {
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    (style(), order, vec(0..4_i64, rank), vec(0..20_i64, rank), 0..4_i64)
        .prop_map(|(style, order, steps, idle, offset)| Draw { style, order, steps, idle, offset })
}

impl Draw {
    fn order(&self) -> Vec<usize> {
        let rank = self.order.len();
        match self.style {
            Style::Contiguous => (0..rank).rev().collect(),
            // Channels are dimension 1.
            Style::ChannelsLast if rank > 2 => {
                [1].into_iter().chain((2..rank).rev()).chain([0]).collect()
            }
            Style::ChannelsLast => (0..rank).rev().collect(),
            _ => self.order.clone(),
        }
    }

    /// The layout; with `distinct`, no two elements share a place.
    fn layout(&self, sizes: &[i64], distinct: bool) -> Layout {
        let (mut strides, mut extent) = (vec![0; sizes.len()], 1);
        for dim in self.order() {
            let step = match self.style {
                Style::Stepped | Style::Overlapping if distinct => self.steps[dim].max(1),
                Style::Stepped => self.steps[dim],
                Style::Overlapping => self.steps[dim].min(1),
                _ => 1,
            };
            let shared = matches!(self.style, Style::Overlapping) && !distinct;
            strides[dim] = if shared { self.idle[dim].min(extent) } else { extent * step };
            extent *= sizes[dim].max(1) * step.max(1);
            if sizes[dim] == 1 && self.idle[dim] < 10 {
                strides[dim] = self.idle[dim];
            }
        }
        Layout { sizes: sizes.to_vec(), strides, offset: self.offset }
    }
}

/// Any layout of these sizes to read from.
pub(crate) fn layout(sizes: Vec<i64>) -> impl Strategy<Value = Layout> {
    draw(sizes.len()).prop_map(move |draw| draw.layout(&sizes, false))
}

/// A layout of these sizes to write to: no two elements share a place.
pub(crate) fn distinct(sizes: Vec<i64>) -> impl Strategy<Value = Layout> {
    draw(sizes.len()).prop_map(move |draw| draw.layout(&sizes, true))
}
