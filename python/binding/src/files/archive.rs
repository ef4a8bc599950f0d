//! PyTorch's zip archives.

use super::path::readable;
use super::python_file::{Pending, PythonFile};
use crate::args::parser;
use crate::py::class::{Class, TypeBuilder, instance, make, this};
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method};
use crate::storage;
use corten::io::torch::Archive;
use corten_core::mapped::Sharing;
use corten_core::{Result, Storage};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Mutex;

static TYPE: TypeCell = TypeCell::new();

/// A file of the system, or one of Python.
enum Input {
    System(BufReader<File>),
    Python(BufReader<PythonFile>),
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::System(file) => file.read(bytes),
            Self::Python(file) => file.read(bytes),
        }
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::System(file) => file.seek(to),
            Self::Python(file) => file.seek(to),
        }
    }
}

struct PyArchive {
    archive: Mutex<Archive<Input>>,
    pending: Pending,
}

impl PyArchive {
    fn with<T: Send>(&self, work: impl FnOnce(&mut Archive<Input>) -> Result<T> + Send) -> Py<T> {
        // Files of Python may ask for records of the archive that reads them.
        let mut archive =
            self.archive.try_lock().map_err(|_| runtime_error("the archive is being read"))?;
        let archive = &mut *archive;
        detach(move || work(archive)).map_err(|error| self.pending.or(error))
    }
}

impl Class for PyArchive {
    const NAME: &'static CStr = c"corten._C._Archive";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder.doc(c"The records of a zip file that holds saved objects.").methods([
            method!("names", |s: &Obj, _a: Args<'_>| {
                let names = get_this(s).with(|archive| Ok(archive.names().to_vec()))?;
                Obj::list(names.iter().map(|name| Obj::str_from(name)))
            }),
            method!("has", |s: &Obj, args: Args<'_>| {
                let name = name_of(args)?;
                Ok(Obj::bool(get_this(s).with(|archive| Ok(archive.has(&name)))?))
            }),
            method!("place", |s: &Obj, args: Args<'_>| {
                let name = name_of(args)?;
                let (_, place) = get_this(s).with(|archive| archive.describe(&name))?;
                place.map_or_else(|| Ok(Obj::none()), Obj::uint)
            }),
            method!("read", |s: &Obj, args: Args<'_>| {
                let bound = parser!("read(str name, int? largest=None)").parse(None, args)?;
                let (name, largest) = (bound.str(0)?.to_owned(), bound.int_opt(1)?);
                let bytes = get_this(s).with(|archive| match largest {
                    Some(largest) => archive.read_at_most(&name, largest.max(0) as u64),
                    None => archive.read(&name),
                })?;
                Obj::bytes(&bytes)
            }),
            method!("storage", |s: &Obj, args: Args<'_>| {
                let bound = parser!("storage(str name, int nbytes)").parse(None, args)?;
                let (name, nbytes) = (bound.str(0)?.to_owned(), bound.int(1)?);
                let nbytes = usize::try_from(nbytes).map_err(|_| type_error("a negative size"))?;
                storage::wrap(&get_this(s).with(|archive| archive.storage(&name, nbytes))?)
            }),
        ])
    }
}

fn get_this(object: &Obj) -> &PyArchive {
    this(object)
}

fn name_of(args: Args<'_>) -> Py<String> {
    let [name] = args.positional else { return Err(type_error("one name expected")) };
    Ok(name.as_str()?.to_owned())
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_Archive", &make::<PyArchive>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_archive_of_file", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_archive_of_file(any file)").parse(None, args)?;
            let pending = Pending::default();
            let file = PythonFile::new(bound.object(0)?.clone(), pending.clone());
            open(Input::Python(BufReader::new(file)), pending, Ok)
        }),
        method!("_archive_of_path", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_archive_of_path(any path, bool? shared=None)");
            let bound = parser.parse(None, args)?;
            let (path, shared) = (readable(bound.object(0)?)?, bound.bool_opt(1)?);
            let file = File::open(&path).map_err(|error| runtime_error(error.to_string()))?;
            open(Input::System(BufReader::new(file)), Pending::default(), |mut archive| {
                let sharing = match shared {
                    None => return Ok(archive),
                    Some(true) => Sharing::Shared,
                    Some(false) => Sharing::Private,
                };
                let memory = Storage::from_file(&path, sharing, 0)?;
                if sharing == Sharing::Shared {
                    archive.drop_checksums(&memory)?;
                }
                Ok(archive.mapped(memory.lend()?))
            })
        }),
    ]
}

fn open(
    input: Input,
    pending: Pending,
    finish: impl FnOnce(Archive<Input>) -> Result<Archive<Input>> + Send,
) -> Py<Obj> {
    let made = detach(|| Archive::new(input).and_then(finish));
    let archive = made.map_err(|error| pending.or(error))?;
    instance(PyArchive { archive: Mutex::new(archive), pending })
}
