//! Strides: the fast path, the order of dimensions, the allocation of outputs, and merging.

use super::config::Rules;
use super::resize::resize_output;
use super::types::allocate;
use super::{Operand, TensorIterator};
use corten_core::{Dims, MemoryFormat, Result, TensorBase};
use smallvec::smallvec;
use std::cmp::Ordering;

/// A memory layout shared by all operands, which makes the walk one-dimensional.
enum Shared {
    Contiguous,
    ChannelsLast,
    /// The strides of this operand.
    Dense(usize),
}

impl TensorIterator {
    /// Plans a one-dimensional walk when all operands have the same dense layout. Returns whether
    /// it did.
    pub(crate) fn fast_setup(&mut self, rules: &Rules) -> Result<bool> {
        if self.is_reduction || !self.all_same_shape {
            return Ok(false);
        }
        let Some(shared) = self.shared_layout(rules) else { return Ok(false) };
        for i in 0..self.outputs {
            if !self.operands[i].has_geometry() {
                self.allocate_like(i, &shared)?;
            }
        }
        let rank = self.shape.len();
        self.perm = (0..rank as i64).rev().collect();
        self.coalesced = rank > 1;
        self.shape = if rank == 0 { Dims::new() } else { smallvec![self.numel] };
        for operand in &mut self.operands {
            let itemsize = operand.dtype.itemsize() as i64;
            operand.strides = if rank == 0 { Dims::new() } else { smallvec![itemsize] };
        }
        Ok(true)
    }

    fn shared_layout(&self, rules: &Rules) -> Option<Shared> {
        let given = || self.operands.iter().filter(|operand| operand.has_geometry());
        if given().all(|operand| operand.tensor.is_contiguous()) {
            return Some(Shared::Contiguous);
        }
        if rules.enforce_linear_iteration {
            return None;
        }
        let channels_last = MemoryFormat::ChannelsLast;
        if given().all(|operand| operand.tensor.is_contiguous_for(channels_last)) {
            return Some(Shared::ChannelsLast);
        }
        // The last operand decides, so that an input does before an output.
        let last = self.operands.iter().rposition(Operand::has_geometry)?;
        let strides = &self.operands[last].strides;
        given()
            .all(|operand| {
                operand.strides == *strides && operand.tensor.is_non_overlapping_and_dense()
            })
            .then_some(Shared::Dense(last))
    }

    fn allocate_like(&mut self, i: usize, shared: &Shared) -> Result<()> {
        let strides = match shared {
            Shared::Contiguous => None,
            Shared::Dense(from) => Some(self.operands[*from].strides.clone()),
            Shared::ChannelsLast => {
                Some(corten_core::geometry::channels_last_strides(&self.shape)?)
            }
        };
        self.operands[i].provide(&self.shape, strides.as_deref())
    }

    /// Strides in bytes along the broadcast shape; 0 where an operand repeats.
    pub(crate) fn compute_strides(&mut self) {
        let shape = &self.shape;
        for operand in self.operands.iter_mut().filter(|operand| operand.has_geometry()) {
            let itemsize = operand.dtype.itemsize() as i64;
            let missing = shape.len() - operand.sizes.len();
            let mut strides: Dims = smallvec![0; shape.len()];
            for (i, (&size, &stride)) in operand.sizes.iter().zip(&operand.strides).enumerate() {
                if size != 1 || shape[missing + i] == 1 {
                    strides[missing + i] = stride.wrapping_mul(itemsize);
                }
            }
            operand.strides = strides;
        }
    }

    /// Puts the dimensions in the order of the operands' memory, fastest first.
    pub(crate) fn reorder_dimensions(&mut self, keep_logical_order: bool) {
        if self.shape.len() <= 1 {
            self.perm = smallvec![0; self.shape.len()];
            return;
        }
        let mut order: Dims = (0..self.shape.len() as i64).rev().collect();
        if !keep_logical_order {
            sort_dimensions(&mut order, |a, b| self.compare_dimensions(a, b));
        }
        let permuted = |values: &Dims| order.iter().map(|&dim| values[dim as usize]).collect();
        self.shape = permuted(&self.shape);
        for operand in self.operands.iter_mut().filter(|operand| operand.has_geometry()) {
            operand.strides = permuted(&operand.strides);
        }
        self.perm = order;
    }

    /// Which of two dimensions is the faster one; see Note [Ambiguous dimensions].
    fn compare_dimensions(&self, a: usize, b: usize) -> Option<Ordering> {
        for operand in self.operands.iter().filter(|operand| operand.has_geometry()) {
            let strides = (operand.strides[a], operand.strides[b]);
            if self.is_reduction && operand.is_output && (strides.0 == 0) != (strides.1 == 0) {
                // Reduced dimensions go to the front.
                return Some(if strides.0 == 0 { Ordering::Less } else { Ordering::Greater });
            }
            if let Some(decided) = compare_strides((self.shape[a], self.shape[b]), strides) {
                return Some(decided);
            }
        }
        None
    }

    /// Allocates undefined outputs and resizes others, with the walk's order of dimensions.
    pub(crate) fn allocate_or_resize_outputs(&mut self) -> Result<()> {
        let rank = self.shape.len();
        for i in 0..self.outputs {
            if self.operands[i].has_geometry() {
                continue;
            }
            let itemsize = self.operands[i].dtype.itemsize() as i64;
            let (mut sizes, mut strides): (Dims, Dims) = (smallvec![0; rank], smallvec![0; rank]);
            let (mut walked, mut step): (Dims, i64) = (Dims::new(), 1);
            for (&size, &dim) in self.shape.iter().zip(&self.perm) {
                sizes[dim as usize] = size;
                strides[dim as usize] = step;
                // What is too large is refused where it is allocated.
                walked.push(step.wrapping_mul(itemsize));
                step = step.wrapping_mul(size);
            }
            let plain = self.perm.iter().rev().enumerate().all(|(k, &dim)| k as i64 == dim);
            self.operands[i].provide(&sizes, (!plain).then_some(&strides))?;
            self.operands[i].strides = walked;
        }
        Ok(())
    }

    /// Merges neighbouring dimensions that every operand walks as one.
    pub(crate) fn coalesce_dimensions(&mut self) {
        let rank = self.shape.len();
        if rank <= 1 {
            return;
        }
        let mut last = 0;
        for dim in 1..rank {
            if self.can_merge(last, dim) {
                if self.shape[last] == 1 {
                    self.move_strides(dim, last);
                }
                self.shape[last] *= self.shape[dim];
                continue;
            }
            last += 1;
            if last != dim {
                self.move_strides(dim, last);
                self.shape[last] = self.shape[dim];
            }
        }
        self.shape.truncate(last + 1);
        for operand in &mut self.operands {
            operand.strides.truncate(last + 1);
        }
        self.coalesced = true;
    }

    fn can_merge(&self, inner: usize, outer: usize) -> bool {
        let (inner_size, outer_size) = (self.shape[inner], self.shape[outer]);
        inner_size == 1
            || outer_size == 1
            || self
                .operands
                .iter()
                .all(|operand| inner_size * operand.strides[inner] == operand.strides[outer])
    }

    fn move_strides(&mut self, from: usize, to: usize) {
        for operand in &mut self.operands {
            operand.strides[to] = operand.strides[from];
        }
    }
}

impl Operand {
    /// Allocates the operand, or resizes the caller's output, with these sizes and strides.
    fn provide(&mut self, sizes: &[i64], strides: Option<&[i64]>) -> Result<()> {
        if self.will_resize {
            let given = self.original.as_ref().unwrap_or(&self.tensor);
            resize_output(given, sizes)?;
            if let Some(strides) = strides {
                given.set_sizes_and_strides(sizes, strides, given.storage_offset())?;
            }
        }
        if !self.tensor.defined() {
            self.tensor = allocate(sizes, strides, self.dtype, self.device)?;
            self.fresh = true;
        }
        self.will_resize = false;
        Ok(())
    }
}

/// Sorts dimensions from the fastest to the slowest with a comparison that may not decide.
//
// Note [Ambiguous dimensions]
// An operand that repeats along a dimension (stride 0) says nothing about its place. With no
// operand left to ask, the pair stays as it is and the search goes on with slower dimensions,
// which is why this is an insertion sort and not a library sort: the relation is no total
// order, and output strides, which programs compare, depend on this procedure.
fn sort_dimensions(order: &mut [i64], compare: impl Fn(usize, usize) -> Option<Ordering>) {
    for i in 1..order.len() {
        let mut moving = i;
        for other in (0..i).rev() {
            match compare(order[other] as usize, order[moving] as usize) {
                Some(Ordering::Greater) => {
                    order.swap(other, moving);
                    moving = other;
                }
                Some(_) => break,
                None => {}
            }
        }
    }
}

/// The order of two dimensions by one tensor's strides.
fn compare_strides(sizes: (i64, i64), strides: (i64, i64)) -> Option<Ordering> {
    let (a, b) = (strides.0.abs(), strides.1.abs());
    if a == 0 || b == 0 {
        return None;
    }
    match a.cmp(&b) {
        Ordering::Equal => (sizes.0 > sizes.1).then_some(Ordering::Greater),
        decided => Some(decided),
    }
}

/// The strides that a copy keeping the layout gets (`preserve_format`): those of a dense tensor;
/// otherwise dense strides in the order of the tensor's own.
pub(crate) fn preserved_strides(tensor: &TensorBase) -> Dims {
    let (sizes, old) = (tensor.sizes(), tensor.strides());
    if tensor.is_non_overlapping_and_dense() {
        return old;
    }
    let mut order: Dims = (0..sizes.len() as i64).rev().collect();
    sort_dimensions(&mut order, |a, b| compare_strides((sizes[a], sizes[b]), (old[a], old[b])));
    let mut strides: Dims = smallvec![0; sizes.len()];
    let mut step = 1;
    for &dim in &order {
        strides[dim as usize] = step;
        step *= sizes[dim as usize].max(1);
    }
    strides
}
