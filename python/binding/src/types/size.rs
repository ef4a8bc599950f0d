//! `Size`: the tuple that `.shape` returns.

use crate::py::class::TypeBuilder;
use crate::py::errors::type_error;
use crate::py::obj::check;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method, name, slot};
use corten_core::try_with_capacity;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

static TYPE: TypeCell = TypeCell::new();

/// Makes the type.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    // SAFETY: address of a static of the interpreter.
    let tuple = unsafe { Obj::borrowed((&raw mut ffi::PyTuple_Type).cast()) };
    let ty = TypeBuilder::new(c"corten.Size", 0)
        .flags(ffi::Py_TPFLAGS_BASETYPE)
        .base(tuple)
        .doc(c"Size(iterable=())\n--\n\nThe sizes of a tensor's dimensions, as a tuple.")
        .slot(ffi::Py_tp_new, slot!(call new))
        .slot(ffi::Py_tp_repr, slot!(unary repr))
        .slot(ffi::Py_nb_add, slot!(binary add))
        .slot(ffi::Py_sq_concat, slot!(binary concat))
        .slot(ffi::Py_nb_multiply, slot!(binary multiply))
        .slot(ffi::Py_mp_subscript, slot!(binary subscript))
        .methods([method!("numel", numel), method!("__reduce__", reduce)])
        .build()?;
    TYPE.set(&ty);
    module.set_attr_str(c"Size", &ty)
}

/// A size that was made before.
///
/// Note [Kept sizes]: programs ask for the same few shapes again and again. Sizes do not change, so
/// some are kept and given out again; making one and freeing it takes four times as long. All of it
/// happens with the interpreter lock held.
struct Kept {
    sizes: [AtomicI64; Kept::RANK],
    object: AtomicPtr<ffi::PyObject>,
}

static KEPT: [Kept; 32] = [const { Kept::none() }; 32];

impl Kept {
    /// Most dimensions of a size that is kept. Others are filled with a size that none has.
    const RANK: usize = 4;
    const MISSING: i64 = -1;

    const fn none() -> Self {
        Self {
            sizes: [const { AtomicI64::new(Self::MISSING) }; Self::RANK],
            object: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The size of these numbers where it is kept, or made and kept.
    fn get_or_make(values: &[i64]) -> Py<Obj> {
        let mut sizes = [Self::MISSING; Self::RANK];
        let Some(few) = sizes.get_mut(..values.len()) else { return make(values) };
        few.copy_from_slice(values);
        let mixed = sizes
            .iter()
            .fold(0_u64, |mixed, &size| (mixed ^ size as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let kept = &KEPT[(mixed >> 59) as usize];
        let object = kept.object.load(Ordering::Relaxed);
        let same = |(kept, size): (&AtomicI64, &i64)| kept.load(Ordering::Relaxed) == *size;
        if !object.is_null() && kept.sizes.iter().zip(&sizes).all(same) {
            // SAFETY: a kept object is live.
            return Ok(unsafe { Obj::borrowed(object) });
        }
        let made = make(values)?;
        for (kept, size) in kept.sizes.iter().zip(sizes) {
            kept.store(size, Ordering::Relaxed);
        }
        let before = kept.object.swap(made.clone().into_ptr(), Ordering::Relaxed);
        if !before.is_null() {
            // SAFETY: it was kept by a reference of its own, which nobody else knows.
            drop(unsafe { Obj::owned(before) }?);
        }
        Ok(made)
    }
}

/// A size of these numbers.
pub(crate) fn size(values: &[i64]) -> Py<Obj> {
    Kept::get_or_make(values)
}

fn make(values: &[i64]) -> Py<Obj> {
    // SAFETY: a fresh instance of a subtype of tuple with that many empty places, each filled once
    // before the object escapes.
    unsafe {
        let size = ffi::PyType_GenericAlloc(TYPE.get(), values.len() as ffi::Py_ssize_t);
        let size = Obj::owned(size)?;
        for (index, &value) in values.iter().enumerate() {
            let item = Obj::int(value)?.into_ptr();
            check(ffi::PyTuple_SetItem(size.as_ptr(), index as ffi::Py_ssize_t, item))?;
        }
        Ok(size)
    }
}

/// Whether the object is a size.
pub(crate) fn is_size(object: &Obj) -> bool {
    TYPE.is_instance(object)
}

fn new(class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let made = tuple_new(class.as_ptr().cast(), args, kwargs)?;
    let items = made.items()?;
    let is_kept =
        |item: &Obj| (item.is_int() && !item.is_bool()) || crate::symbolic::kind(item).is_some();
    if items.iter().all(is_kept) {
        return Ok(made);
    }
    // Bounded: items of a sequence.
    let mut numbers = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let number = match crate::args::number_kind(item) {
            Some(_) if item.is_bool() => item.is_true().and_then(|one| Obj::int(i64::from(one))),
            Some(_) if is_kept(item) => Ok(item.clone()),
            _ => crate::tensor::index_object(item),
        };
        numbers.push(number.map_err(|raised| {
            raised.clear();
            type_error(format!(
                "torch.Size() takes an iterable of 'int' (item {index} is '{}')",
                item.type_name()
            ))
        })?);
    }
    let tuple = Obj::tuple(numbers.into_iter().map(Ok))?;
    tuple_new(class.as_ptr().cast(), &Obj::tuple([Ok(tuple)])?, None)
}

/// `tuple.__new__(class, *args, **kwargs)`.
fn tuple_new(class: *mut ffi::PyTypeObject, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    // SAFETY: the slot of tuple, called with a subtype of it.
    unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
        let make: ffi::newfunc = std::mem::transmute(slot);
        Obj::owned(make(class, args.as_ptr(), kwargs.map_or(std::ptr::null_mut(), Obj::as_ptr)))
    }
}

fn from_tuple(tuple: &Obj) -> Py<Obj> {
    tuple_new(TYPE.get(), &Obj::tuple([Ok(tuple.clone())])?, None)
}

fn repr(this: &Obj) -> Py<Obj> {
    let mut text = String::from("torch.Size([");
    for (index, item) in this.items()?.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(item.repr()?.as_str()?);
    }
    text.push_str("])");
    Obj::str_from(&text)
}

fn add(left: &Obj, right: &Obj) -> Py<Obj> {
    if !left.is_tuple() {
        return Ok(Obj::not_implemented());
    }
    concat(left, right)
}

fn concat(left: &Obj, right: &Obj) -> Py<Obj> {
    if !right.is_tuple() {
        return Err(type_error(format!(
            "can only concatenate tuple (not {}) to torch.Size",
            right.type_name()
        )));
    }
    let mut items = left.items()?;
    items.extend(right.items()?);
    from_tuple(&Obj::tuple(items.into_iter().map(Ok))?)
}

fn multiply(left: &Obj, right: &Obj) -> Py<Obj> {
    let (size, times) = if is_size(left) { (left, right) } else { (right, left) };
    if !times.is_int() {
        return Ok(Obj::not_implemented());
    }
    let items = size.items()?;
    let times = times.to_i64()?.max(0) as usize;
    let count = items.len().saturating_mul(times);
    let mut repeated: Vec<Py<Obj>> = try_with_capacity(count)?;
    repeated.extend(items.iter().cycle().take(count).map(|item| Ok(item.clone())));
    from_tuple(&Obj::tuple(repeated)?)
}

fn subscript(this: &Obj, key: &Obj) -> Py<Obj> {
    // SAFETY: the slot of tuple, called with an instance of a subtype.
    let found = unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_mp_subscript);
        let get: ffi::binaryfunc = std::mem::transmute(slot);
        Obj::owned(get(this.as_ptr(), key.as_ptr()))?
    };
    if key.is_slice() { from_tuple(&found) } else { Ok(found) }
}

fn numel(this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let items = this.items()?;
    if items.iter().any(|item| crate::symbolic::kind(item).is_some()) {
        let math = crate::py::convert::import(name!("math"))?;
        return math.call_method(name!("prod"), &[this]);
    }
    let mut product = 1_i64;
    for item in items {
        product = product.wrapping_mul(item.to_i64()?);
    }
    Obj::int(product)
}

fn reduce(this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let plain = Obj::tuple(this.items()?.into_iter().map(Ok))?;
    let _ = name!("Size");
    Obj::tuple([Ok(TYPE.obj()), Obj::tuple([Ok(plain)])])
}
