//! Trading time for memory: running a part of the forward pass again in the backward pass.

use crate::graph;
use crate::modes::enable_grad;
use crate::saved_hooks::{SavedTensorHooks, saved_tensors_hooks};
use corten_core::{DType, Device, Dims, Result, bail, default_cpu_generator, ensure};
use corten_ops::Tensor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs `function` without keeping what its operators save; the backward pass runs it again when
/// it needs that.
///
/// `function` must do the same both times. The state of the random number generator is put back
/// for the second run.
///
/// # Errors
/// Those of `function`; in the backward pass also when the second run saves other tensors.
pub fn checkpoint(
    function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    let frame = Arc::new(Frame {
        function: Box::new(function),
        inputs: inputs.to_vec(),
        random_state: default_cpu_generator().get_state(),
        state: Mutex::default(),
    });
    let (packing, unpacking) = (frame.clone(), frame.clone());
    let hooks = SavedTensorHooks::new(
        move |tensor| Ok(Arc::new(packing.place(tensor))),
        move |packed| match packed.downcast_ref::<usize>() {
            Some(&index) => unpacking.recomputed(index),
            None => bail!(Internal, "a checkpoint was given a foreign placeholder"),
        },
    );
    saved_tensors_hooks(hooks, || (frame.function)(inputs))
}

type Forward = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// One checkpointed call.
struct Frame {
    function: Box<Forward>,
    inputs: Vec<Tensor>,
    random_state: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the first run saved, in order.
    expected: Vec<Expected>,
    /// What the second run saved, until it was used.
    recomputed: Vec<Option<Tensor>>,
}

#[derive(PartialEq, Debug)]
struct Expected {
    sizes: Dims,
    dtype: DType,
    device: Device,
}

impl Expected {
    fn of(tensor: &Tensor) -> Self {
        Self { sizes: tensor.sizes(), dtype: tensor.dtype(), device: tensor.device() }
    }
}

impl Frame {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, tensor: &Tensor) -> usize {
        let mut state = self.state();
        state.expected.push(Expected::of(tensor));
        state.expected.len() - 1
    }

    /// What the second run saved at `index`; runs it if that was not done yet or used up.
    fn recomputed(&self, index: usize) -> Result<Tensor> {
        if let Some(tensor) = self.take(index) {
            return Ok(tensor);
        }
        let saved = self.run_again()?;
        self.check(&saved)?;
        let old = {
            let saved = saved.into_iter().map(Some).collect();
            std::mem::replace(&mut self.state().recomputed, saved)
        };
        drop(old);
        match self.take(index) {
            Some(tensor) => Ok(tensor),
            None => bail!(Internal, "a checkpoint lost the tensor {index}"),
        }
    }

    fn take(&self, index: usize) -> Option<Tensor> {
        self.state().recomputed.get_mut(index)?.take()
    }

    fn run_again(&self) -> Result<Vec<Tensor>> {
        let saved = Arc::new(Mutex::new(Vec::new()));
        let collected = saved.clone();
        let hooks = SavedTensorHooks::new(
            move |tensor| {
                collected.lock().unwrap_or_else(PoisonError::into_inner).push(tensor.clone());
                Ok(Arc::new(tensor.clone()))
            },
            |packed| match packed.downcast_ref::<Tensor>() {
                Some(tensor) => Ok(tensor.clone()),
                None => bail!(Internal, "a checkpoint was given a foreign placeholder"),
            },
        );
        let inputs = self.inputs.iter().map(detached_input).collect::<Result<Vec<_>>>()?;
        let generator = default_cpu_generator();
        let now = generator.get_state();
        generator.set_state(&self.random_state)?;
        let result = enable_grad(|| saved_tensors_hooks(hooks, || (self.function)(&inputs)));
        generator.set_state(&now)?;
        result?;
        let saved = std::mem::take(&mut *saved.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(saved)
    }

    fn check(&self, saved: &[Tensor]) -> Result<()> {
        let state = self.state();
        ensure!(
            saved.len() == state.expected.len(),
            Runtime,
            "checkpoint: A different number of tensors was saved during the original forward and \
             recomputation.\nNumber of tensors saved during forward: {}\nNumber of tensors saved \
             during recomputation: {}.",
            state.expected.len(),
            saved.len()
        );
        for (index, (saved, expected)) in saved.iter().zip(&state.expected).enumerate() {
            let found = Expected::of(saved);
            ensure!(
                found == *expected,
                Runtime,
                "checkpoint: Recomputed values for the following tensors have different metadata \
                 than during the forward pass.\ntensor at position {index}:\nsaved metadata: \
                 {expected:?}\nrecomputed metadata: {found:?}"
            );
        }
        Ok(())
    }
}

fn detached_input(input: &Tensor) -> Result<Tensor> {
    use crate::tensor_ext::Autograd;
    let alias = graph::detached_alias(input)?;
    if graph::requires_grad(input) { alias.requires_grad_(true) } else { Ok(alias) }
}
