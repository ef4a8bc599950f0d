//! Walks over tensors that lie in order, planned from their sizes alone.

use super::{Hold, Operand, Start, TensorIterator};
use crate::Tensor;
use corten_core::{DType, Device, Dims};
use smallvec::SmallVec;

/// Neighbouring dimensions that go, or stay, together: one dimension of the walk.
#[derive(Clone, Copy, Default)]
struct Run {
    size: i64,
    /// Elements of the input from one step to the next.
    from: i64,
    /// Elements of the results from one step to the next: none where the dimensions go.
    to: i64,
    goes: bool,
}

/// The dimensions of a walk, the fastest one first.
struct Runs {
    runs: SmallVec<[Run; 4]>,
    numel: i64,
}

impl Runs {
    fn of(sizes: &[i64], reduced: &[bool]) -> Self {
        let mut runs: SmallVec<[Run; 4]> = SmallVec::new_const();
        let (mut from, mut to) = (1, 1);
        for (&size, &goes) in sizes.iter().zip(reduced).rev() {
            if size == 1 {
                continue;
            }
            match runs.last_mut().filter(|run| run.goes == goes) {
                Some(run) => run.size *= size,
                None => runs.push(Run { size, from, to: if goes { 0 } else { to }, goes }),
            }
            from *= size;
            if !goes {
                to *= size;
            }
        }
        Self { runs, numel: from }
    }

    /// A value of every run: of those that go first.
    fn list(&self, value: impl Fn(&Run) -> i64) -> Dims {
        let mut list = Dims::new_const();
        for goes in [true, false] {
            for run in &self.runs {
                if run.goes == goes {
                    list.push(value(run));
                }
            }
        }
        list
    }
}

impl TensorIterator {
    /// The walk of a copy between [plain](corten_core::TensorImpl::is_dense_cpu) tensors of the same
    /// sizes that share no memory.
    pub(crate) fn in_order(output: &Tensor, input: &Tensor) -> Self {
        Self::along_one(&[output, input], input.numel())
    }

    /// A walk of no steps over a copy's operands.
    pub(crate) fn nothing(output: &Tensor, input: &Tensor) -> Self {
        Self::along_one(&[output, input], 0)
    }

    /// The walk of a [plain](corten_core::TensorImpl::is_dense_cpu) tensor that is written alone.
    pub(crate) fn over(output: &Tensor) -> Self {
        Self::along_one(&[output], output.numel())
    }

    /// A walk of one dimension over tensors of which the first is the output.
    fn along_one(tensors: &[&Tensor], numel: i64) -> Self {
        let mut operands = Vec::with_capacity(tensors.len());
        for &tensor in tensors {
            let (dtype, is_output) = (tensor.dtype(), operands.is_empty());
            let mut strides = Dims::new_const();
            strides.push(dtype.itemsize() as i64);
            operands.push(Operand::walked(tensor.clone(), dtype, is_output, strides));
        }
        let mut shape = Dims::new_const();
        shape.push(numel);
        Self {
            operands,
            outputs: 1,
            shape,
            perm: Dims::new_const(),
            numel,
            common_dtype: tensors[tensors.len() - 1].dtype(),
            device: tensors[0].device(),
            is_reduction: false,
            all_same_shape: true,
            coalesced: true,
            is_final: true,
            accumulates: false,
            hold: Hold::Free,
        }
    }

    /// The walk of a reduction of a [plain](corten_core::TensorImpl::is_dense_cpu) tensor of more than
    /// one element into fresh results in order: what building one comes to.
    pub(crate) fn reducing(
        results: Vec<Tensor>,
        input: &Tensor,
        sizes: &[i64],
        reduced: &[bool],
    ) -> Self {
        let (runs, outputs) = (Runs::of(sizes, reduced), results.len());
        // Bounded: operands.
        let mut operands = Vec::with_capacity(outputs + 1);
        for result in results {
            let dtype = result.dtype();
            let strides = runs.list(|run| run.to.wrapping_mul(dtype.itemsize() as i64));
            operands.push(Operand::walked(result, dtype, true, strides));
        }
        let dtype = input.dtype();
        let strides = runs.list(|run| run.from.wrapping_mul(dtype.itemsize() as i64));
        operands.push(Operand::walked(input.clone(), dtype, false, strides));
        Self {
            operands,
            outputs,
            shape: runs.list(|run| run.size),
            perm: Dims::new_const(),
            numel: runs.numel,
            common_dtype: dtype,
            device: Device::CPU,
            is_reduction: true,
            all_same_shape: false,
            coalesced: sizes.len() > 1,
            is_final: true,
            accumulates: false,
            hold: Hold::Free,
        }
    }
}

impl TensorIterator {
    /// The walk of a reduction of dense rows to one element each, over memory that the caller holds and that need
    /// not belong to the tensors: these stand for the dtypes of output and input. `sizes` are the length of a row
    /// and the number of rows, `pitches` the bytes from one row to the next, in the output and in the input.
    ///
    /// # Safety
    /// While the iterator is used the input must be readable at its address, and the output writable by this
    /// thread alone, for elements of these dtypes.
    pub unsafe fn of_rows(
        tensors: [&Tensor; 2],
        at: [*mut u8; 2],
        sizes: [i64; 2],
        pitches: [i64; 2],
    ) -> Self {
        let mut operands = Vec::with_capacity(2);
        for (i, tensor) in tensors.into_iter().enumerate() {
            let dtype = tensor.dtype();
            let inner = if i == 0 { 0 } else { dtype.itemsize() as i64 };
            let strides = Dims::from_slice(&[inner, pitches[i]]);
            let mut operand = Operand::walked(tensor.clone(), dtype, i == 0, strides);
            operand.start = Start(at[i]);
            operands.push(operand);
        }
        Self {
            operands,
            outputs: 1,
            shape: Dims::from_slice(&sizes),
            perm: Dims::new_const(),
            numel: sizes[0] * sizes[1],
            common_dtype: tensors[1].dtype(),
            device: Device::CPU,
            is_reduction: true,
            all_same_shape: false,
            coalesced: true,
            is_final: true,
            accumulates: false,
            hold: Hold::Parent,
        }
    }
}

impl Operand {
    /// An operand in host memory whose strides in bytes are known.
    fn walked(tensor: Tensor, dtype: DType, is_output: bool, strides: Dims) -> Self {
        Self {
            tensor,
            original: None,
            result: None,
            sizes: Dims::new_const(),
            strides,
            byte_offset: 0,
            dtype,
            device: Device::CPU,
            is_output,
            read_write: false,
            will_resize: false,
            fresh: false,
            start: Start(std::ptr::null_mut()),
            inline: None,
        }
    }
}
