//! Methods of `Tensor` that are no operators: geometry, memory, identity.

use super::item::{format, item, to_complex, to_list};
use super::object::{is_tensor, this};
use super::overridable;
use crate::args::parser;
use crate::overrides::{method_or, of_module};
use crate::py::errors::{Raised, runtime_error, type_error};
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::{autograd, dlpack, numpy, types};
use corten_core::{DeviceType, MemoryFormat};
use corten_ops::Tensor;

/// The rows of the class's method table that are written by hand.
pub(crate) fn rows() -> Vec<ffi::PyMethodDef> {
    let mut rows = geometry_rows();
    rows.extend(memory_rows());
    rows.extend(exchange_rows());
    rows.extend(autograd_rows());
    rows.extend(super::names::rows());
    rows
}

/// Methods without arguments complain the way CPython does for `METH_NOARGS`.
fn no_args(function: &str, args: Args<'_>) -> Py<()> {
    if !args.keywords.is_empty() {
        return Err(type_error(format!("TensorBase.{function}() takes no keyword arguments")));
    }
    match args.positional.len() {
        0 => Ok(()),
        given => {
            Err(type_error(format!("TensorBase.{function}() takes no arguments ({given} given)")))
        }
    }
}

macro_rules! simple {
    ($($name:literal, |$this:ident| $body:expr;)+) => {
        vec![$(overridable!($name, |object: &Obj, args: Args<'_>| -> Py<Obj> {
            no_args($name, args)?;
            let $this = this(object);
            $body
        })),+]
    };
}

fn geometry_rows() -> Vec<ffi::PyMethodDef> {
    let mut rows = simple! {
        "dim", |t| Obj::int(t.dim() as i64);
        "numel", |t| Obj::int(t.numel());
        "element_size", |t| Obj::int(t.itemsize() as i64);
        "storage_offset", |t| Obj::int(t.storage_offset());
        "is_floating_point", |t| Ok(Obj::bool(t.dtype().is_floating_point()));
        "is_complex", |t| Ok(Obj::bool(t.dtype().is_complex()));
        "is_signed", |t| types::dtype::signedness(t.dtype());
        "qscheme", |t| Ok(types::layout::scheme_object(corten_ops::quantized::scheme(t)?));
        "is_conj", |t| Ok(Obj::bool(t.is_conj()));
        "is_neg", |t| Ok(Obj::bool(t.is_neg()));
        "is_inference", |t| Ok(Obj::bool(t.is_inference()));
        "_is_view", |t| Ok(Obj::bool(autograd::is_view(t)));
        "_is_zerotensor", |t| Ok(Obj::bool(corten_ops::zero_tensor::is_zero(t)));
        "get_device", |t| Obj::int(match t.device().device_type {
            DeviceType::Cpu => -1,
            _ => i64::from(t.device().index.max(0)),
        });
        "_use_count", |t| Obj::int(t.use_count() as i64);
        "_has_symbolic_sizes_strides", |_t| Ok(Obj::bool(false));
        "tolist", |t| to_list(t);
    };
    rows.extend([
        method!("ndimension", |object: &Obj, args: Args<'_>| {
            method_or(object, name!("dim"), args, |object, args| {
                no_args("ndimension", args)?;
                Obj::int(this(object).dim() as i64)
            })
        }),
        method!("nelement", |object: &Obj, args: Args<'_>| {
            method_or(object, name!("numel"), args, |object, args| {
                no_args("nelement", args)?;
                Obj::int(this(object).numel())
            })
        }),
        overridable!("size", size),
        overridable!("stride", stride),
        overridable!("is_contiguous", is_contiguous),
        overridable!("dim_order", dim_order),
        overridable!("__complex__", |object: &Obj, _args: Args<'_>| to_complex(object)),
        overridable!("__format__", |object: &Obj, args: Args<'_>| match args.positional {
            [spec] => format(object, spec),
            _ => Err(type_error("__format__() takes exactly one argument")),
        }),
    ]);
    rows
}

fn memory_rows() -> Vec<ffi::PyMethodDef> {
    let mut rows = simple! {
        "data_ptr", |t| {
            // Whoever has the address may write to it.
            if let Some(storage) = t.storage_opt() {
                storage.materialise()?;
            }
            Obj::int(t.checked_data_ptr()? as i64)
        };
        "untyped_storage", |t| crate::storage::wrap(&t.storage()?);
        "is_shared", |t| Ok(Obj::bool(t.storage_opt().is_some_and(|s| crate::storage::is_shared(&s))));
    };
    rows.extend([
        overridable!("item", |object: &Obj, args: Args<'_>| {
            no_args("item", args)?;
            Obj::scalar(item(this(object))?)
        }),
        overridable!("is_pinned", |object: &Obj, _args: Args<'_>| Ok(Obj::bool(is_pinned(this(
            object
        ))))),
        overridable!("is_same_size", |object: &Obj, args: Args<'_>| {
            let bound = parser!("is_same_size(Tensor other)").parse(None, args)?;
            Ok(Obj::bool(this(object).sizes() == bound.tensor(0)?.sizes()))
        }),
        overridable!("is_set_to", |object: &Obj, args: Args<'_>| {
            let bound = parser!("is_set_to(Tensor tensor)").parse(None, args)?;
            let (a, b) = (this(object), bound.tensor(0)?);
            let same = a.is_alias_of(b.base())
                && a.storage_offset() == b.storage_offset()
                && a.sizes() == b.sizes()
                && a.strides() == b.strides();
            Ok(Obj::bool(same))
        }),
    ]);
    rows
}

fn exchange_rows() -> Vec<ffi::PyMethodDef> {
    vec![
        overridable!("numpy", |object: &Obj, args: Args<'_>| {
            let bound = parser!("numpy(*, bool force=False)").parse(None, args)?;
            numpy::to_array(object, bound.bool(0)?)
        }),
        overridable!("__dlpack__", dlpack::export),
        overridable!("__dlpack_device__", dlpack::device),
    ]
}

fn autograd_rows() -> Vec<ffi::PyMethodDef> {
    vec![
        overridable!("requires_grad_", requires_grad_),
        overridable!("retain_grad", |object: &Obj, args: Args<'_>| {
            no_args("retain_grad", args)?;
            autograd::retain_grad(this(object))?;
            Ok(Obj::none())
        }),
        method!("_register_hook", autograd::register_hook),
        method!("_register_post_accumulate_grad_hook", autograd::register_post_accumulate_hook),
        method!("_backward", autograd::backward_method),
    ]
}

fn size(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let tensor = this(object);
    if args.positional.is_empty() && args.keywords.is_empty() {
        return types::size::size(&tensor.sizes());
    }
    let bound = match parser!("size(int? dim=None)").parse(None, args) {
        Ok(bound) => bound,
        Err(raised) => return Obj::int(tensor.size(dim_by_name(tensor, args, raised)?)?),
    };
    match bound.int_opt(0)? {
        Some(dim) => Obj::int(tensor.size(dim)?),
        None => types::size::size(&tensor.sizes()),
    }
}

fn stride(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let tensor = this(object);
    let bound = match parser!("stride(int? dim=None)").parse(None, args) {
        Ok(bound) => bound,
        Err(raised) => return Obj::int(tensor.stride(dim_by_name(tensor, args, raised)?)?),
    };
    match bound.int_opt(0)? {
        Some(dim) => Obj::int(tensor.stride(dim)?),
        None => Obj::int_tuple(&tensor.strides()),
    }
}

/// The position of a dimension that is given by name, or the error of the parser.
#[cold]
fn dim_by_name(tensor: &Tensor, args: Args<'_>, raised: Raised) -> Py<i64> {
    let exception = raised.take();
    match args.positional.iter().chain(args.keywords).next() {
        Some(name) if tensor.has_names() && name.is_str() => Ok(tensor.dim_of(name.as_str()?)?),
        _ => Err(match exception {
            Some(exception) => Raised::raise(&exception),
            None => type_error("bad arguments"),
        }),
    }
}

fn is_contiguous(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("is_contiguous(*, MemoryFormat? memory_format=contiguous_format)");
    let format = bound.parse(None, args)?.memory_format_opt(0)?;
    let tensor = this(object);
    let format = format.filter(|format| *format != MemoryFormat::Preserve);
    Ok(Obj::bool(tensor.is_contiguous_for(format.unwrap_or(MemoryFormat::Contiguous))))
}

/// The dimensions from the slowest to the fastest in memory.
fn dim_order(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let tensor = this(object);
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let mut order: Vec<i64> = (0..strides.len() as i64).collect();
    let channels_last = tensor.is_contiguous_for(MemoryFormat::ChannelsLast);
    match (tensor.is_contiguous(), channels_last) {
        (true, false) => {}
        // Where both formats hold, the sizes and strides decide below.
        (false, true) => order[1..].rotate_left(1),
        _ => order.sort_by(|&a, &b| slower_first(&sizes, &strides, a as usize, b as usize)),
    }
    Obj::int_tuple(&order)
}

/// By stride; among equal strides the larger dimension is the slower one.
fn slower_first(sizes: &[i64], strides: &[i64], a: usize, b: usize) -> std::cmp::Ordering {
    (strides[b], sizes[b]).cmp(&(strides[a], sizes[a]))
}

fn requires_grad_(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("requires_grad_(bool requires_grad=True)").parse(None, args)?;
    let wanted = bound.bool(0)?;
    let tensor = this(object);
    let is_leaf = tensor.autograd_meta().is_none_or(|meta| meta.is_leaf());
    if !is_leaf && !wanted {
        return Err(runtime_error(
            "you can only change requires_grad flags of leaf variables. If you want to use a \
             computed variable in a subgraph that doesn't require differentiation use \
             var_no_grad = var.detach().",
        ));
    }
    if wanted && !super::attrs::is_differentiable(tensor.dtype()) {
        return Err(runtime_error("only Tensors of floating point dtype can require gradients"));
    }
    if wanted && tensor.is_inference() && !corten_core::inference_mode_enabled() {
        return Err(runtime_error(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        ));
    }
    if is_leaf {
        super::memory::set_requires_grad(tensor, wanted)?;
    }
    Ok(object.clone())
}

/// A function of the module that says whether something holds of a tensor.
macro_rules! flag {
    ($name:literal, |$tensor:ident| $holds:expr) => {
        method!($name, |_m: &Obj, args: Args<'_>| {
            let bound = parser!(concat!($name, "(Tensor input)")).parse(None, args)?;
            let $tensor = bound.tensor(0)?;
            Ok(Obj::bool($holds))
        })
    };
}

/// The functions of the module that look at the storage of a tensor and make nothing its own.
pub(crate) fn storage_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_is_cow_tensor", |_m: &Obj, args: Args<'_>| {
            let tensor = parser!("_is_cow_tensor(Tensor tensor)").parse(None, args)?.tensor(0)?;
            Ok(Obj::bool(tensor.storage_opt().is_some_and(|storage| storage.is_copy_on_write())))
        }),
        method!("_data_address", |_m: &Obj, args: Args<'_>| {
            let tensor = parser!("_data_address(Tensor tensor)").parse(None, args)?.tensor(0)?;
            Obj::int(tensor.checked_data_ptr()? as i64)
        }),
        method!("_storage_address", |_m: &Obj, args: Args<'_>| {
            let tensor = parser!("_storage_address(Tensor tensor)").parse(None, args)?.tensor(0)?;
            Obj::int(tensor.storage()?.key() as i64)
        }),
    ]
}

fn one_class<'a>(args: Args<'a>) -> Py<&'a Obj> {
    let [class] = args.positional else { return Err(type_error("one class expected")) };
    Ok(class)
}

/// The functions of the module that only look at a tensor.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("is_tensor", |_m: &Obj, args: Args<'_>| {
            let ([object], None) = (args.positional, args.names) else {
                return Err(type_error("is_tensor() takes one positional argument"));
            };
            Ok(Obj::bool(is_tensor(object)))
        }),
        method!("numel", |m: &Obj, args: Args<'_>| {
            let bound = parser!("numel(Tensor input)").parse(None, args)?;
            if let Some(done) = of_module(m, name!("numel"), &bound.overloaded, args) {
                return done;
            }
            Obj::int(bound.tensor(0)?.numel())
        }),
        method!("is_nonzero", |m: &Obj, args: Args<'_>| {
            let bound = parser!("is_nonzero(Tensor input)").parse(None, args)?;
            if let Some(done) = of_module(m, name!("is_nonzero"), &bound.overloaded, args) {
                return done;
            }
            let tensor = bound.tensor(0)?;
            let truth = match tensor.numel() {
                1 => item(&tensor)?.to_bool(),
                0 => {
                    return Err(runtime_error(
                        "Boolean value of Tensor with no values is ambiguous",
                    ));
                }
                _ => {
                    return Err(runtime_error(
                        "Boolean value of Tensor with more than one value is ambiguous",
                    ));
                }
            };
            Ok(Obj::bool(truth))
        }),
        method!("_set_warn_always", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_warn_always(bool always)").parse(None, args)?;
            corten_core::set_warn_always(bound.bool(0)?);
            Ok(Obj::none())
        }),
        flag!("is_complex", |tensor| tensor.dtype().is_complex()),
        flag!("is_floating_point", |tensor| tensor.dtype().is_floating_point()),
        flag!("is_signed", |tensor| tensor.dtype().is_signed()),
        flag!("is_conj", |tensor| tensor.is_conj()),
        flag!("is_neg", |tensor| tensor.is_neg()),
        flag!("is_inference", |tensor| tensor.is_inference()),
        method!("_set_sparse_class", |_m: &Obj, args: Args<'_>| {
            super::object::set_sparse_class(one_class(args)?);
            Ok(Obj::none())
        }),
        method!("_set_parameter_class", |_m: &Obj, args: Args<'_>| {
            super::object::set_parameter_class(one_class(args)?);
            Ok(Obj::none())
        }),
        method!("_same_tensor", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_same_tensor(Tensor a, Tensor b)").parse(None, args)?;
            let (a, b) = (bound.tensor(0)?, bound.tensor(1)?);
            Ok(Obj::bool(a.is_same(b.base())))
        }),
    ]
}

/// Whether the memory is pinned; without a back end for GPUs there is none that is.
fn is_pinned(tensor: &Tensor) -> bool {
    #[cfg(feature = "cuda")]
    return crate::cuda::memory::is_pinned(tensor);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = tensor;
        false
    }
}
