//! Automatic casts: operators that compute as well, and faster, in a shorter dtype get their
//! floating-point arguments in it; those that do not get float32.
//!
//! The keys of autocast are in every tensor and excluded in every thread, so that a thread without
//! it pays nothing. [`set_enabled`] includes the CPU's for the calling thread.

use crate::{graph, view};
use corten_core::tls::{self, ExcludeGuard};
use corten_core::{DType, DispatchKey, KeySet, Result, grad_mode_enabled};
use corten_ops::{BoxedCall, IValue, Library, Stack, Tensor, op, registry};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Once;

const KEY: DispatchKey = DispatchKey::AutocastCPU;

/// Operators that get the short dtype.
const LOWER: &[&str] = &[
    "_addmm_activation",
    "_convolution.deprecated",
    "addbmm",
    "addmm",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv1d.padding",
    "conv2d",
    "conv2d.padding",
    "conv3d",
    "conv3d.padding",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "linalg_vecdot",
    "linear",
    "matmul",
    "mm",
    "prelu",
    "scaled_dot_product_attention",
];

/// Operators that get the widest dtype among the short one and those of their arguments.
const WIDEST: &[&str] = &["cat", "stack", "index_copy"];

/// Operators that get float32.
const SINGLE: &[&str] = &[
    "_lu_with_info",
    "adaptive_avg_pool3d",
    "adaptive_max_pool3d",
    "avg_pool3d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "cholesky_inverse",
    "cholesky_solve",
    "cosine_embedding_loss",
    "cross_entropy_loss",
    "ctc_loss.IntList",
    "ctc_loss.Tensor",
    "fft_fft",
    "fft_fft2",
    "fft_fftn",
    "fft_hfft",
    "fft_ifft",
    "fft_ifft2",
    "fft_ifftn",
    "fft_ihfft",
    "fft_irfft",
    "fft_irfft2",
    "fft_irfftn",
    "fft_rfft",
    "fft_rfft2",
    "fft_rfftn",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "geqrf",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "hinge_embedding_loss",
    "huber_loss",
    "inverse",
    "kl_div",
    "l1_loss",
    "linalg_cholesky",
    "linalg_cholesky_ex",
    "linalg_cond",
    "linalg_cond.p_str",
    "linalg_eig",
    "linalg_eigh",
    "linalg_eigvals",
    "linalg_eigvalsh",
    "linalg_householder_product",
    "linalg_inv",
    "linalg_inv_ex",
    "linalg_lstsq",
    "linalg_matrix_rank",
    "linalg_matrix_rank.atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_tensor",
    "linalg_matrix_rank.tol_tensor",
    "linalg_qr",
    "linalg_solve",
    "linalg_svd",
    "linalg_svdvals",
    "linalg_tensorinv",
    "linalg_tensorsolve",
    "lu_solve",
    "margin_ranking_loss",
    "max_pool3d",
    "max_unpool2d",
    "max_unpool3d",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_margin_loss_forward",
    "nanquantile",
    "nanquantile.scalar",
    "nll_loss",
    "nll_loss2d",
    "orgqr",
    "ormqr",
    "pinverse",
    "poisson_nll_loss",
    "polar",
    "prod",
    "prod.dim_int",
    "quantile",
    "quantile.scalar",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "smooth_l1_loss",
    "soft_margin_loss",
    "stft",
    "stft.center",
    "svd",
    "trace",
    "triangular_solve",
    "triplet_margin_loss",
    "view_as_complex",
];

/// The dtype that the arguments of a call are cast to.
type Choose = fn(&Stack) -> DType;

#[derive(Clone, Copy)]
struct State {
    dtype: DType,
    caches: bool,
    nesting: i64,
}

thread_local! {
    static STATE: Cell<State> =
        const { Cell::new(State { dtype: DType::BFloat16, caches: true, nesting: 0 }) };
    /// Parameters and their casts, by the parameter's identity, which both keep alive.
    static CASTS: RefCell<HashMap<usize, (Tensor, Tensor)>> = RefCell::new(HashMap::new());
}

fn keys() -> KeySet {
    KeySet::from_key(KEY)
}

/// Whether operators of this thread cast the arguments that live on the CPU.
pub fn enabled() -> bool {
    !tls::local_exclude().has(KEY)
}

/// Turns casts of this thread on or off.
///
/// # Errors
/// `Runtime` when the kernels cannot be registered.
pub fn set_enabled(enabled: bool) -> Result<()> {
    if enabled {
        register()?;
    }
    tls::set_excluded(keys(), !enabled);
    Ok(())
}

/// The short dtype of this thread.
pub fn dtype() -> DType {
    STATE.get().dtype
}

/// Sets the short dtype of this thread.
pub fn set_dtype(dtype: DType) {
    STATE.set(State { dtype, ..STATE.get() });
}

/// Whether casts of parameters are kept until the outermost region of this thread ends.
pub fn caches() -> bool {
    STATE.get().caches
}

/// See [`caches`].
pub fn set_caches(caches: bool) {
    STATE.set(State { caches, ..STATE.get() });
}

/// Counts the regions that this thread is in; returns how many there are.
pub fn change_nesting(by: i64) -> i64 {
    let nesting = STATE.get().nesting + by;
    STATE.set(State { nesting, ..STATE.get() });
    nesting
}

/// Forgets the casts of parameters.
pub fn clear_cache() {
    // Dropped outside of the borrow: the last handle of a tensor may run anything.
    let casts = CASTS.with(|casts| std::mem::take(&mut *casts.borrow_mut()));
    drop(casts);
}

fn register() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| result = register_all());
    result
}

fn register_all() -> Result<()> {
    let library = Library::new("aten");
    let lists: [(&[&str], Choose); 3] =
        [(LOWER, |_| dtype()), (SINGLE, |_| DType::Float32), (WIDEST, widest)];
    for (names, choose) in lists {
        for name in names {
            if registry::find(&format!("aten::{name}")).is_none() {
                continue;
            }
            let kernel =
                move |call: &BoxedCall, stack: &mut Stack| cast_and_call(call, stack, choose);
            library.implement(name, KEY, kernel)?.keep();
        }
    }
    Ok(())
}

fn cast_and_call(call: &BoxedCall, stack: &mut Stack, choose: Choose) -> Result<()> {
    let _off = ExcludeGuard::new(keys());
    let dtype = choose(stack);
    for value in stack.iter_mut() {
        cast(value, dtype)?;
    }
    call.op().call_boxed(stack)
}

/// Tensors that casts leave alone: doubles are wanted by somebody, and no numbers are no numbers.
fn is_eligible(tensor: &Tensor) -> bool {
    tensor.defined()
        && tensor.device().is_cpu()
        && tensor.dtype().is_floating_point()
        && tensor.dtype() != DType::Float64
}

fn widest(stack: &Stack) -> DType {
    let mut found = dtype();
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            if is_eligible(tensor) && tensor.dtype() == DType::Float32 {
                found = DType::Float32;
            }
        });
    }
    found
}

fn cast(value: &mut IValue, dtype: DType) -> Result<()> {
    match value {
        IValue::Tensor(tensor) => *tensor = cast_tensor(tensor, dtype)?,
        IValue::TensorList(list) => {
            for tensor in list {
                *tensor = cast_tensor(tensor, dtype)?;
            }
        }
        IValue::OptionalTensorList(list) => {
            for tensor in list.iter_mut().flatten() {
                *tensor = cast_tensor(tensor, dtype)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn cast_tensor(tensor: &Tensor, to: DType) -> Result<Tensor> {
    if !is_eligible(tensor) || tensor.dtype() == to {
        return Ok(tensor.clone());
    }
    let new = || op::to_dtype(tensor, to, false, false, None);
    let is_parameter = tensor.dtype() == DType::Float32
        && graph::requires_grad(tensor)
        && graph::is_leaf(tensor)
        && !view::is_view(tensor);
    // A cast without a gradient would be of no use to a call that wants one.
    if !(is_parameter && caches() && to == dtype() && grad_mode_enabled()) {
        return new();
    }
    let identity = tensor.impl_ptr() as usize;
    if let Some(known) =
        CASTS.with_borrow(|casts| casts.get(&identity).map(|(_, cast)| cast.clone()))
    {
        return Ok(known);
    }
    let made = new()?;
    CASTS.with_borrow_mut(|casts| casts.insert(identity, (tensor.clone(), made.clone())));
    Ok(made)
}
