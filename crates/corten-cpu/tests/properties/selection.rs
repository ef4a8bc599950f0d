//! The twin of indexing: the places in the storage that an index names.
//!
//! Items are applied from left to right. Integers select at once; slices, `None` and truth values
//! are dimensions of the view; tensors and truth values are remembered with the dimension they are
//! for. In the end all remembered indices broadcast together and replace their dimensions, in place
//! where those are neighbours and in front where they are not.

use crate::sample::{Layout, Number, Sample};
use crate::strides;
use corten_core::DType;

/// One item of an index.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Int(i64),
    Slice(Option<i64>, Option<i64>, i64),
    None,
    Ellipsis,
    Bool(bool),
    /// Integers that pick positions.
    Picks(Sample),
    /// Truth values over as many dimensions as the mask has.
    Mask(Sample),
}

/// What an index selects.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) shape: Vec<i64>,
    /// The place in the storage of each element, in row-major order.
    pub(crate) places: Vec<usize>,
    /// What decides the strides of a copy: the view, with stride 0 where an index decides, and the
    /// index tensors. `None` for a view.
    pub(crate) operands: Option<Vec<Layout>>,
}

/// Positions along one dimension, one for each element of `shape`.
struct Index {
    layout: Layout,
    at: Vec<i64>,
}

impl Index {
    fn vector(at: Vec<i64>) -> Self {
        Self { layout: Layout::contiguous(&[at.len() as i64]), at }
    }
}

#[derive(Clone, Copy)]
struct Dimension {
    size: i64,
    stride: i64,
}

/// What `t[items]` selects from a tensor of this layout; `None` if the index does not fit.
pub(crate) fn select(layout: &Layout, items: &[Item]) -> Option<Selection> {
    walked(layout, items, false)
}

/// What `t[items] = number` fills. One index of 64 bits goes to `index_fill_`, which accepts
/// something of nothing.
pub(crate) fn select_to_fill(layout: &Layout, items: &[Item]) -> Option<Selection> {
    let indices: Vec<&Item> = items.iter().filter(|item| item.is_index()).collect();
    let one = matches!(indices[..], [Item::Picks(picks)] if picks.dtype() == DType::Int64);
    walked(layout, items, one)
}

impl Item {
    /// Whether the item is more than a view.
    pub(crate) fn is_index(&self) -> bool {
        match self {
            Self::Picks(picks) => !picks.layout.sizes.is_empty(),
            Self::Mask(_) | Self::Bool(_) => true,
            _ => false,
        }
    }
}

fn walked(layout: &Layout, items: &[Item], lenient: bool) -> Option<Selection> {
    let mut walk = ItemWalk {
        lenient,
        rest: dimensions(layout),
        done: Vec::new(),
        indices: Vec::new(),
        offset: layout.offset,
    };
    let named: usize = items.iter().map(dimensions_of).sum();
    let left = layout.sizes.len().checked_sub(named)?;
    for item in items {
        walk.apply(item, left)?;
    }
    walk.skip(walk.rest.len());
    walk.finish()
}

fn dimensions(layout: &Layout) -> Vec<Dimension> {
    let pairs = layout.sizes.iter().zip(&layout.strides);
    pairs.map(|(&size, &stride)| Dimension { size, stride }).collect()
}

fn dimensions_of(item: &Item) -> usize {
    match item {
        Item::Int(_) | Item::Slice(..) | Item::Picks(_) => 1,
        Item::Mask(mask) => mask.layout.sizes.len(),
        _ => 0,
    }
}

struct ItemWalk {
    /// Whether nothing may be asked for something.
    lenient: bool,
    /// The dimensions of the tensor that no item was for yet.
    rest: Vec<Dimension>,
    /// The dimensions of the view so far.
    done: Vec<Dimension>,
    /// Which dimension of the view is indexed by what.
    indices: Vec<(usize, Index)>,
    offset: i64,
}

impl ItemWalk {
    fn skip(&mut self, count: usize) {
        self.done.extend(self.rest.drain(..count));
    }

    fn apply(&mut self, item: &Item, left: usize) -> Option<()> {
        match item {
            Item::Int(index) => self.int(*index)?,
            Item::Slice(start, stop, step) => self.slice(*start, *stop, *step),
            Item::None => self.insert(),
            Item::Ellipsis => self.skip(left),
            Item::Bool(chosen) => {
                self.insert();
                self.index(Index::vector(vec![0; usize::from(*chosen)]));
            }
            Item::Picks(picks) => self.picks(picks)?,
            Item::Mask(mask) => self.mask(mask)?,
        }
        Some(())
    }

    /// A new dimension is as wide as what follows.
    fn insert(&mut self) {
        let stride = self.rest.first().map_or(1, |next| next.size * next.stride);
        self.done.push(Dimension { size: 1, stride });
    }

    fn int(&mut self, index: i64) -> Option<()> {
        let Dimension { size, stride } = self.rest.remove(0);
        self.offset += wrapped(index, size)? * stride;
        Some(())
    }

    fn slice(&mut self, start: Option<i64>, stop: Option<i64>, step: i64) {
        let Dimension { size, stride } = self.rest.remove(0);
        let bound = |at: i64| (if at < 0 { at + size } else { at }).clamp(0, size);
        let (start, stop) = (start.map_or(0, bound), stop.map_or(size, bound));
        self.offset += start * stride;
        let size = (start..stop).step_by(step as usize).count() as i64;
        self.done.push(Dimension { size, stride: stride * step });
    }

    /// Remembers an index for the last dimension of the view.
    fn index(&mut self, index: Index) {
        self.indices.push((self.done.len() - 1, index));
    }

    /// A single integer is a selection.
    fn picks(&mut self, picks: &Sample) -> Option<()> {
        let at: Vec<i64> = picks.values().iter().map(|value| value.re as i64).collect();
        if picks.layout.sizes.is_empty() {
            return self.int(at[0]);
        }
        self.skip(1);
        let (sizes, kept) = (&picks.layout.sizes, &picks.layout);
        // Indices of 32 bits are converted.
        let strides = match picks.dtype() {
            DType::Int64 => kept.strides.clone(),
            _ => strides::of_copy(kept),
        };
        self.index(Index { layout: Layout { sizes: sizes.clone(), strides, offset: 0 }, at });
        Some(())
    }

    /// A mask is one index per dimension: the places where it is true. A single truth value is a
    /// dimension.
    fn mask(&mut self, mask: &Sample) -> Option<()> {
        let sizes = &mask.layout.sizes;
        if sizes.is_empty() {
            return self.apply(&Item::Bool(mask.values()[0].re == 1.0), 0);
        }
        let own = self.rest.iter().map(|dimension| dimension.size);
        own.take(sizes.len()).eq(sizes.iter().copied()).then_some(())?;
        for at in true_places(sizes, &mask.values()) {
            self.skip(1);
            self.index(Index::vector(at));
        }
        Some(())
    }

    fn finish(self) -> Option<Selection> {
        let shapes: Vec<&[i64]> =
            self.indices.iter().map(|(_, index)| &index.layout.sizes[..]).collect();
        let picked = broadcast(&shapes)?;
        let indexed: Vec<usize> = self.indices.iter().map(|(dim, _)| *dim).collect();
        let neighbours = indexed.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let front = if neighbours { indexed.first().copied().unwrap_or(0) } else { 0 };
        let kept: Vec<Dimension> = (0..self.done.len())
            .filter(|dim| !indexed.contains(dim))
            .map(|dim| self.done[dim])
            .collect();
        let distances = self.distances(&picked, &kept)?;
        let parts = Parts { before: &kept[..front], picked, after: &kept[front..] };
        let mut places = parts.along(vec![self.offset], parts.before);
        places = places.iter().flat_map(|at| distances.iter().map(move |d| at + d)).collect();
        places = parts.along(places, parts.after);
        Some(Selection {
            shape: parts.shape(),
            places: places.into_iter().map(|at| at as usize).collect(),
            operands: (!indexed.is_empty()).then(|| parts.operands(&self.indices)),
        })
    }

    /// How far each position of the broadcast indices is from the first element; `None` if one is
    /// out of range. With nothing to select, PyTorch does not look at the indices, except that
    /// something of nothing cannot be asked for.
    fn distances(&self, picked: &[i64], kept: &[Dimension]) -> Option<Vec<i64>> {
        let mut distances = vec![0; picked.iter().product::<i64>() as usize];
        let nothing = kept.iter().any(|dimension| dimension.size == 0);
        for (dim, index) in &self.indices {
            let Dimension { size, stride } = self.done[*dim];
            let own = Layout::contiguous(&index.layout.sizes).broadcast(picked).positions();
            for (distance, own) in distances.iter_mut().zip(own) {
                match nothing && (size > 0 || self.lenient) {
                    true => {}
                    false => *distance += wrapped(index.at[own], size)? * stride,
                }
            }
        }
        Some(distances)
    }
}

/// The dimensions of a result: those before the picked ones, these, and those after.
struct Parts<'a> {
    before: &'a [Dimension],
    picked: Vec<i64>,
    after: &'a [Dimension],
}

impl Parts<'_> {
    /// Every place followed by those along more dimensions.
    fn along(&self, places: Vec<i64>, dimensions: &[Dimension]) -> Vec<i64> {
        dimensions.iter().fold(places, |places, dimension| {
            let steps = |at| (0..dimension.size).map(move |i| at + i * dimension.stride);
            places.into_iter().flat_map(steps).collect()
        })
    }

    /// One number per dimension of the result.
    fn each(&self, of: impl Fn(&Dimension) -> i64 + Copy, picked: &[i64]) -> Vec<i64> {
        let before = self.before.iter().map(of);
        before.chain(picked.iter().copied()).chain(self.after.iter().map(of)).collect()
    }

    fn shape(&self) -> Vec<i64> {
        self.each(|dimension| dimension.size, &self.picked)
    }

    fn operands(&self, indices: &[(usize, Index)]) -> Vec<Layout> {
        let nowhere = vec![0; self.picked.len()];
        let strides = self.each(|dimension| dimension.stride, &nowhere);
        let mut operands = vec![Layout { sizes: self.shape(), strides, offset: 0 }];
        for (_, index) in indices {
            let sizes = self.each(|_| 1, &self.picked);
            let strides = strides::of_view(&index.layout.broadcast(&self.picked), &sizes);
            operands.push(Layout { sizes, strides, offset: 0 });
        }
        operands
    }
}

/// An index that may count from the end.
pub(crate) fn wrapped(index: i64, size: i64) -> Option<i64> {
    (-size..size).contains(&index).then_some(if index < 0 { index + size } else { index })
}

/// The shape to which all broadcast.
pub(crate) fn broadcast(shapes: &[&[i64]]) -> Option<Vec<i64>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut all = vec![1; rank];
    for shape in shapes {
        for (to, &size) in all[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*to, size) {
                (1, size) => *to = size,
                (to, size) if size == to || size == 1 => {}
                _ => return None,
            }
        }
    }
    Some(all)
}

/// The coordinates of the true values, one list per dimension.
pub(crate) fn true_places(sizes: &[i64], values: &[Number]) -> Vec<Vec<i64>> {
    let chosen = (0..values.len()).filter(|at| values[*at] != Number::new(0.0, 0.0));
    let chosen: Vec<Vec<i64>> = chosen.map(|at| coordinates(sizes, at)).collect();
    (0..sizes.len()).map(|dim| chosen.iter().map(|at| at[dim]).collect()).collect()
}

/// The coordinates of a row-major position.
pub(crate) fn coordinates(sizes: &[i64], at: usize) -> Vec<i64> {
    let mut rest = at as i64;
    let mut coordinates: Vec<i64> = sizes
        .iter()
        .rev()
        .map(|size| {
            let coordinate = rest % size;
            rest /= size;
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}
