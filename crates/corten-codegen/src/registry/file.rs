//! The TOML of one family, as written.

use super::{Autocast, Cost, Uint64};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) feature: Option<String>,
    /// The class of its operators, where their blocks name no other.
    pub(super) cost: Option<Cost>,
    #[serde(default)]
    pub(super) op: Vec<OpBlock>,
}

/// One `[[op]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpBlock {
    /// PyTorch's registered schema; a namespace other than `aten` stands in front of it. Required.
    pub(super) schema: Spanned<String>,
    /// Forms beside the operator itself, between blanks: `function` of the Python module, `method` of `Tensor`, the derived `inplace` and `out` forms, and `copy`, which makes `view_copy` of `view`.
    #[serde(default)]
    pub(super) variants: String,
    /// Further Python homes, such as `nn.functional`.
    #[serde(default)]
    pub(super) python: Words,
    /// The schema of the in-place form where it does not follow from the declared one.
    pub(super) inplace: Option<String>,
    /// The schema of the out form where it does not follow from the declared one.
    pub(super) out: Option<String>,

    /// An expression of the elements: the loop is generated from it.
    pub(super) pointwise: Option<Spanned<String>>,
    /// How the dtype of a pointwise operator follows from its operands': `same`, `float`, `comparison` …
    pub(super) promote: Option<String>,
    /// The dtypes that a pointwise operator accepts: `all`, `float`, `real` …
    pub(super) domain: Option<String>,
    /// The function of `corten_ops::meta` that gives the `TensorIterator` of a hand-written loop.
    pub(super) meta: Option<String>,
    /// The function of `corten_cpu::kernels` that computes the operator: a loop beside `meta` or `promote`, else a function with the schema's signature.
    pub(super) kernel: Option<String>,
    /// As `kernel`, for the in-place form.
    pub(super) kernel_inplace: Option<String>,
    /// As `kernel`, for the out form.
    pub(super) kernel_out: Option<String>,
    /// What a kernel does on the meta device: `itself` where it stops before it looks at data, or a function of `corten_ops::meta`.
    pub(super) meta_kernel: Option<String>,
    /// The function of `corten_ops::any` that computes the operator on every device; its gradient is separate.
    pub(super) any: Option<String>,
    /// As `any`, for the in-place form.
    pub(super) any_inplace: Option<String>,
    /// As `any`, for the out form.
    pub(super) any_out: Option<String>,
    /// The function of `corten_ops::composite` that calls other operators, through which it is differentiable; `wrap_scalar` for the overload whose numbers become tensors.
    pub(super) composite: Option<String>,
    /// As `composite`, for the in-place form.
    pub(super) composite_inplace: Option<String>,
    /// As `composite`, for the out form.
    pub(super) composite_out: Option<String>,

    /// The gradient: `none`, `manual`, or a formula per argument (`grad.self`); `grad.multi` (with `grad.args`) for one formula that returns several.
    pub(super) grad: Option<Grad>,
    /// Formulas of the in-place form where they are others.
    pub(super) grad_inplace: Option<BTreeMap<String, Formula>>,
    /// The outputs that are differentiable, where not all are.
    pub(super) grad_outputs: Option<Vec<usize>>,
    /// The name of the graph's node where it is not derived from the operator's.
    pub(super) node: Option<String>,
    /// The same of the in-place form.
    pub(super) node_inplace: Option<String>,
    /// Whether the derived out form takes only an output of the result's dtype.
    #[serde(default)]
    pub(super) exact_out: bool,
    /// The words of the error for an output of another dtype: `{expected}`, `{got}` and `{result}` are replaced.
    pub(super) out_error: Option<String>,
    /// Whether the derived out form of a composite operator records a history in the output.
    #[serde(default)]
    pub(super) out_history: bool,
    /// The function of `corten_ops::batched::rules` that runs the operator under `vmap`; without one it runs item by item, or as other pointwise operators.
    pub(super) batch: Option<String>,
    /// The rule for names of dimensions: a function of `corten_ops::names::rules`, or `parts` where the operators that a composite calls have rules. Without one, pointwise operators unify the names of their arguments, and others refuse named tensors.
    pub(super) names: Option<String>,
    /// `stream` where the work grows with the number of elements, `product` where it grows faster.
    pub(super) cost: Option<Cost>,
    /// What automatic casts do to floating-point arguments: `lower`, `float32` or `widest`.
    pub(super) autocast: Option<Autocast>,
    /// The same for GPUs where it is something else there, which may be `none`.
    pub(super) autocast_cuda: Option<String>,
    /// Tensor arguments that hold positions, counts or truth values: they never require a gradient.
    #[serde(default)]
    pub(super) nondiff: Words,
    /// Sets that the operator belongs to, which Python code asks for by `_C._ops_tagged`: `jagged_…`, `nested_…` and
    /// `masked_…` say how tensors of parts compute it,
    /// `parts_method` that such tensors are asked when the method is called, `keeps_zero` that sparse tensors are computed
    /// by their entries, `factory` that a default device applies, `lazy` that lazily conjugated tensors are taken as they
    /// are, `resizes` that sizes change in place, `impure` that calls in traced programs are not removed or merged,
    /// `python_function` that the public function is `corten.functional`'s; `core`, `pointwise`, `reduction` and the others
    /// of `torch.Tag` are what PyTorch says of the declared form.
    #[serde(default)]
    pub(super) tags: Words,
    /// Whether a Python number may stand for a tensor argument; the overload with `Scalar` in its place is then no signature of its own.
    #[serde(default)]
    pub(super) numbers: bool,
    /// How `uint64`, for which kernels are few, is computed with the bits of `int64`: `modular` for what is the same modulo 2^64, `ordered` for what depends on the order of elements and nothing else, `quotient` (where the call rounds), `remainder` and `shift` for division.
    pub(super) uint64: Option<Uint64>,
    /// Parameter lists that Python still accepts, with a warning, in-place forms included.
    #[serde(default)]
    pub(super) deprecated: Vec<String>,
    /// Functions of `corten_ops::any` at further dispatch keys, as `any_at.MkldnnCPU = "…"`.
    #[serde(default)]
    pub(super) any_at: BTreeMap<String, String>,
    /// Kernels of `corten_cpu::kernels` at further dispatch keys, as `kernel_at.CPU = "…"`.
    #[serde(default)]
    pub(super) kernel_at: BTreeMap<String, String>,
    /// The function of `corten_ops::sparse` that computes the operator where a tensor is in coordinate format; the in-place and out forms put its entries in the place of the target's.
    pub(super) sparse: Option<String>,
    /// As `sparse`, for the in-place form.
    pub(super) sparse_inplace: Option<String>,
    /// As `sparse`, for the out form.
    pub(super) sparse_out: Option<String>,
    /// As `sparse`, where a tensor is in one of the four compressed layouts.
    pub(super) sparse_csr: Option<String>,
    /// As `sparse_csr`, for the in-place form.
    pub(super) sparse_csr_inplace: Option<String>,
    /// As `sparse_csr`, for the out form.
    pub(super) sparse_csr_out: Option<String>,
    /// The function of `corten_ops::quantized` that computes the operator where a tensor is quantised, or `itself` where the operator's own function does. Without one such tensors are refused, unless the operator makes views or is composite.
    pub(super) quantized: Option<String>,
    /// As `quantized`, for the in-place form.
    pub(super) quantized_inplace: Option<String>,
    /// As `quantized`, for the out form.
    pub(super) quantized_out: Option<String>,
    /// The name of the Rust method where it is not derived.
    pub(super) rust: Option<String>,
    /// What the operator does, in one or two sentences.
    #[serde(default)]
    pub(super) doc: String,
}

/// `grad = "none"`, or a formula per argument.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Grad {
    Word(String),
    Formulas(BTreeMap<String, Formula>),
}

/// A formula, or the list of names that `grad.args` is.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Formula {
    Text(String),
    Names(Vec<String>),
}

/// One word or several, as a list or between blanks.
#[derive(Deserialize, Default)]
#[serde(untagged)]
pub(super) enum Words {
    #[default]
    None,
    Text(String),
    List(Vec<String>),
}

impl Words {
    pub(super) fn to_list(&self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Self::List(list) => list.clone(),
        }
    }
}
