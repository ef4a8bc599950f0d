//! The entries of the operators, and the reading of their arguments.

use crate::stable::FUNCTIONS;
use crate::stable::create::count;
use crate::stable::handle::{TensorHandle, give, tensor_at};
use crate::stable::outcome::{Outcome, guard};
use crate::stable::words::{layout_from, memory_format_from};
use crate::tensor::{CortenDevice, device_from, dtype_from};
use crate::value::{slice_of, text_of};
use corten::core::{bail, err};
use corten::ops::schema::{Argument, BaseType, Type};
use corten::ops::{AnyOp, IValue, OpKind, Stack, registry};
use corten::{Generator, Result, Tensor};
use std::arch::global_asm;
use std::collections::BTreeSet;
use std::ffi::c_char;
use std::sync::LazyLock;

/// Bytes from one entry to the next.
const ENTRY: u64 = 16;

/// The number of entries, some of which are spare.
const COUNT: usize = 160;

/// All symbols of the ABI, those of other functions included.
const RECORD: &str = include_str!("../../../stable.txt");

/// Entries that have an operator: the symbol, and the operator.
static SHIMS: LazyLock<Vec<(&str, &'static dyn AnyOp)>> = LazyLock::new(|| {
    let others: BTreeSet<&str> =
        FUNCTIONS.iter().copied().flatten().map(|function| function.name).collect();
    let symbols = RECORD.lines().filter(|symbol| !others.contains(symbol));
    let found = symbols.filter_map(|symbol| {
        let name = symbol.strip_prefix("aoti_torch_")?;
        let name =
            ["cpu_", "aten_"].iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
        Some((symbol, operator(name)?))
    });
    found.take(COUNT).collect()
});

/// The operator of a name in C: `add.Scalar` of `add_Scalar`.
fn operator(name: &str) -> Option<&'static dyn AnyOp> {
    let whole = registry::find(&format!("aten::{name}"));
    whole.or_else(|| {
        let mut places = name.rmatch_indices('_');
        places.find_map(|(place, _)| {
            let (name, overload) = (&name[..place], &name[place + 1..]);
            registry::find(&format!("aten::{name}.{overload}"))
        })
    })
}

unsafe extern "C" {
    /// Where the entries begin.
    static corten_c_shims: u8;
}

// The stack is aligned to 16 bytes again after `push`, and 112 is a multiple of it.
global_asm!(
    ".section .text.corten_c_shims,\"ax\",@progbits",
    ".balign 16",
    ".globl corten_c_shims",
    ".hidden corten_c_shims",
    ".type corten_c_shims,@function",
    "corten_c_shims:",
    ".set corten_c_shim, 0",
    ".rept {count}",
    "mov eax, offset corten_c_shim",
    "jmp corten_c_enter_shim",
    ".balign 16",
    ".set corten_c_shim, corten_c_shim + 1",
    ".endr",
    ".size corten_c_shims, . - corten_c_shims",
    ".type corten_c_enter_shim,@function",
    "corten_c_enter_shim:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, 112",
    "mov [rsp], rdi",
    "mov [rsp + 8], rsi",
    "mov [rsp + 16], rdx",
    "mov [rsp + 24], rcx",
    "mov [rsp + 32], r8",
    "mov [rsp + 40], r9",
    "movsd [rsp + 48], xmm0",
    "movsd [rsp + 56], xmm1",
    "movsd [rsp + 64], xmm2",
    "movsd [rsp + 72], xmm3",
    "movsd [rsp + 80], xmm4",
    "movsd [rsp + 88], xmm5",
    "movsd [rsp + 96], xmm6",
    "movsd [rsp + 104], xmm7",
    "mov edi, eax",
    "mov rsi, rsp",
    "lea rdx, [rbp + 16]",
    "call {run}",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size corten_c_enter_shim, . - corten_c_enter_shim",
    ".text",
    count = const COUNT,
    run = sym run,
);

/// The functions by name.
pub(in crate::stable) fn functions() -> impl Iterator<Item = (String, u64)> {
    let begin = (&raw const corten_c_shims) as u64;
    let names = SHIMS.iter().enumerate();
    names.map(move |(index, (name, _))| ((*name).to_owned(), begin + index as u64 * ENTRY))
}

/// The registers that carry arguments, as the entries store them.
#[repr(C)]
struct Registers {
    integers: [u64; 6],
    doubles: [f64; 8],
}

/// The arguments of a call that are still to be read.
struct Arguments<'a> {
    registers: &'a Registers,
    /// Those that have no register.
    stack: *const u64,
    integers: usize,
    doubles: usize,
}

impl Arguments<'_> {
    /// # Safety
    /// The call must have one more argument, and it must be no number of floating point.
    unsafe fn word(&mut self) -> u64 {
        self.integers += 1;
        match self.registers.integers.get(self.integers - 1) {
            Some(word) => *word,
            // SAFETY: the caller's.
            None => unsafe { self.next_on_stack() },
        }
    }

    /// # Safety
    /// The call must have one more argument, and it must be a number of floating point.
    unsafe fn double(&mut self) -> f64 {
        self.doubles += 1;
        match self.registers.doubles.get(self.doubles - 1) {
            Some(number) => *number,
            // SAFETY: the caller's.
            None => f64::from_bits(unsafe { self.next_on_stack() }),
        }
    }

    /// # Safety
    /// The call must have one more argument, on the stack.
    unsafe fn next_on_stack(&mut self) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            let word = self.stack.read();
            self.stack = self.stack.add(1);
            word
        }
    }

    /// # Safety
    /// As [`word`](Self::word).
    unsafe fn int32(&mut self) -> i32 {
        // SAFETY: the caller's. The upper half of a register is anything.
        (unsafe { self.word() } as u32).cast_signed()
    }

    /// # Safety
    /// As [`word`](Self::word), and the argument must be a pointer to what `T` is.
    unsafe fn pointer<T>(&mut self) -> *const T {
        // SAFETY: the caller's.
        (unsafe { self.word() }) as *const T
    }
}

/// Runs the operator of an entry.
///
/// # Safety
/// Called by the entries, whose callers owe arguments of the operator's schema.
unsafe extern "C" fn run(index: u32, registers: *const Registers, stack: *const u64) -> Outcome {
    guard(|| {
        let Some((_, op)) = SHIMS.get(index as usize) else {
            bail!(Runtime, "there is no operator of number {index}");
        };
        // SAFETY: the entries store the registers where `registers` points.
        let registers = unsafe { &*registers };
        let mut arguments = Arguments { registers, stack, integers: 0, doubles: 0 };
        // SAFETY: the caller's.
        unsafe { call(*op, &mut arguments) }
    })
}

/// # Safety
/// The arguments must be of the operator's schema.
unsafe fn call(op: &'static dyn AnyOp, arguments: &mut Arguments<'_>) -> Result<()> {
    let schema = op.schema();
    let is_out = |argument: &Argument| argument.kwarg_only && argument.is_written();
    let mut results = Vec::new();
    for argument in schema.arguments.iter().filter(|argument| is_out(argument)) {
        // SAFETY: the caller's.
        results.push(unsafe { argument_of(arguments, &argument.ty) }?);
    }
    let mut results = results.into_iter();
    let mut stack = Stack::new();
    for argument in &schema.arguments {
        if is_out(argument) {
            stack.push(results.next().unwrap_or_default());
            continue;
        }
        // SAFETY: the caller's.
        stack.push(unsafe { argument_of(arguments, &argument.ty) }?);
    }
    op.call_boxed(&mut stack)?;
    if matches!(op.def().kind, OpKind::Out | OpKind::Inplace) {
        return Ok(());
    }
    for value in stack.iter() {
        // SAFETY: the caller's.
        unsafe { store(value, arguments.word()) }?;
    }
    Ok(())
}

/// Stores a result where its parameter points; null stands for a result that nobody wants.
///
/// # Safety
/// The place must be null or valid for a write of such a result.
unsafe fn store(value: &IValue, place: u64) -> Result<()> {
    if place == 0 {
        return Ok(());
    }
    // SAFETY: the caller's.
    unsafe {
        match value {
            IValue::Tensor(tensor) => (place as *mut TensorHandle).write(give(tensor.clone())),
            IValue::Int(number) => (place as *mut i64).write(*number),
            IValue::Double(number) => (place as *mut f64).write(*number),
            IValue::Bool(truth) => (place as *mut i32).write(i32::from(*truth)),
            other => bail!(NotImplemented, "a result of type {} cannot be stored", other.tag()),
        }
    }
    Ok(())
}

/// Reads one argument.
///
/// # Safety
/// The next parameters must be those of the type.
unsafe fn argument_of(arguments: &mut Arguments<'_>, ty: &Type) -> Result<IValue> {
    // SAFETY: the caller's.
    unsafe {
        match ty.bare() {
            Type::Base(base) => base_of(arguments, base),
            Type::List(element, _) => {
                let data = arguments.word();
                let length = arguments.word().cast_signed();
                list_of(data, count(length)?, element.bare())
            }
            Type::Optional(inner) => match inner.bare() {
                Type::Base(base) => optional_of(arguments, base),
                Type::List(element, _) => {
                    let data = arguments.pointer::<u64>();
                    let length = arguments.word().cast_signed();
                    match data.as_ref() {
                        Some(data) => list_of(*data, count(length)?, element.bare()),
                        None => Ok(IValue::None),
                    }
                }
                other => unsupported(other),
            },
            other => unsupported(other),
        }
    }
}

fn unsupported<T>(ty: &Type) -> Result<T> {
    bail!(NotImplemented, "no parameter of C stands for the schema's type {ty}")
}

/// # Safety
/// As [`argument_of`].
unsafe fn base_of(arguments: &mut Arguments<'_>, base: &BaseType) -> Result<IValue> {
    // SAFETY: the caller's.
    unsafe {
        Ok(match base {
            BaseType::Tensor => tensor_of(arguments.pointer())?.into(),
            BaseType::Int | BaseType::SymInt => arguments.word().cast_signed().into(),
            BaseType::Float | BaseType::Scalar => arguments.double().into(),
            BaseType::Bool => (arguments.int32() != 0).into(),
            BaseType::Str => text_of("a text", arguments.pointer::<c_char>())?.into(),
            BaseType::ScalarType => dtype_from(arguments.int32())?.into(),
            BaseType::Layout => layout_from(arguments.int32())?.into(),
            BaseType::MemoryFormat => memory_format_from(arguments.int32())?.into(),
            BaseType::Device => {
                let (r#type, index) = (arguments.int32(), arguments.int32());
                device_from(CortenDevice { r#type, index })?.into()
            }
            BaseType::Generator => generator_of(arguments.pointer())?.into(),
            other => return unsupported(&Type::Base(other.clone())),
        })
    }
}

/// # Safety
/// As [`argument_of`], for a type `T?`.
unsafe fn optional_of(arguments: &mut Arguments<'_>, base: &BaseType) -> Result<IValue> {
    // SAFETY: the caller's.
    unsafe {
        let place = arguments.word();
        if *base == BaseType::Device {
            let index = arguments.int32();
            let Some(r#type) = (place as *const i32).as_ref() else { return Ok(IValue::None) };
            return Ok(device_from(CortenDevice { r#type: *r#type, index })?.into());
        }
        if place == 0 {
            return Ok(IValue::None);
        }
        let int32 = || (place as *const i32).read();
        Ok(match base {
            BaseType::Tensor => tensor_of((place as *const TensorHandle).read())?.into(),
            BaseType::Int | BaseType::SymInt => (place as *const i64).read().into(),
            BaseType::Float | BaseType::Scalar => (place as *const f64).read().into(),
            BaseType::Bool => (int32() != 0).into(),
            BaseType::Str => text_of("a text", (place as *const *const c_char).read())?.into(),
            BaseType::ScalarType => dtype_from(int32())?.into(),
            BaseType::Layout => layout_from(int32())?.into(),
            BaseType::MemoryFormat => memory_format_from(int32())?.into(),
            BaseType::Generator => generator_of((place as *const *const Generator).read())?.into(),
            other => return unsupported(&Type::Base(other.clone())),
        })
    }
}

/// # Safety
/// The address must be of as many elements of the type, or the length 0.
unsafe fn list_of(data: u64, length: usize, element: &Type) -> Result<IValue> {
    // SAFETY: the caller's.
    unsafe {
        Ok(match element {
            Type::Base(BaseType::Int | BaseType::SymInt) => {
                slice_of(data as *const i64, length)?.into()
            }
            Type::Base(BaseType::Float) => slice_of(data as *const f64, length)?.into(),
            Type::Base(BaseType::Bool) => {
                let truths = slice_of(data as *const i32, length)?.iter();
                IValue::BoolList(truths.map(|truth| *truth != 0).collect())
            }
            Type::Base(BaseType::Scalar) => {
                let numbers = slice_of(data as *const f64, length)?.iter();
                IValue::ScalarList(numbers.map(|number| corten::Scalar::Float(*number)).collect())
            }
            Type::Base(BaseType::Tensor) => {
                let handles = slice_of(data as *const TensorHandle, length)?.iter();
                let tensors = handles.map(|handle| tensor_of(*handle));
                IValue::TensorList(tensors.collect::<Result<_>>()?)
            }
            Type::Optional(inner) if inner.bare() == &Type::Base(BaseType::Tensor) => {
                let places = slice_of(data as *const *const TensorHandle, length)?.iter();
                let tensors =
                    places.map(|place| place.as_ref().map(|handle| tensor_of(*handle)).transpose());
                IValue::OptionalTensorList(tensors.collect::<Result<_>>()?)
            }
            other => return unsupported(other),
        })
    }
}

/// # Safety
/// The handle must be null or alive.
unsafe fn tensor_of(handle: *const crate::stable::handle::Handle) -> Result<Tensor> {
    // SAFETY: the caller's.
    Ok(unsafe { tensor_at(handle.cast_mut()) }?.clone())
}

/// # Safety
/// The handle must be null or alive.
unsafe fn generator_of(handle: *const Generator) -> Result<Generator> {
    // SAFETY: the caller's.
    let found = unsafe { handle.as_ref() };
    found.cloned().ok_or_else(|| err!(Runtime, "the handle of a generator is null"))
}
