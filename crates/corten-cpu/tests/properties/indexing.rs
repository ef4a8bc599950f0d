//! `t[…]` with any mix of items on any view: reading, writing, adding.

use crate::numbers::{DTYPES, small, stored};
use crate::sample::{
    Layout, Number, Sample, call, cases, distinct, elements, layout, part_of, shape,
};
use crate::selection::{Item, Selection, broadcast, select, select_to_fill};
use crate::strides;
use corten_core::{DType, Scalar};
use corten_ops::index::{IndexItem, Slice, get, set, set_scalar};
use corten_ops::{IValue, Tensor};
use proptest::collection::vec;
use proptest::prelude::*;

/// What an item is drawn from, before the sizes that it is for are known.
#[derive(Clone, Debug)]
enum Draw {
    Int(u32),
    Slice(u32, u32, i64),
    Whole,
    None,
    Ellipsis,
    Bool(bool),
    /// Positions in a shape, as `int32` or `int64`, with the layout of that tensor.
    Picks(Layout, bool, u32),
    /// Over at most so many dimensions, as `uint8` or `bool`.
    Mask(usize, bool, u32),
}

/// Index shapes that broadcast together.
fn picks(shape: Vec<i64>) -> impl Strategy<Value = Draw> {
    let layout = part_of(shape).prop_flat_map(layout);
    (layout, any::<bool>(), any::<u32>()).prop_map(|(l, narrow, seed)| Draw::Picks(l, narrow, seed))
}

fn draw(picked: Vec<i64>) -> impl Strategy<Value = Draw> {
    prop_oneof![
        3 => any::<u32>().prop_map(Draw::Int),
        4 => (any::<u32>(), any::<u32>(), 1..4_i64).prop_map(|(a, b, step)| Draw::Slice(a, b, step)),
        2 => Just(Draw::Whole),
        1 => Just(Draw::None),
        1 => Just(Draw::Ellipsis),
        1 => any::<bool>().prop_map(Draw::Bool),
        6 => picks(picked),
        2 => (0..3_usize, any::<bool>(), any::<u32>()).prop_map(|(k, byte, seed)| Draw::Mask(k, byte, seed)),
    ]
}

/// The draws of an index.
fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let picked = vec(prop_oneof![1 => Just(0), 2 => Just(1), 6 => 2..4_i64], 0..3);
    picked.prop_flat_map(|picked| vec(draw(picked), 0..5))
}

/// The draws of an index of tensors and whole dimensions.
fn tensor_draws() -> impl Strategy<Value = Vec<Draw>> {
    let mask = (1..3_usize, any::<bool>(), any::<u32>());
    let mask = mask.prop_map(|(dims, byte, seed)| Draw::Mask(dims, byte, seed));
    let picked = vec(prop_oneof![1 => Just(0), 2 => Just(1), 6 => 2..4_i64], 1..3);
    (picked, mask).prop_flat_map(|(picked, mask)| {
        vec(prop_oneof![2 => Just(Draw::Whole), 4 => picks(picked), 1 => Just(mask)], 1..4)
    })
}

/// A number from -size to size - 1; one time in 16, one beyond.
fn position(seed: u32, size: i64) -> i64 {
    let range = 2 * size.max(1);
    i64::from(seed / 16) % range - size.max(1) + if seed.is_multiple_of(16) { range } else { 0 }
}

/// A number from a seed, another one at every place.
fn mixed(seed: u32, at: i64) -> u32 {
    let x = (seed ^ (at as u32).wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
    (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35) >> 3
}

/// Index tensors are wrong more rarely, as they have many elements.
fn positions(layout: &Layout, dtype: DType, seed: u32, size: i64) -> Sample {
    let wrong = seed.is_multiple_of(16);
    layout.tensor(dtype, move |at| {
        let seed = mixed(seed, at);
        Number::new(position(if wrong { seed } else { seed | 1 }, size) as f64, 0.0)
    })
}

/// The items for a tensor of these sizes: no more than it has dimensions, and one ellipsis. What
/// follows that is for the last dimensions.
fn items(draws: &[Draw], sizes: &[i64]) -> Vec<Item> {
    let ellipsis = draws.iter().position(|draw| matches!(draw, Draw::Ellipsis));
    let (front, back) = draws.split_at(ellipsis.unwrap_or(draws.len()));
    let (mut rest, mut items) = (sizes, Vec::new());
    for draw in front.iter().filter(|draw| !matches!(draw, Draw::Ellipsis)) {
        if let Some((own, others)) = rest.split_at_checked(draw.dimensions()) {
            items.push(draw.item(own));
            rest = others;
        }
    }
    let mut last = Vec::new();
    for draw in back.iter().filter(|draw| !matches!(draw, Draw::Ellipsis)).rev() {
        if let Some(start) = rest.len().checked_sub(draw.dimensions()) {
            last.push(draw.item(&rest[start..]));
            rest = &rest[..start];
        }
    }
    items.extend(ellipsis.map(|_| Item::Ellipsis));
    items.extend(last.into_iter().rev());
    items
}

impl Draw {
    fn dimensions(&self) -> usize {
        match self {
            Self::Int(_) | Self::Slice(..) | Self::Whole | Self::Picks(..) => 1,
            Self::Mask(dims, ..) => *dims,
            Self::None | Self::Ellipsis | Self::Bool(_) => 0,
        }
    }

    /// The item for dimensions of these sizes.
    fn item(&self, sizes: &[i64]) -> Item {
        match self {
            Self::Int(seed) => Item::Int(position(*seed, sizes[0])),
            Self::Slice(a, b, step) => {
                let bound =
                    |seed: u32| (!seed.is_multiple_of(4)).then(|| position(seed / 4, sizes[0] + 1));
                Item::Slice(bound(*a), bound(*b), *step)
            }
            Self::Whole => Item::Slice(None, None, 1),
            Self::None => Item::None,
            Self::Ellipsis => Item::Ellipsis,
            Self::Bool(chosen) => Item::Bool(*chosen),
            Self::Picks(layout, narrow, seed) => {
                let dtype = if *narrow { DType::Int32 } else { DType::Int64 };
                Item::Picks(positions(layout, dtype, *seed, sizes[0]))
            }
            Self::Mask(_, byte, seed) => {
                Item::Mask(mask(sizes, if *byte { DType::UInt8 } else { DType::Bool }, *seed))
            }
        }
    }
}

/// A mask of these sizes; one time in 16, of a size too much. Transposed in memory.
fn mask(sizes: &[i64], dtype: DType, seed: u32) -> Sample {
    let mut sizes = sizes.to_vec();
    if let (Some(first), 0) = (sizes.first_mut(), seed % 16) {
        *first += 1;
    }
    let order: Vec<usize> = (0..sizes.len()).collect();
    let strides = crate::sample::packed(&sizes, &order);
    let layout = Layout { sizes, strides, offset: 1 };
    layout.tensor(dtype, move |at| Number::new(f64::from(mixed(seed, at) % 2), 0.0))
}

fn given(items: &[Item]) -> Vec<IndexItem> {
    let one = |item: &Item| match item {
        Item::Int(index) => IndexItem::Int(*index),
        Item::Slice(start, stop, step) => {
            IndexItem::Slice(Slice { start: *start, stop: *stop, step: Some(*step) })
        }
        Item::None => IndexItem::None,
        Item::Ellipsis => IndexItem::Ellipsis,
        Item::Bool(chosen) => IndexItem::Bool(*chosen),
        Item::Picks(tensor) | Item::Mask(tensor) => IndexItem::Tensor(tensor.view.clone()),
    };
    items.iter().map(one).collect()
}

/// Different numbers at neighbouring places.
fn labelled(layout: &Layout, dtype: DType) -> Sample {
    let small = small(dtype);
    layout.tensor(dtype, |at| match dtype.is_integral(false) || dtype.is_floating_point() {
        true => Number::new((at % 101) as f64, 0.0),
        false => small(at),
    })
}

/// One value through one mask is `masked_fill`, which knows no masks of bytes.
fn is_byte_mask(items: &[Item]) -> bool {
    let indices: Vec<&Item> = items.iter().filter(|item| item.is_index()).collect();
    matches!(indices[..], [Item::Mask(mask)]
        if mask.dtype() == DType::UInt8 && !mask.layout.sizes.is_empty())
}

/// What may be at each place after writes of `values` in any order.
fn possible(selected: &Selection, values: &[Number], at: usize) -> Vec<Number> {
    let writes = selected.places.iter().zip(values);
    writes.filter(|(place, _)| **place == at).map(|(_, value)| *value).collect()
}

/// Elements to which one value was written have it; to which several were, one of those.
fn check_written(
    target: &Sample,
    before: &[Number],
    selected: &Selection,
    values: &[Number],
) -> Result<(), TestCaseError> {
    for (at, (now, before)) in target.memory().iter().zip(before).enumerate() {
        let mut possible = possible(selected, values, at);
        if possible.is_empty() {
            possible.push(*before);
        }
        prop_assert!(possible.contains(now), "at {}: {} not in {:?}", at, now, possible);
    }
    Ok(())
}

/// Elements are moved whatever they are.
fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::NUMERIC)
}

/// A value of a part of the selected shape.
fn value_for(shape: &[i64], dtype: DType, seed: u32) -> Sample {
    let drop = seed as usize % 5;
    let drop = if drop > 2 { 0 } else { drop.min(shape.len()) };
    let mut sizes: Vec<i64> = shape[drop..].to_vec();
    for (dim, size) in sizes.iter_mut().enumerate() {
        *size = if mixed(seed, dim as i64).is_multiple_of(4) { 1 } else { *size };
    }
    if seed.is_multiple_of(7) {
        // Leading dimensions of size 1 are dropped.
        sizes.insert(0, 1);
    }
    let order: Vec<usize> = (0..sizes.len()).collect();
    let strides = crate::sample::packed(&sizes, &order);
    let small = small(dtype);
    Layout { sizes, strides, offset: 2 }.tensor(dtype, |at| small(at * 3 + i64::from(seed % 11)))
}

/// The elements of a value in the selected shape.
fn spread(value: &Sample, shape: &[i64]) -> Vec<Number> {
    let mut layout = value.layout.clone();
    while layout.sizes.len() > shape.len() {
        layout.sizes.remove(0);
        layout.strides.remove(0);
    }
    value.sibling(&layout.broadcast(shape)).values()
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn reading(
        layout in shape(4).prop_flat_map(layout),
        dtype in dtype(),
        draws in draws(),
    ) {
        let (x, items) = (labelled(&layout, dtype), items(&draws, &layout.sizes));
        let expected = select(&layout, &items);
        let result = get(&x.view, &given(&items));
        prop_assert_eq!(result.is_ok(), expected.is_some());
        if let (Ok(result), Some(expected)) = (result, expected) {
            prop_assert_eq!(result.sizes().to_vec(), expected.shape);
            let memory = x.memory();
            let values: Vec<Number> = expected.places.iter().map(|&at| memory[at]).collect();
            prop_assert_eq!(elements(&result), values);
            if let Some(operands) = expected.operands {
                let strides = strides::of_result(&result.sizes(), &operands);
                prop_assert_eq!(result.strides().to_vec(), strides);
            }
        }
    }

    #[test]
    fn writing_tensors(
        layout in shape(4).prop_flat_map(distinct),
        dtype in dtype(),
        draws in draws(),
        seed in any::<u32>(),
    ) {
        let (target, items) = (labelled(&layout, dtype), items(&draws, &layout.sizes));
        let (expected, before) = (select(&layout, &items), target.memory());
        let shape = expected.as_ref().map_or(&[][..], |selected| &selected.shape);
        let value = value_for(shape, dtype, seed);
        let expected = expected.filter(|_| value.layout.numel() != 1 || !is_byte_mask(&items));
        let result = set(&target.view, &given(&items), &value.view);
        prop_assert_eq!(result.is_ok(), expected.is_some(), "{:?}", result.err());
        match expected {
            Some(selected) => {
                let values = spread(&value, &selected.shape);
                check_written(&target, &before, &selected, &values)?;
            }
            None => prop_assert_eq!(target.memory(), before),
        }
    }

    /// A value broadcasts to what is selected, its leading dimensions of size 1 left out, or is
    /// refused and changes nothing.
    #[test]
    fn values_must_fit(
        layout in shape(4).prop_flat_map(distinct),
        draws in draws(),
        sizes in shape(3),
    ) {
        let (target, items) = (labelled(&layout, DType::Float32), items(&draws, &layout.sizes));
        let selected = select(&layout, &items);
        // `t[False] = value` does nothing with any value.
        prop_assume!(selected.is_some() && !matches!(items[..], [Item::Bool(false)]));
        let selected = selected.unwrap();
        let value = labelled(&Layout::contiguous(&sizes), DType::Float32);
        let ones = sizes.iter().take_while(|size| **size == 1).count();
        let fits = broadcast(&[&sizes[ones..], &selected.shape]).as_ref() == Some(&selected.shape);
        let fits = fits && (value.layout.numel() != 1 || !is_byte_mask(&items));
        let before = target.memory();
        let result = set(&target.view, &given(&items), &value.view);
        prop_assert_eq!(result.is_ok(), fits, "{:?}", result.err());
        prop_assert!(fits || target.memory() == before);
    }

    #[test]
    fn writing_numbers(
        layout in shape(4).prop_flat_map(distinct),
        dtype in dtype(),
        draws in draws(),
        number in prop_oneof![
            (-3..100_i64).prop_map(Scalar::Int),
            (0..9_i64).prop_map(|k| Scalar::Float(k as f64 * 0.5)),
            any::<bool>().prop_map(Scalar::Bool),
        ],
    ) {
        let (target, items) = (labelled(&layout, dtype), items(&draws, &layout.sizes));
        let (expected, before) = (select_to_fill(&layout, &items), target.memory());
        let expected = expected.filter(|_| !is_byte_mask(&items));
        let result = set_scalar(&target.view, &given(&items), number);
        prop_assert_eq!(result.is_ok(), expected.is_some(), "{:?}", result.err());
        let value = stored(Number::new(number.to_f64(), 0.0), dtype);
        match expected {
            Some(selected) => {
                let values = vec![value; selected.places.len()];
                check_written(&target, &before, &selected, &values)?;
            }
            None => prop_assert_eq!(target.memory(), before),
        }
    }

    /// With `accumulate`, every value is added, also where the index names an element twice.
    #[test]
    fn adding(
        layout in shape(4).prop_flat_map(distinct),
        dtype in prop::sample::select(&DTYPES[..]),
        draws in tensor_draws(),
        seed in any::<u32>(),
    ) {
        let tensor = |item: &Item| match item {
            Item::Picks(tensor) | Item::Mask(tensor) => !tensor.layout.sizes.is_empty(),
            _ => false,
        };
        // Indices of rank 0 are integers to Python only.
        let items = items(&draws, &layout.sizes);
        let items: Vec<Item> = items
            .into_iter()
            .filter(|item| matches!(item, Item::Slice(..)) || tensor(item))
            .collect();
        prop_assume!(items.iter().any(tensor));
        let small = small(dtype);
        let target = layout.tensor(dtype, &small);
        let (expected, before) = (select(&layout, &items), target.memory());
        let shape = expected.as_ref().map_or(&[][..], |selected| &selected.shape);
        // Only assignment drops leading dimensions.
        let value = value_for(shape, dtype, seed / 7 * 7 + 1);
        let indices: Vec<Option<Tensor>> = items.iter().map(|item| match item {
            Item::Picks(tensor) | Item::Mask(tensor) => Some(tensor.view.clone()),
            _ => None,
        }).collect();
        let indices = IValue::OptionalTensorList(indices);
        let arguments = [target.argument(), indices, value.argument(), IValue::Bool(true)];
        let result = call("index_put_", arguments);
        prop_assert_eq!(result.is_ok(), expected.is_some(), "{:?}", result.err());
        let mut memory = before;
        if let Some(selected) = expected {
            for (&at, value) in selected.places.iter().zip(spread(&value, &selected.shape)) {
                memory[at] = stored(memory[at] + value, dtype);
            }
        }
        prop_assert_eq!(target.memory(), memory);
    }
}
