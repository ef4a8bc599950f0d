//! Print options.

use crate::args::parser;
use crate::py::{Args, Obj, Py, ffi, method, name};
use corten_ops::print::{self, Options, Profile};

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("set_printoptions", set_options),
        method!("_get_printoptions", |_m: &Obj, _a: Args<'_>| describe(print::options())),
        method!("_tensor_str", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_tensor_str(Tensor tensor, str prefix)").parse(None, args)?;
            Obj::str_from(&print::repr_with_prefix(&bound.tensor(0)?, bound.str(1)?)?)
        }),
    ]
}

/// `set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
/// sci_mode=None)`.
fn set_options(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "set_printoptions(int? precision=None, any threshold=None, int? edgeitems=None, int? linewidth=None, str? profile=None, bool? sci_mode=None)"
    );
    let bound = parser.parse(None, args)?;
    let mut options = print::options();
    if let Some(profile) = bound.str_opt(4)? {
        // PyTorch takes an unknown profile for none.
        options = match profile {
            "default" => Profile::Default.apply(options),
            "short" => Profile::Short.apply(options),
            "full" => Profile::Full.apply(options),
            _ => options,
        };
    }
    let size = |value: i64| value.max(0) as usize;
    if let Some(precision) = bound.int_opt(0)? {
        options.precision = size(precision);
    }
    if let Some(threshold) = bound.get(1) {
        options.threshold = threshold.to_f64()?;
    }
    if let Some(edgeitems) = bound.int_opt(2)? {
        options.edgeitems = size(edgeitems);
    }
    if let Some(linewidth) = bound.int_opt(3)? {
        options.linewidth = size(linewidth);
    }
    options.sci_mode = bound.bool_opt(5)?;
    print::set_options(options);
    Ok(Obj::none())
}

fn describe(options: Options) -> Py<Obj> {
    let dict = Obj::dict()?;
    let set = |name: &crate::py::names::Name, value: Obj| dict.dict_set(&name.obj(), &value);
    set(name!("precision"), Obj::int(options.precision as i64)?)?;
    set(name!("threshold"), Obj::float(options.threshold)?)?;
    set(name!("edgeitems"), Obj::int(options.edgeitems as i64)?)?;
    set(name!("linewidth"), Obj::int(options.linewidth as i64)?)?;
    let sci_mode = options.sci_mode.map_or_else(Obj::none, Obj::bool);
    set(name!("sci_mode"), sci_mode)?;
    Ok(dict)
}
