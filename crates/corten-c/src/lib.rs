//! The C ABI of Corten: what `include/corten.h` declares.
//!
//! Everything that a C program sees begins with `corten_`. Functions that can fail return a status and leave a
//! message for their thread; no panic leaves them. Rust programs need this crate for one thing, to load operators
//! that were written in C: [`load_library`].
//!
//! ```no_run
//! # fn main() -> corten::Result<()> {
//! corten_c::load_library("./libmine.so")?;
//! # Ok(())
//! # }
//! ```
//!
//! Libraries of PyTorch's stable C ABI, `aoti_torch_*` and `torch_*`, are loaded by the same function, and [`provide`]
//! prepares the process for those that something else loads.
//!
//! `make c-library` makes the shared library `libcorten.so` and the static one of it.

mod allocator;
mod autograd;
mod call;
mod derivative;
mod files;
mod function;
mod kernels;
mod library;
mod load;
mod random;
mod stable;
mod status;
mod table;
mod tensor;
mod value;

pub use allocator::*;
pub use autograd::*;
pub use call::*;
pub use files::*;
pub use function::*;
pub use library::*;
pub use load::*;
pub use random::*;

pub use stable::{PythonObjects, provide, set_python_objects, stable_symbols};
pub use status::*;
pub use table::*;
pub use tensor::*;
pub use value::*;
