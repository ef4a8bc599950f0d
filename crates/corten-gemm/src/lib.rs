//! GEMM, `c = beta * c + alpha * a @ b` at any strides, on one thread. 16-bit floats are accumulated in
//! `f32` and rounded once; integers wrap around, and those of 8 and 16 bits are accumulated in `i32`,
//! which results of int8 may also be.
//!
//! It is layered as BLIS is: `types`, `simd` (vectors of an instruction set), `pack` (packing),
//! `kernel` (micro-kernels and GEMV kernels) and `driver` (the loops around them, and the choice of
//! an algorithm). A layer knows those before it.
//!
//! It knows nothing of tensors and depends on nothing, so that it is optimised also where its callers
//! are built for debugging.
//!
//! Results do not depend on how a caller partitions a product that it computes by one [`Plan`], which
//! determines the order of summation.

mod driver;
mod kernel;
mod pack;
mod simd;
mod types;

pub use driver::depthwise_int8::DepthwiseInt8;
pub use driver::epilogue::BatchStride;
pub use driver::gemm::{gemm, gemm_operands};
pub use driver::int8::{Int8, gemm_int8};
pub use driver::mixed_precision::{MixedPrecision, gemm_mixed};
pub use driver::plan::{MAX_SKINNY, Plan, packs_aliasing_rows};
pub use driver::prepacked::gemm_prepacked;
#[cfg(target_arch = "x86_64")]
pub use driver::prepacked_bf16::{PrepackedBf16, gemm_prepacked_bf16};
pub use driver::prepacked_int8::{ByteRows, PrepackedInt8, gemm_prepacked_int8};
pub use driver::requantize::{Output, Requantize, Rounding, quantize, range};
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
