//! Nested sequences of numbers: shape, dtype and elements.

use crate::args::{NumberKind, number_kind};
use crate::numpy;
use crate::py::errors::{Raised, runtime_error, type_error, value_error, warn};
use crate::py::{Obj, Py, ffi};
use crate::tensor;
use corten_core::{
    DType, Dims, Element, Scalar, Writer, cast, match_dtype, promote_types, try_push, try_reserve,
};
use corten_ops::Tensor;
use std::sync::atomic::AtomicBool;

/// Deeper nesting than this has no meaning as a shape.
const MAX_DIMS: usize = 128;

/// A new tensor with a copy of the data, on the host.
pub(crate) fn tensor_from(data: &Obj, dtype: Option<DType>) -> Py<Tensor> {
    if data.is_str() {
        return Err(type_error(format!("new(): invalid data type '{}'", data.type_name())));
    }
    if let Some(source) = tensor::get(data) {
        return copy_of(source, dtype);
    }
    if numpy::is_array(data) {
        return copy_of(&numpy::from_array(data, false)?, dtype);
    }
    if numpy::is_scalar(data) && dtype.is_none() {
        return copy_of(&numpy::from_array(&numpy::scalar_to_array(data)?, false)?, dtype);
    }
    if crate::storage::is_storage(data) {
        return copy_of(&crate::storage::tensor_over(data, dtype)?, dtype);
    }
    if crate::dlpack::is_exporter(data)? {
        return copy_of(&crate::dlpack::import(data)?, dtype);
    }
    warn_about_arrays(data)?;
    let sizes = shape_of(data)?;
    let mut reader = Reader {
        numbers: Vec::new(),
        dtype: None,
        infer: dtype.is_none(),
        in_array: false,
        too_large: false,
    };
    let count = sizes.iter().fold(1i64, |all, &size| all.saturating_mul(size));
    try_reserve(&mut reader.numbers, count.max(0) as usize)?;
    reader.read(data, &sizes, 0)?;
    let dtype = dtype.or(reader.dtype).unwrap_or_else(corten_core::default_dtype);
    if reader.too_large && dtype.is_integral(false) {
        return Err(value_error("Overflow when unpacking long long"));
    }
    store(&reader.numbers, &sizes, dtype)
}

/// Says once that a list of arrays is read element by element.
fn warn_about_arrays(data: &Obj) -> Py<()> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let arrays = data.is_list()
        && data.sequence_len() > 0
        && numpy::is_array(&data.sequence_item(0)?)
        && corten_core::is_first_warning(&SAID);
    if !arrays {
        return Ok(());
    }
    warn(
        "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider \
         converting the list to a single numpy.ndarray with numpy.array() before converting to a \
         tensor.",
    )
}

fn copy_of(source: &Tensor, dtype: Option<DType>) -> Py<Tensor> {
    use crate::functions::op1;
    let plain = op1!("aten::detach", source)?;
    Ok(op1!(
        "aten::to.dtype",
        &plain,
        dtype.unwrap_or_else(|| source.dtype()),
        false,
        true,
        None::<corten_core::MemoryFormat>
    )?)
}

fn is_sequence(object: &Obj) -> bool {
    if object.is_list() || object.is_tuple() {
        return true;
    }
    if number_kind(object).is_some() || tensor::is_tensor(object) || numpy::is_scalar_array(object)
    {
        return false;
    }
    // SAFETY: the object is live.
    unsafe { ffi::PySequence_Check(object.as_ptr()) != 0 }
}

/// The shape, read off the first element of every level. A string that is not empty never ends:
/// its first element is a string.
fn shape_of(data: &Obj) -> Py<Dims> {
    let mut sizes = Dims::new();
    let mut level = data.clone();
    while is_sequence(&level) {
        let length = level.len()?;
        sizes.push(length as i64);
        if sizes.len() > MAX_DIMS {
            return Err(value_error(format!("too many dimensions '{}'", level.type_name())));
        }
        if length == 0 {
            break;
        }
        level = item_at(&level, 0).map_err(|raised| {
            raised.clear();
            let kind = level.type_name();
            value_error(format!("could not determine the shape of object type '{kind}'"))
        })?;
    }
    Ok(sizes)
}

fn item_at(sequence: &Obj, index: usize) -> Py<Obj> {
    if sequence.is_list() || sequence.is_tuple() {
        return sequence.sequence_item(index);
    }
    // SAFETY: the object is live.
    unsafe { Obj::owned(ffi::PySequence_GetItem(sequence.as_ptr(), index as ffi::Py_ssize_t)) }
}

/// Collects numbers and the dtype that holds them all.
struct Reader {
    numbers: Vec<Scalar>,
    dtype: Option<DType>,
    infer: bool,
    /// The elements belong to an array, whose dtype is known.
    in_array: bool,
    /// There is an integer of more than 64 bits, which only floats, complex numbers and bools take.
    too_large: bool,
}

impl Reader {
    fn read(&mut self, object: &Obj, sizes: &[i64], dim: usize) -> Py<()> {
        if dim == sizes.len() {
            return self.read_number(object);
        }
        if !is_sequence(object) {
            return Err(type_error("not a sequence"));
        }
        if self.infer && object.is_str() {
            return Err(no_number(object));
        }
        let outer = self.in_array;
        if !outer && numpy::is_array(object) {
            self.meet(numpy::dtype_of(object)?)?;
            self.in_array = true;
        }
        let length = object.len()?;
        if length as i64 != sizes[dim] {
            return Err(value_error(format!(
                "expected sequence of length {} at dim {dim} (got {length})",
                sizes[dim]
            )));
        }
        for index in 0..length {
            let item = item_at(object, index)?;
            if item.as_ptr() == object.as_ptr() {
                return Err(type_error("new(): self-referential lists are incompatible"));
            }
            self.read(&item, sizes, dim + 1)?;
        }
        self.in_array = outer;
        Ok(())
    }

    fn read_number(&mut self, object: &Obj) -> Py<()> {
        if let Some(source) = tensor::get(object) {
            if source.numel() != 1 {
                return Err(value_error(
                    "only one element tensors can be converted to Python scalars",
                ));
            }
            self.meet(source.dtype())?;
            try_push(&mut self.numbers, tensor::item(source)?)?;
            return Ok(());
        }
        if numpy::is_array(object) {
            self.meet(numpy::dtype_of(object)?)?;
            let number = object.call_method(crate::py::name!("item"), &[])?;
            try_push(&mut self.numbers, crate::args::scalar_from(&number)?)?;
            return Ok(());
        }
        if object.is_list() || object.is_tuple() {
            return Err(deeper(object, self.dtype));
        }
        let Some(kind) = number_kind(object) else { return Err(no_number(object)) };
        if self.infer && !self.in_array {
            let dtype = match kind {
                _ if numpy::is_scalar(object) => numpy::dtype_of(object)?,
                NumberKind::Bool => DType::Bool,
                NumberKind::Int => DType::Int64,
                NumberKind::Float => corten_core::default_dtype(),
                NumberKind::Complex => corten_core::default_complex_dtype(),
            };
            self.meet(dtype)?;
        }
        let number = match crate::args::scalar_from(object) {
            Err(raised) if kind == NumberKind::Int => self.large_integer(object, raised)?,
            number => number.map_err(reword_overflow)?,
        };
        try_push(&mut self.numbers, number)?;
        Ok(())
    }

    /// An integer of more than 64 bits, as a float.
    #[cold]
    fn large_integer(&mut self, object: &Obj, raised: Raised) -> Py<Scalar> {
        // SAFETY: reads statics of the interpreter.
        let (overflow, value) = unsafe { (ffi::PyExc_OverflowError, ffi::PyExc_ValueError) };
        if !raised.matches(overflow) && !raised.matches(value) {
            return Err(raised);
        }
        raised.clear();
        self.too_large = true;
        Ok(Scalar::Float(object.to_f64().map_err(reword_overflow)?))
    }

    fn meet(&mut self, dtype: DType) -> Py<()> {
        self.dtype = Some(match self.dtype {
            Some(before) if before == dtype => dtype,
            Some(before) => promote_types(before, dtype)?,
            None => dtype,
        });
        Ok(())
    }
}

/// A sequence where the others of its level are numbers.
#[cold]
fn deeper(object: &Obj, dtype: Option<DType>) -> Raised {
    let kind = object.type_name();
    if dtype.is_some_and(|dtype| dtype.is_floating_point() || dtype.is_complex()) {
        return type_error(format!("must be real number, not {kind}"));
    }
    type_error(format!("'{kind}' object cannot be interpreted as an integer"))
}

#[cold]
fn no_number(object: &Obj) -> Raised {
    if object.is_str() {
        return type_error(format!("new(): invalid data type '{}'", object.type_name()));
    }
    runtime_error(format!("Could not infer dtype of {}", object.type_name()))
}

#[cold]
fn reword_overflow(raised: Raised) -> Raised {
    // SAFETY: reads a static of the interpreter.
    if raised.matches(unsafe { ffi::PyExc_OverflowError }) {
        raised.clear();
        return value_error("Overflow when unpacking long long");
    }
    raised
}

fn store(numbers: &[Scalar], sizes: &[i64], dtype: DType) -> Py<Tensor> {
    let made = tensor::empty(sizes, dtype)?;
    if numbers.is_empty() {
        return Ok(made);
    }
    if dtype == DType::Bool {
        // Fresh memory may hold bytes that are no truth values, which a writer refuses.
        // SAFETY: the tensor is new and holds that many bytes.
        unsafe { std::ptr::write_bytes(made.data_ptr(), 0, made.nbytes()) };
    }
    // A Python exception passes the dtype switch as a value, so that the switch's own error is the
    // only one.
    let raised: corten_core::Result<Option<Raised>> = match_dtype!(dtype, "tensor", All, T => {
        let mut writer = Writer::<T>::new(made.base())?;
        let filled = writer.iter_mut().zip(numbers).try_for_each(|(place, &number)| {
            *place = convert::<T>(number, dtype)?;
            Ok::<(), Raised>(())
        });
        Ok(filled.err())
    });
    match raised? {
        Some(raised) => Err(raised),
        None => Ok(made),
    }
}

/// One element. Negative integers wrap into unsigned dtypes, larger ones are refused, floats are
/// truncated.
fn convert<T: Element>(number: Scalar, dtype: DType) -> Py<T> {
    match number {
        Scalar::Int(value) if dtype.is_integral(false) => {
            let bits = 8 * dtype.itemsize() as u32;
            let fits = if dtype.is_signed() {
                bits >= 64 || (-(1_i64 << (bits - 1))..(1_i64 << (bits - 1))).contains(&value)
            } else {
                bits >= 64 || (value < 1_i64 << bits && value >= -(1_i64 << bits))
            };
            if !fits {
                return Err(overflow(dtype));
            }
            Ok(cast::<i64, T>(value))
        }
        Scalar::UInt(_) if dtype.is_integral(false) && dtype != DType::UInt64 => {
            Err(value_error("Overflow when unpacking long long"))
        }
        Scalar::Complex(_) if dtype.is_floating_point() => {
            Err(type_error("must be real number, not complex"))
        }
        Scalar::Complex(_) if dtype.is_integral(false) => {
            Err(type_error("'complex' object cannot be interpreted as an integer"))
        }
        Scalar::Float(value) if dtype.is_integral(false) && !is_within(value, dtype) => {
            Err(match dtype {
                DType::UInt64 => type_error("an integer is required"),
                _ => overflow(dtype),
            })
        }
        other => Ok(T::from_scalar(other)),
    }
}

/// Whether a number lies between the least and the greatest integer of a dtype.
fn is_within(value: f64, dtype: DType) -> bool {
    let bits = 8 * dtype.itemsize() as i32;
    let (low, high) = match dtype.is_signed() {
        true => (-(2_f64.powi(bits - 1)), 2_f64.powi(bits - 1)),
        false => (0.0, 2_f64.powi(bits)),
    };
    value >= low && value <= high - 1.0
}

#[cold]
fn overflow(dtype: DType) -> Raised {
    runtime_error(format!("value cannot be converted to type {} without overflow", dtype.name()))
}
