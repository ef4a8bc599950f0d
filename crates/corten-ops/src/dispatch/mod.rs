//! The dispatcher: from a call's tensors to a kernel.
//!
//! Every overload has one static [`TypedOp`] with a table of kernels, one place per runtime key.
//! A typed call computes the key set of its tensors, applies the thread's include and exclude
//! sets, and reads one place of the table. Places are filled on first use from what was
//! registered (see Note [Lazy dispatch tables]).

mod fallback;
mod groups;
mod keys;
mod negative_strides;
mod registration;
mod table;
mod widened;

pub(crate) use fallback::restore;
pub use fallback::{
    Unrecorded, install_default_fallbacks, remove_fallback, replace_arguments, replace_tensors,
    set_fallback, set_fallthrough_fallback, set_unrecorded,
};
pub use keys::KeyBuilder;
pub(crate) use negative_strides::passes as passes_negative_strides;
pub use registration::Registration;
pub(crate) use table::OpTable;
pub use table::{BoxedCall, BoxedKernel, Found, Signed, TypedOp};

/// What a kernel is registered to: a runtime key, or an alias for a group of them.
pub use corten_core::DispatchKey as Target;
