//! Products of matrices: `c = beta * c + alpha * a @ b` at any strides, on one thread. Floats of 16
//! bits are summed as `f32` and rounded once; integers wrap around, and those of 8 and 16 bits are
//! summed as `i32`, which products of bytes may also be.
//!
//! It knows nothing of tensors and depends on nothing, so that it is optimised also where what
//! calls it is built for debugging.
//!
//! Results do not depend on how a caller cuts a product into parts that it computes in the same
//! [`Plan`]: the order in which the terms of an element are added up is that of the way.

mod driver;
mod kernel;
mod pack;
mod simd;
mod types;

pub use driver::epilogue::BatchStride;
pub use driver::gemm::{gemm, gemm_operands};
pub use driver::int8::{Int8, gemm_int8};
pub use driver::mixed_precision::{MixedPrecision, gemm_mixed};
pub use driver::plan::{MAX_SKINNY, Plan, packs_aliasing_rows};
pub use driver::prepacked::gemm_prepacked;
#[cfg(target_arch = "x86_64")]
pub use driver::prepacked_bf16::{PrepackedBf16, gemm_prepacked_bf16};
pub use kernel::select::Number;
pub use pack::operand::{ImplicitOperand, Operand, Segments};
pub use pack::prepacked::PrepackedB;
pub use types::accumulate::Accumulate;
pub use types::cache::CacheSizes;
pub use types::isa::Isa;
#[cfg(target_arch = "x86_64")]
pub use types::isa::has_amx;
pub use types::low_precision::{Bf16, F16, LowPrecision};
pub use types::params::{L1_ALIAS_STRIDE, PACK_PADDING};
pub use types::view::{MatrixRef, View};
