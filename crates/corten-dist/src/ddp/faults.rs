//! What goes wrong with passes, in PyTorch's words.

use super::reducer::{Reducer, State};
use corten_core::{Error, Result, err};
use std::fmt::Write as _;

/// Fails if a pass was begun and gradients did not come.
pub(super) fn ensure_prior_reduction_finished(reducer: &Reducer, state: &State) -> Result<()> {
    if !state.needs_finalize {
        return Ok(());
    }
    if state.manual && state.next_bucket == state.buckets.len() {
        return Err(reducer.noted(err!(
            Runtime,
            "Expected to have finished reduction in the prior iteration before starting a new one. \
             The backward pass is complete, but finalize_backward() was not called."
        )));
    }
    const STATIC: &str = "Expected to have finished reduction in the prior iteration before starting \
        a new one. This error indicates that your training graph has changed in this iteration, \
        e.g., one parameter is used in first iteration, but then got unused in the second \
        iteration. this is not compatible with static_graph set to True.";
    const BASE: &str = "Expected to have finished reduction in the prior iteration before starting a \
        new one. This error indicates that your module has parameters that were not used in \
        producing loss. ";
    const ENABLE: &str = "You can enable unused parameter detection by passing the keyword argument \
        `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \n";
    const ENABLED: &str = "Since `find_unused_parameters=True` is enabled, this likely  means that \
        not all `forward` outputs participate in computing loss. You can fix this by ";
    const OUTPUTS: &str = "making sure all `forward` function outputs participate in calculating \
        loss. \nIf you already have done the above, then the distributed data parallel module \
        wasn't able to locate the output tensors in the return value of your module's `forward` \
        function. Please include the loss function and the structure of the return value of \
        `forward` of your module when reporting this issue (e.g. list, dict, iterable).";
    let mut message = if reducer.is_static() {
        STATIC.to_owned()
    } else {
        let advice = if reducer.options.find_unused_parameters { ENABLED } else { ENABLE };
        format!("{BASE}{advice}{OUTPUTS}")
    };
    let missing: Vec<usize> = (0..state.ready.len()).filter(|&index| !state.ready[index]).collect();
    let list = |names: Vec<String>, separator: &str| names.join(separator);
    let rank = reducer.group().rank();
    if reducer.options.names_in_errors {
        let names = missing.iter().map(|index| reducer.name_of(*index)).collect();
        let names = list(names, ", ");
        let _ = write!(message, "\nParameters which did not receive grad for rank {rank}: {names}");
    }
    let indices = list(missing.iter().map(usize::to_string).collect(), " ");
    let _ = write!(
        message,
        "\nParameter indices which did not receive grad for rank {rank}: {indices}"
    );
    if !reducer.options.names_in_errors {
        message.push_str(
            "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either \
             INFO or DETAIL to print out information about which particular parameters did not \
             receive gradient on this rank as part of this error",
        );
    }
    Err(reducer.noted(err!(Runtime, "{message}")))
}

/// A gradient came twice in a pass.
pub(super) fn ready_twice(reducer: &Reducer, index: usize) -> Error {
    let name = match reducer.options.names.get(&index) {
        Some(name) => format!(" with name {name}"),
        None => String::new(),
    };
    reducer.noted(err!(
        Runtime,
        "Expected to mark a variable ready only once. This error is caused by one of the following \
         reasons: 1) Use of a module parameter outside the `forward` function. Please make sure \
         model parameters are not shared across multiple concurrent forward-backward passes. or try \
         to use _set_static_graph() as a workaround if this module graph does not change during \
         training loop.2) Reused parameters in multiple reentrant backward passes. For example, if \
         you use multiple `checkpoint` functions to wrap the same part of your model, it would \
         result in the same set of parameters been used by different reentrant backward passes \
         multiple times, and hence marking a variable ready multiple times. DDP does not support \
         such use cases in default. You can try to use _set_static_graph() as a workaround if your \
         module graph does not change over iterations.\nParameter at index {index}{name} has been \
         marked as ready twice. This means that multiple autograd engine  hooks have fired for this \
         particular parameter during this iteration."
    ))
}

/// A parameter of a static graph has a gradient more often than in the first pass.
pub(super) fn graph_changed() -> Error {
    err!(
        Runtime,
        "Your training graph has changed in this iteration, e.g., one parameter is unused in first \
         iteration, but then got used in the second iteration. this is not compatible with \
         static_graph set to True."
    )
}

impl Reducer {
    /// Keeps an error for the logger.
    pub(super) fn noted(&self, error: Error) -> Error {
        self.timer.set_error(error.message());
        error
    }

    fn name_of(&self, index: usize) -> String {
        self.options.names.get(&index).cloned().unwrap_or_else(|| index.to_string())
    }
}
