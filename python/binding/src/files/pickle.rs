//! Pickles into objects of Python, by rules that Python states.
//!
//! The machine is that of `corten-io`. Values and containers are made here; what a pickle asks for by name, what it
//! may call and what else is not of Python's own classes is asked of the rules. Tensors over storages are made here,
//! too, where nothing is unusual about them.

use super::python_file::FileSource;
use crate::args::parser;
use crate::py::errors::{Raised, runtime_error};
use crate::py::obj::check;
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::{storage, tensor};
use corten::io::pickle::{Fault, Literal, Machine, Objects, Slice};
use corten_core::DType;
use corten_ops::Tensor;
use std::collections::HashMap;
use std::ffi::CString;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_unpickle", unpickle)]
}

/// `_unpickle(source, rules)`: the object of a pickle, in bytes or where a file is.
fn unpickle(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_unpickle(any source, any rules)").parse(None, args)?;
    let (source, mut objects) = (bound.object(0)?, PyObjects::new(bound.object(1)?)?);
    if source.is_bytes() {
        return Machine::new(&mut Slice::new(source.as_bytes()?, 0), &mut objects).run();
    }
    Machine::new(&mut FileSource(source), &mut objects).run()
}

/// Raises the exception that Python's own machine raises.
#[cold]
fn raise(fault: &Fault) -> Py<Raised> {
    let (class, text) = match fault {
        // SAFETY: a class of the interpreter is live.
        Fault::EndOfInput(text) => (unsafe { Obj::borrowed(ffi::PyExc_EOFError) }, *text),
        Fault::Invalid(text) => {
            let module = crate::py::convert::import(name!("pickle"))?;
            (module.attr(name!("UnpicklingError"))?, text.as_str())
        }
    };
    Ok(Raised::raise(&class.call(&[&Obj::str_from(text)?])?))
}

struct PyObjects<'a> {
    rules: &'a Obj,
    /// The opcodes that are understood.
    opcodes: [bool; 256],
    /// How strings of Python 2 are decoded; they stay bytes without it.
    encoding: Option<CString>,
    /// What was found by module and name.
    globals: HashMap<String, Obj>,
    ordered_dict: Obj,
    rebuild_tensor: Obj,
    typed_storage: Obj,
}

impl<'a> PyObjects<'a> {
    fn new(rules: &'a Obj) -> Py<Self> {
        let mut opcodes = [false; 256];
        for &opcode in rules.attr(name!("opcodes"))?.as_bytes()? {
            opcodes[usize::from(opcode)] = true;
        }
        let encoding = rules.attr(name!("encoding"))?;
        let encoding = match encoding.as_str()? {
            "bytes" => None,
            name => Some(CString::new(name).map_err(|_| runtime_error("no encoding"))?),
        };
        Ok(Self {
            rules,
            opcodes,
            encoding,
            globals: HashMap::new(),
            ordered_dict: rules.attr(name!("ordered_dict"))?,
            rebuild_tensor: rules.attr(name!("rebuild_tensor"))?,
            typed_storage: rules.attr(name!("typed_storage"))?,
        })
    }

    /// A tensor over a storage; nothing where the function of Python must look at it.
    fn rebuilt(&self, arguments: &Obj) -> Py<Option<Obj>> {
        let items = arguments.items()?;
        let [source, offset, sizes, strides, wanted, hooks] = items.as_slice() else {
            return Ok(None);
        };
        let is_usual = source.type_obj().is(&self.typed_storage)
            && wanted.is_bool()
            && hooks.is_dict()
            && hooks.dict_len() == Some(0);
        let (Some(sizes), Some(strides)) = (numbers(sizes)?, numbers(strides)?) else {
            return Ok(None);
        };
        let Some(offset) = number(offset)?.filter(|_| is_usual) else { return Ok(None) };
        let dtype = storage::element_dtype(source)?.unwrap_or(DType::UInt8);
        let source = storage::from_object(source)?;
        let made = Tensor::from_storage(source, dtype, &sizes, &strides, offset);
        let made = made.and_then(|made| {
            if wanted.is_true().unwrap_or(false) {
                tensor::set_requires_grad(&made, true)?;
            }
            Ok(made)
        });
        // The function says in PyTorch's words what is wrong.
        made.ok().map(tensor::wrap_owned).transpose()
    }
}

/// A number that is not negative, of Python's own class.
fn number(object: &Obj) -> Py<Option<i64>> {
    if !object.is_int() || object.is_bool() {
        return Ok(None);
    }
    match object.to_i64() {
        Ok(number) => Ok((number >= 0).then_some(number)),
        Err(raised) => {
            raised.clear();
            Ok(None)
        }
    }
}

/// The numbers of a tuple.
fn numbers(object: &Obj) -> Py<Option<Vec<i64>>> {
    if !object.is_tuple() {
        return Ok(None);
    }
    object.items()?.iter().map(number).collect()
}

impl Objects for PyObjects<'_> {
    type Object = Obj;
    type Error = Raised;

    fn fault(fault: Fault) -> Raised {
        raise(&fault).unwrap_or_else(|raised| raised)
    }

    fn accepts(&self, opcode: u8) -> bool {
        self.opcodes[usize::from(opcode)]
    }

    fn literal(&mut self, literal: Literal<'_>) -> Py<Obj> {
        match literal {
            Literal::None => Ok(Obj::none()),
            Literal::Bool(value) => Ok(Obj::bool(value)),
            Literal::Int(value) => Obj::int(value),
            Literal::BigInt(bytes) => super::values::big_int(bytes),
            Literal::Float(value) => Obj::float(value),
            Literal::Text(bytes) => decoded(bytes, c"utf-8", c"surrogatepass"),
            Literal::Bytes(bytes) => Obj::bytes(bytes),
            Literal::String(bytes) => match &self.encoding {
                Some(encoding) => decoded(bytes, encoding, c"strict"),
                None => Obj::bytes(bytes),
            },
        }
    }

    fn tuple(&mut self, items: Vec<Obj>) -> Py<Obj> {
        Obj::tuple(items.into_iter().map(Ok))
    }

    fn list(&mut self, items: Vec<Obj>) -> Py<Obj> {
        Obj::list(items.into_iter().map(Ok))
    }

    fn set(&mut self, items: Vec<Obj>) -> Py<Obj> {
        debug_assert!(items.is_empty(), "the opcode for sets with members is not understood");
        // SAFETY: a new empty set.
        unsafe { Obj::owned(ffi::PySet_New(std::ptr::null_mut())) }
    }

    fn dict(&mut self) -> Py<Obj> {
        Obj::dict()
    }

    fn global(&mut self, module: &str, name: &str) -> Py<Obj> {
        let full = format!("{module}\n{name}");
        if let Some(found) = self.globals.get(&full) {
            return Ok(found.clone());
        }
        let (module, name) = (Obj::str_from(module)?, Obj::str_from(name)?);
        let found = self.rules.call_method(name!("find_class"), &[&module, &name])?;
        self.globals.insert(full, found.clone());
        Ok(found)
    }

    fn call(&mut self, function: Obj, arguments: Obj) -> Py<Obj> {
        if function.is(&self.rebuild_tensor)
            && arguments.is_tuple()
            && let Some(made) = self.rebuilt(&arguments)?
        {
            return Ok(made);
        }
        if function.is(&self.ordered_dict) && arguments.is_tuple() && arguments.sequence_len() == 0
        {
            return function.call(&[]);
        }
        self.rules.call_method(name!("call"), &[&function, &arguments])
    }

    fn create(&mut self, class: Obj, arguments: Obj) -> Py<Obj> {
        self.rules.call_method(name!("create"), &[&class, &arguments])
    }

    fn build(&mut self, target: &Obj, state: Obj) -> Py<()> {
        self.rules.call_method(name!("build"), &[target, &state]).map(drop)
    }

    fn append(&mut self, target: &Obj, items: Vec<Obj>) -> Py<()> {
        if target.type_ptr() != &raw mut ffi::PyList_Type {
            let items = self.list(items)?;
            return self.rules.call_method(name!("append_all"), &[target, &items]).map(drop);
        }
        items.iter().try_for_each(|item| {
            // SAFETY: both are live, the target is a list.
            check(unsafe { ffi::PyList_Append(target.as_ptr(), item.as_ptr()) })
        })
    }

    fn set_items(&mut self, target: &Obj, items: Vec<Obj>) -> Py<()> {
        let is_dict = target.type_ptr() == &raw mut ffi::PyDict_Type;
        let is_ordered = target.type_obj().is(&self.ordered_dict);
        // Hashing a tuple visits all that is in it: the rules look first. They know other dictionaries, too.
        let is_usual = (is_dict || is_ordered)
            && items.len().is_multiple_of(2)
            && items.chunks_exact(2).all(|pair| !pair[0].is_tuple());
        if !is_usual {
            let items = self.list(items)?;
            return self.rules.call_method(name!("set_items"), &[target, &items]).map(drop);
        }
        items.chunks_exact(2).try_for_each(|pair| {
            let (key, value) = (pair[0].as_ptr(), pair[1].as_ptr());
            // SAFETY: all are live. An ordered dictionary keeps the order by a method of its own.
            check(unsafe {
                match is_dict {
                    true => ffi::PyDict_SetItem(target.as_ptr(), key, value),
                    false => ffi::PyObject_SetItem(target.as_ptr(), key, value),
                }
            })
        })
    }

    fn persistent(&mut self, id: Obj) -> Py<Obj> {
        self.rules.call_method(name!("persistent"), &[&id])
    }
}

fn decoded(bytes: &[u8], encoding: &std::ffi::CStr, errors: &std::ffi::CStr) -> Py<Obj> {
    let (start, length) = (bytes.as_ptr().cast(), bytes.len() as ffi::Py_ssize_t);
    // SAFETY: so many bytes, and texts that are terminated.
    unsafe { Obj::owned(ffi::PyUnicode_Decode(start, length, encoding.as_ptr(), errors.as_ptr())) }
}
