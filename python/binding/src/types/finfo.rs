//! `finfo` and `iinfo`: the limits of a dtype.

use super::dtype;
use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::type_error;
use crate::py::{Obj, Py, TypeCell, ffi, getter, slot};
use corten_core::{DType, FloatLimits, Scalar};
use std::ffi::{CStr, c_int};

static FINFO: TypeCell = TypeCell::new();
static IINFO: TypeCell = TypeCell::new();

struct PyFInfo(DType);
struct PyIInfo(DType);

impl Class for PyFInfo {
    const NAME: &'static CStr = c"corten.finfo";

    fn cell() -> &'static TypeCell {
        &FINFO
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        fn of(this_: &Obj) -> FloatLimits {
            this::<PyFInfo>(this_).0.float_limits()
        }
        builder
            .doc(c"finfo(dtype=None)\n--\n\nThe limits of a floating-point dtype.")
            .slot(ffi::Py_tp_new, slot!(call new_finfo))
            .slot(ffi::Py_tp_repr, slot!(unary finfo_repr))
            .slot(ffi::Py_tp_richcompare, slot!(compare finfo_compare))
            .slot(ffi::Py_tp_hash, slot!(length |s: &Obj| Ok(this::<PyFInfo>(s).0 as usize)))
            .getset([
                getter!("bits", |s: &Obj| Obj::int(bits(this::<PyFInfo>(s).0))),
                getter!("dtype", |s: &Obj| Obj::str_from(this::<PyFInfo>(s).0.name())),
                getter!("eps", |s: &Obj| Obj::float(of(s).eps)),
                getter!("min", |s: &Obj| Obj::float(of(s).min)),
                getter!("max", |s: &Obj| Obj::float(of(s).max)),
                getter!("tiny", |s: &Obj| Obj::float(of(s).tiny)),
                getter!("smallest_normal", |s: &Obj| Obj::float(of(s).tiny)),
                getter!("resolution", |s: &Obj| Obj::float(resolution(of(s).digits))),
            ])
    }
}

impl Class for PyIInfo {
    const NAME: &'static CStr = c"corten.iinfo";

    fn cell() -> &'static TypeCell {
        &IINFO
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"iinfo(dtype)\n--\n\nThe limits of an integer dtype.")
            .slot(ffi::Py_tp_new, slot!(call new_iinfo))
            .slot(ffi::Py_tp_repr, slot!(unary iinfo_repr))
            .slot(ffi::Py_tp_richcompare, slot!(compare iinfo_compare))
            .slot(ffi::Py_tp_hash, slot!(length |s: &Obj| Ok(this::<PyIInfo>(s).0 as usize)))
            .getset([
                getter!("bits", |s: &Obj| Obj::int(bits(this::<PyIInfo>(s).0))),
                getter!("dtype", |s: &Obj| Obj::str_from(this::<PyIInfo>(s).0.name())),
                getter!("min", |s: &Obj| Obj::scalar(integer_range(this::<PyIInfo>(s).0).0)),
                getter!("max", |s: &Obj| Obj::scalar(integer_range(this::<PyIInfo>(s).0).1)),
            ])
    }
}

fn bits(dtype: DType) -> i64 {
    8 * dtype.itemsize() as i64
}

fn resolution(digits: i32) -> f64 {
    // Written as text so that the nearest double is taken, as the literal 1e-06 is.
    format!("1e-{digits}").parse().unwrap_or(1.0)
}

/// The smallest and largest value.
fn integer_range(dtype: DType) -> (Scalar, Scalar) {
    let dtype = dtype.underlying();
    match dtype {
        DType::UInt64 => (Scalar::Int(0), Scalar::UInt(u64::MAX)),
        _ if dtype.is_signed() => {
            let max = (1_i128 << (bits(dtype) - 1)) - 1;
            (Scalar::Int((-max - 1) as i64), Scalar::Int(max as i64))
        }
        _ => (Scalar::Int(0), Scalar::Int(((1_i128 << bits(dtype)) - 1) as i64)),
    }
}

fn new_finfo(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let bound = parser!("finfo(ScalarType? type=None)").parse(None, owned.as_args())?;
    let dtype = bound.dtype_opt(0)?.unwrap_or_else(corten_core::default_dtype);
    if !dtype.is_floating_point() && !dtype.is_complex() {
        return Err(type_error(
            "torch.finfo() requires a floating point input type. Use torch.iinfo to handle \
             'torch.finfo'",
        ));
    }
    if !dtype.is_numeric() {
        return Err(corten_core::not_implemented_for("max", dtype).into());
    }
    instance(PyFInfo(dtype.to_real()))
}

fn new_iinfo(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let bound = parser!("iinfo(ScalarType type)").parse(None, owned.as_args())?;
    // Quantised dtypes have the limits of what they are stored as.
    let dtype = dtype::from_object(bound.object(0)?)?.underlying();
    if dtype == DType::Bool {
        return Err(type_error("torch.bool is not supported by torch.iinfo"));
    }
    if !dtype.is_integral(false) && !dtype.is_quantized() {
        return Err(type_error(
            "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'",
        ));
    }
    instance(PyIInfo(dtype))
}

fn finfo_repr(this_: &Obj) -> Py<Obj> {
    let dtype = this::<PyFInfo>(this_).0;
    let l = dtype.float_limits();
    Obj::str_from(&format!(
        "finfo(resolution={}, min={}, max={}, eps={}, smallest_normal={}, tiny={}, dtype={})",
        general(resolution(l.digits)),
        general(l.min),
        general(l.max),
        general(l.eps),
        general(l.tiny),
        general(l.tiny),
        dtype.name()
    ))
}

fn iinfo_repr(this_: &Obj) -> Py<Obj> {
    let dtype = this::<PyIInfo>(this_).0;
    let (min, max) = integer_range(dtype);
    let (min, max) = (Obj::scalar(min)?, Obj::scalar(max)?);
    Obj::str_from(&format!(
        "iinfo(min={}, max={}, dtype={})",
        min.display(),
        max.display(),
        dtype.name()
    ))
}

fn finfo_compare(a: &Obj, b: &Obj, op: c_int) -> Py<Obj> {
    compare(this::<PyFInfo>(a).0, value::<PyFInfo>(b).map(|other| other.0), op)
}

fn iinfo_compare(a: &Obj, b: &Obj, op: c_int) -> Py<Obj> {
    compare(this::<PyIInfo>(a).0, value::<PyIInfo>(b).map(|other| other.0), op)
}

fn compare(a: DType, b: Option<DType>, op: c_int) -> Py<Obj> {
    match (b, op) {
        (Some(b), ffi::Py_EQ) => Ok(Obj::bool(a == b)),
        (Some(b), ffi::Py_NE) => Ok(Obj::bool(a != b)),
        _ => Ok(Obj::not_implemented()),
    }
}

/// C's `%g`: six significant digits, the shorter of fixed and exponent form.
fn general(value: f64) -> String {
    let text = format!("{value:.5e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| -> String {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent).max(0) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

/// Makes the types.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"finfo", &crate::py::class::make::<PyFInfo>()?)?;
    module.set_attr_str(c"iinfo", &crate::py::class::make::<PyIInfo>()?)
}
