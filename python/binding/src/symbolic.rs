//! Numbers of symbolic shapes: `SymInt`, `SymFloat` and `SymBool`, whose classes are Python's.
//!
//! Note [Samples of symbolic numbers]: sizes of tensors are integers, so a symbol is given a sample, a
//! prime that no other symbol has, and tensors of symbolic sizes have the sizes that follow from the
//! samples. Shapes are computed from these by the rules for all tensors; what a number that comes out
//! means is told by the expressions it can be (`corten/fx/experimental/_recovery.py`). Operators take a
//! symbolic number as its sample; Python asks it by `__index__` and gets what it is at its hint.

use crate::args::NumberKind;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method, name};

static INT: TypeCell = TypeCell::new();
static FLOAT: TypeCell = TypeCell::new();

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_set_symbolic_classes", |_m: &Obj, args: Args<'_>| {
        let [int, float] = args.positional else {
            return Err(crate::py::errors::type_error("two classes expected"));
        };
        INT.set(int);
        FLOAT.set(float);
        Ok(Obj::none())
    })]
}

/// Whether there has been a symbolic number.
pub(crate) fn in_use() -> bool {
    !INT.get().is_null()
}

/// The kind of number, where the object is a symbolic one.
pub(crate) fn kind(object: &Obj) -> Option<NumberKind> {
    if INT.is_exact(object) {
        return Some(NumberKind::Int);
    }
    FLOAT.is_exact(object).then_some(NumberKind::Float)
}

/// The sample of a symbolic number; nothing for other objects.
pub(crate) fn sample(object: &Obj) -> Option<Py<Obj>> {
    kind(object).map(|_| object.call_method(name!("_sample"), &[]))
}
