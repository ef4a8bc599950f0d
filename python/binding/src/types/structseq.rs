//! Named tuples of results: `torch.return_types.max` and its like, made on first use.

use crate::py::class::TypeCell;
use crate::py::{Args, Obj, Py, ffi, name};
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};

/// One result type per function name and field names.
static TYPES: OnceLock<Mutex<HashMap<String, &'static TypeCell>>> = OnceLock::new();

/// A result of a type that [`type_for`] gave.
pub(crate) fn result(ty: &TypeCell, values: Vec<Obj>) -> Py<Obj> {
    // SAFETY: a fresh sequence with as many places as there are fields; each is filled once.
    unsafe {
        let made = Obj::owned(ffi::PyStructSequence_New(ty.get()))?;
        for (index, value) in values.into_iter().enumerate() {
            let index = index as ffi::Py_ssize_t;
            ffi::PyStructSequence_SetItem(made.as_ptr(), index, value.into_ptr());
        }
        Ok(made)
    }
}

/// The result type of a function.
pub(crate) fn type_for(function: &str, fields: &[&str]) -> Py<&'static TypeCell> {
    let types = TYPES.get_or_init(Mutex::default);
    let key = format!("{function}({})", fields.join(","));
    if let Some(found) = types.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(found);
    }
    let made = make(function, fields)?;
    let cell: &'static TypeCell = Box::leak(Box::new(TypeCell::new()));
    cell.set(&made);
    types.lock().unwrap_or_else(PoisonError::into_inner).insert(key, cell);
    Ok(cell)
}

fn make(function: &str, fields: &[&str]) -> Py<Obj> {
    let leak = |text: &str| CString::new(text).unwrap_or_default().into_raw();
    let mut rows: Vec<ffi::PyStructSequence_Field> = fields
        .iter()
        .map(|field| ffi::PyStructSequence_Field { name: leak(field), doc: std::ptr::null() })
        .collect();
    rows.push(ffi::PyStructSequence_Field { name: std::ptr::null(), doc: std::ptr::null() });
    let mut description = ffi::PyStructSequence_Desc {
        name: leak(&format!("torch.return_types.{function}")),
        doc: std::ptr::null(),
        fields: rows.leak().as_mut_ptr(),
        n_in_sequence: fields.len() as c_int,
    };
    // SAFETY: the description is complete and its strings are leaked.
    let ty = unsafe {
        Obj::owned(ffi::PyStructSequence_NewType(&raw mut description).cast::<ffi::PyObject>())?
    };
    let repr = bind(c"__repr__", crate::py::function!(repr), &ty)?;
    ty.set_attr(name!("__repr__"), &repr)?;
    ty.set_attr(name!("__module__"), &Obj::str_from("torch.return_types")?)?;
    Ok(ty)
}

/// A method descriptor for a type that is already made.
fn bind(name: &'static std::ffi::CStr, function: crate::py::Function, ty: &Obj) -> Py<Obj> {
    let row = Box::leak(Box::new(crate::py::call::method_def(name, function, 0)));
    // SAFETY: the row is leaked and the type is live.
    unsafe { Obj::owned(ffi::PyDescr_NewMethod(ty.as_ptr().cast(), row)) }
}

/// One field per line, as PyTorch prints results.
fn repr(this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let ty = this.type_obj();
    let mut text = String::from("torch.return_types.");
    text.push_str(ty.attr(name!("__name__"))?.as_str()?);
    text.push_str("(\n");
    // `__match_args__` lists the fields in order.
    let names = ty.attr(name!("__match_args__"))?.items()?;
    for (index, (name, value)) in names.iter().zip(this.items()?).enumerate() {
        if index > 0 {
            text.push_str(",\n");
        }
        text.push_str(name.as_str()?);
        text.push('=');
        text.push_str(value.repr()?.as_str()?);
    }
    text.push(')');
    Obj::str_from(&text)
}
