//! Products of matrices: by cuBLASLt where it is found and takes the operands, else by this crate's kernels.

mod handle;
mod layout;
mod library;
mod own;
mod plan;
mod settings;

use corten_core::{Complex, DType, Result, Scalar, not_implemented_for};
use corten_ops::Tensor;
use layout::Matrix;

pub use handle::current_blas_handle;
pub use library::{check_cublaslt, use_cublaslt};
pub use settings::{
    Reduction, allow_half_sums, allow_tf32, half_sums_allowed, only_warn_of_determinism, reduction,
    set_reduction, tf32_allowed,
};

/// What is done to the elements of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    None,
    Relu,
    /// GELU by tanh, as cuBLASLt has it.
    Gelu,
}

/// `out = activation(alpha * a @ b + beta * base)` for matrices or batches of them; a vector is a column.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    pub(crate) out: &'a Tensor,
    pub(crate) a: &'a Tensor,
    pub(crate) b: &'a Tensor,
    /// What is added: of a shape that is broadcast to the result's, or the result itself.
    pub(crate) base: Option<&'a Tensor>,
    pub(crate) alpha: Scalar,
    pub(crate) beta: Scalar,
    pub(crate) activation: Activation,
}

impl<'a> Product<'a> {
    /// `out = a @ b`.
    pub(crate) fn of(out: &'a Tensor, a: &'a Tensor, b: &'a Tensor) -> Self {
        let (alpha, beta) = (Scalar::Int(1), Scalar::Int(0));
        Self { out, a, b, base: None, alpha, beta, activation: Activation::None }
    }

    /// The same with `beta * base` added; with a `beta` of 0, `base` is not read.
    pub(crate) fn plus(self, base: &'a Tensor, beta: Scalar, alpha: Scalar) -> Self {
        let zero = match beta {
            Scalar::Int(beta) => beta == 0,
            beta => beta.to_complex() == Complex::new(0.0, 0.0),
        };
        Self { base: (!zero).then_some(base), alpha, beta, ..self }
    }

    fn out_matrix(&self) -> Matrix {
        Matrix::of(self.out)
    }

    fn is_out(&self, base: &Tensor) -> bool {
        std::ptr::eq(self.out, base)
    }

    fn beta_is_one(&self) -> bool {
        match self.beta {
            Scalar::Int(beta) => beta == 1,
            beta => beta.to_complex() == Complex::new(1.0, 0.0),
        }
    }

    /// Computes the product; the shapes fit.
    ///
    /// # Errors
    /// `NotImplemented` for truth values and floats of 8 bits; those of the driver and of cuBLASLt.
    pub(crate) fn compute(&self) -> Result<()> {
        let dtype = self.a.dtype();
        if dtype == DType::Bool || dtype.itemsize() == 1 && dtype.is_floating_point() {
            return Err(not_implemented_for("addmm_cuda", dtype));
        }
        if self.out.numel() == 0 {
            return Ok(());
        }
        if self.takes_library() && library::multiply(self)? {
            return Ok(());
        }
        own::multiply(self)
    }

    /// Whether the product is one for a library: not a sum of nothing, nor one that is bound by the memory
    /// that a matrix is read from once.
    fn takes_library(&self) -> bool {
        let ([_, m, n], [_, _, k]) = (self.out_matrix().sizes, Matrix::of(self.a).sizes);
        k > 0 && m > 1 && n > 1
    }
}
