//! Groups that are ready to be launched.

use super::printer::Printer;
use super::{elements, rows};
use crate::compile::{Function, Key, Program, function};
use crate::launch::{Shape, launch};
use crate::pointwise::{MAX_DIMS, aligned_width, geometry_words};
use crate::reduction::row_division;
use crate::stream::Stream;
use corten_core::{DType, Result, ensure};
use corten_ops::device_groups::{DeviceGroup, GroupKernel};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// A row of `Table` in the printed text.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Number([u8; 16]);

/// A printed kernel: many groups have the same text, and differ in sizes and numbers.
struct Text {
    parts: Vec<&'static str>,
    own: String,
    name: String,
}

/// Texts by what was printed. They stay, as what is compiled of them does.
static TEXTS: Mutex<Option<HashMap<String, &'static Text>>> = Mutex::new(None);

impl Text {
    /// The text of a kernel that `print` prints under a name. Its own name tells it from all others in caches.
    fn of(printer: &Printer<'_>, print: fn(&Printer<'_>, &str) -> String) -> &'static Self {
        let (parts, definitions) = printer.parts();
        let draft = definitions.clone() + "\n" + &print(printer, "group");
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = texts.get_or_insert_default();
        if let Some(text) = texts.get(&draft) {
            return text;
        }
        let mut hasher = DefaultHasher::new();
        draft.hash(&mut hasher);
        let name = format!("group_{:016x}", hasher.finish());
        let own = definitions + "\n" + &print(printer, &name);
        let text: &'static Self = Box::leak(Box::new(Self { parts, own, name }));
        texts.insert(draft, text);
        text
    }

    /// The kernel on a device; `width` elements per thread, or 0 for a kernel without that parameter.
    fn function(&'static self, device: i8, width: u32) -> Result<Function> {
        let key = Key {
            device,
            operator: std::ptr::from_ref(self).addr(),
            dtypes: [DType::Undefined; 6],
            variant: width,
        };
        function(key, || Program {
            text: self.parts.clone(),
            own: self.own.clone(),
            expression: match width {
                0 => format!("ct::{}", self.name),
                _ => format!("ct::{}<{width}>", self.name),
            },
        })
    }
}

/// How a group runs.
enum Form {
    /// All operands are dense or one element: the bytes of the elements of each, 0 for one element.
    Dense { n: u64, sizes: Vec<usize> },
    /// Operands have any strides: `Geometry` of the text.
    Strided { n: u32, geometry: Vec<u32> },
    /// Rows, with the strides along them, and `Geometry` across them.
    Rows { rows: u32, len: u32, along: Vec<i64>, geometry: Vec<u32> },
}

/// A group that is ready to be launched.
pub(super) struct Kernel {
    text: &'static Text,
    numbers: Vec<Number>,
    operands: usize,
    form: Form,
}

impl Kernel {
    /// `None` for groups with more dimensions, elements or bytes than kernels take.
    pub(super) fn new(group: &DeviceGroup) -> Option<Self> {
        let printer = Printer::new(group)?;
        let form = match group.by_rows {
            true => rows_form(group)?,
            false => elements_form(group)?,
        };
        let text = match form {
            Form::Dense { .. } => Text::of(&printer, elements::dense),
            Form::Strided { .. } => Text::of(&printer, elements::strided),
            Form::Rows { .. } => Text::of(&printer, rows::rows),
        };
        let numbers = printer.numbers.iter().map(|&bytes| Number(bytes)).collect();
        Some(Self { text, numbers, operands: group.operands.len(), form })
    }
}

fn elements_form(group: &DeviceGroup) -> Option<Form> {
    let n: i64 = group.sizes.iter().product();
    let sizes = group.operands.iter().map(|operand| {
        let size = operand.dtype.itemsize() as i64;
        (operand.strides[0] == 0 || operand.strides[0] == size).then_some(operand.strides[0])
    });
    let sizes: Option<Vec<usize>> = sizes.map(|size| size.map(|size| size as usize)).collect();
    match sizes.filter(|_| group.sizes.len() == 1) {
        Some(sizes) => Some(Form::Dense { n: n as u64, sizes }),
        None => Some(Form::Strided { n: u32::try_from(n).ok()?, geometry: geometry(group, 0)? }),
    }
}

fn rows_form(group: &DeviceGroup) -> Option<Form> {
    let (&len, across) = group.sizes.split_first()?;
    let rows: i64 = across.iter().product();
    let along = group.operands.iter().map(|operand| operand.strides[0]).collect();
    let [rows, len] = [rows, len].map(u32::try_from);
    Some(Form::Rows { rows: rows.ok()?, len: len.ok()?, along, geometry: geometry(group, 1)? })
}

/// `Geometry` of the dimensions from `first` on. `None` for more than kernels take.
fn geometry(group: &DeviceGroup, first: usize) -> Option<Vec<u32>> {
    let most = i64::from(i32::MAX);
    let strides = || group.operands.iter().flat_map(|operand| &operand.strides[first..]);
    let fits = group.sizes.len() - first <= MAX_DIMS
        && group.sizes[first..].iter().product::<i64>() <= most
        && strides().all(|stride| stride.abs() <= most);
    fits.then(|| {
        let stride = |k: usize, dim: usize| group.operands[k].strides[dim];
        let dims = first..group.sizes.len();
        geometry_words(group.operands.len(), dims, |dim| group.sizes[dim], stride)
    })
}

impl GroupKernel for Kernel {
    unsafe fn launch(&self, device: i8, at: &[*mut u8]) -> Result<()> {
        ensure!(at.len() == self.operands, Internal, "a group is launched with other operands");
        let stream = Stream::current(device);
        let mut at = at.to_vec();
        let mut numbers = self.numbers.clone();
        let first: *mut c_void = at.as_mut_ptr().cast();
        let table: *mut c_void = numbers.as_mut_ptr().cast();
        match &self.form {
            Form::Dense { n, sizes } => {
                let each = at.iter().copied().zip(sizes.iter().copied());
                let width = aligned_width(each.filter(|&(_, size)| size > 0));
                let shape = Shape::over(n.div_ceil(u64::from(width)) as i64);
                let kernel = self.text.function(device, width)?;
                let mut n = *n;
                // SAFETY: the parameters are those of the printed kernel; the rest is the caller's.
                unsafe { launch(kernel, shape, stream, &mut [(&raw mut n).cast(), first, table]) }
            }
            Form::Strided { n, geometry } => {
                let (mut n, mut geometry) = (*n, geometry.clone());
                let kernel = self.text.function(device, 0)?;
                let shape = Shape::over(i64::from(n));
                let mut all = [(&raw mut n).cast(), first, table, geometry.as_mut_ptr().cast()];
                // SAFETY: as above.
                unsafe { launch(kernel, shape, stream, &mut all) }
            }
            Form::Rows { rows, len, along, geometry } => {
                let (mut rows, mut len) = (*rows, *len);
                let (mut along, mut geometry) = (along.clone(), geometry.clone());
                let kernel = self.text.function(device, 0)?;
                let division = row_division(u64::from(len), u64::from(rows));
                let shape = Shape {
                    grid: [rows.div_ceil(division.width), 1, 1],
                    block: [division.lanes, division.width, 1],
                    shared: division.lanes * division.width * ROOM,
                };
                let mut all = [
                    (&raw mut rows).cast(),
                    (&raw mut len).cast(),
                    first,
                    table,
                    along.as_mut_ptr().cast(),
                    geometry.as_mut_ptr().cast(),
                ];
                // SAFETY: as above.
                unsafe { launch(kernel, shape, stream, &mut all) }
            }
        }
    }
}

/// Bytes of shared memory per thread: no accumulator has more.
const ROOM: u32 = 32;
