//! Kernels from their text: compiled by NVRTC for the device at hand, kept in memory and on disk.
//!
//! A kernel is named by its text and a C++ name expression (an instantiation of a template). It is
//! looked up in the process, in the pack that may come with the program, on disk, and then compiled to a
//! cubin; where NVRTC does not know the architecture, to PTX of the newest one before it that it knows,
//! which the driver translates.

use crate::device::{bound, gpu};
use crate::disk_cache;
use crate::driver::{Handle, Nvrtc, RelaxedCapture, driver, error, nvrtc};
use crate::kernel_pack;
use corten_core::{DType, Result, bail, err};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{PoisonError, RwLock};

/// What tells one kernel from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The device's index.
    pub(crate) device: i8,
    /// The address of something static that stands for the operator or the family.
    pub(crate) operator: usize,
    /// The dtypes of operands and results.
    pub(crate) dtypes: [DType; 6],
    /// The variant: layout, operands that are constants, and so on.
    pub(crate) variant: u32,
}

/// The text of a kernel, and which instantiation of it is meant.
pub(crate) struct Program {
    /// Parts of the text, in order.
    pub(crate) text: Vec<&'static str>,
    /// More text, written for this operator.
    pub(crate) own: String,
    /// The instantiation, for instance `reduce<float, Sum>`.
    pub(crate) expression: String,
}

/// A kernel on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(pub(crate) Handle);

static FUNCTIONS: RwLock<Option<HashMap<Key, Function>>> = RwLock::new(None);

/// Places of a thread's own table of functions.
const RECENT: usize = 256;

thread_local! {
    /// The last kernel of each place of a hash: a launch takes no lock for it.
    static RECENT_FUNCTIONS: RefCell<Vec<Option<(Key, Function)>>> = RefCell::new(vec![None; RECENT]);
}

impl Key {
    /// The place in a thread's table.
    fn place(&self) -> usize {
        let dtypes = self.dtypes.iter().fold(0_usize, |sum, &dtype| sum * 31 + dtype as usize);
        let word = (self.operator >> 3)
            ^ (dtypes << 7)
            ^ (self.variant as usize * 0x9E37)
            ^ self.device as usize;
        (word ^ word >> 8 ^ word >> 16) % RECENT
    }
}

/// The kernel with this key, made from `program` the first time.
///
/// # Errors
/// `Runtime` where NVRTC is missing or refuses the text, and those of the driver.
pub(crate) fn function(key: Key, program: impl FnOnce() -> Program) -> Result<Function> {
    let place = key.place();
    let recent = RECENT_FUNCTIONS.with_borrow(|recent| recent[place]);
    if let Some((found, function)) = recent
        && found == key
    {
        return Ok(function);
    }
    let function = shared_function(key, program)?;
    RECENT_FUNCTIONS.with_borrow_mut(|recent| recent[place] = Some((key, function)));
    Ok(function)
}

/// [`function`] from the table of all threads.
fn shared_function(key: Key, program: impl FnOnce() -> Program) -> Result<Function> {
    let found = {
        let functions = FUNCTIONS.read().unwrap_or_else(PoisonError::into_inner);
        functions.as_ref().and_then(|functions| functions.get(&key).copied())
    };
    if let Some(function) = found {
        return Ok(function);
    }
    let function = load(key.device, &program())?;
    let mut functions = FUNCTIONS.write().unwrap_or_else(PoisonError::into_inner);
    Ok(*functions.get_or_insert_default().entry(key).or_insert(function))
}

/// A compiled kernel: what the driver loads, and the kernel's symbol in it.
pub(crate) struct Compiled {
    pub(crate) image: Vec<u8>,
    pub(crate) symbol: String,
}

fn load(device: i8, program: &Program) -> Result<Function> {
    let compute = compute_capability(device)?;
    let text = program.text.concat() + &program.own;
    let key = disk_cache::Key::new(&text, &program.expression, compute);
    let compiled = match kernel_pack::read(&key).or_else(|| disk_cache::read(&key)) {
        Some(compiled) => compiled,
        None => {
            let compiled = compile(&text, &program.expression, compute)?;
            disk_cache::write(&key, &compiled);
            compiled
        }
    };
    load_module(device, &compiled)
}

/// The compute capability of a device, as 10 * major + minor.
fn compute_capability(device: i8) -> Result<i32> {
    let properties = &gpu(device)?.properties;
    Ok(properties.major * 10 + properties.minor)
}

fn load_module(device: i8, compiled: &Compiled) -> Result<Function> {
    bound(device)?;
    let driver = driver()?;
    let _relaxed = RelaxedCapture::new(driver);
    let (mut module, mut function) = (Handle::NULL, Handle::NULL);
    let symbol = c_text(&compiled.symbol)?;
    // SAFETY: the image is a cubin, or PTX that ends with a zero, and stays during the call; the driver
    // writes two handles.
    unsafe {
        error::check(
            driver,
            (driver.cuModuleLoadData)(&mut module, compiled.image.as_ptr().cast()),
        )?;
        error::check(driver, (driver.cuModuleGetFunction)(&mut function, module, symbol.as_ptr()))?;
    }
    Ok(Function(function))
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| err!(Internal, "a kernel's text contains a zero"))
}

/// A program of NVRTC, destroyed at the end.
struct Compilation<'a> {
    nvrtc: &'a Nvrtc,
    program: Handle,
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        // SAFETY: the program exists and is used no more.
        unsafe { (self.nvrtc.nvrtcDestroyProgram)(&mut self.program) };
    }
}

/// Compiles one instantiation of a text.
///
/// # Errors
/// `Runtime` where NVRTC is missing; `Internal` with its log where it refuses the text.
pub(crate) fn compile(text: &str, expression: &str, compute: i32) -> Result<Compiled> {
    let nvrtc = nvrtc()?;
    let architecture = newest_known(nvrtc, compute)?;
    let known = architecture == compute;
    let target = if known { format!("sm_{compute}") } else { format!("compute_{architecture}") };
    let (source, name) = (c_text(text)?, c_text(expression)?);
    let mut compilation = Compilation { nvrtc, program: Handle::NULL };
    let none = std::ptr::null();
    // SAFETY: the texts end with zeros and stay during the calls; there are no headers.
    unsafe {
        let file = c"corten.cu".as_ptr();
        let made = (nvrtc.nvrtcCreateProgram)(
            &mut compilation.program,
            source.as_ptr(),
            file,
            0,
            none,
            none,
        );
        accept(made, "nvrtcCreateProgram")?;
        accept(
            (nvrtc.nvrtcAddNameExpression)(compilation.program, name.as_ptr()),
            "nvrtcAddNameExpression",
        )?;
    }
    let mut options = vec![format!("--gpu-architecture={target}"), "--std=c++17".to_owned()];
    if major_version(nvrtc)? >= 13 {
        // Without declarations that no kernel here needs: a fifth less time.
        options.push("--minimal".to_owned());
    }
    let options = options.iter().map(|option| c_text(option)).collect::<Result<Vec<_>>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the options end with zeros and stay during the call.
    let status = unsafe {
        (nvrtc.nvrtcCompileProgram)(compilation.program, pointers.len() as i32, pointers.as_ptr())
    };
    if status != 0 {
        bail!(Internal, "NVRTC refused {expression}: {}", log(&compilation));
    }
    let symbol = lowered_name(&compilation, &name)?;
    let image = match known {
        true => image(&compilation, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)?,
        false => image(&compilation, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)?,
    };
    Ok(Compiled { image, symbol })
}

fn accept(status: i32, function: &str) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(err!(Runtime, "{function} failed with status {status}")),
    }
}

fn major_version(nvrtc: &Nvrtc) -> Result<i32> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: NVRTC writes two numbers.
    accept(unsafe { (nvrtc.nvrtcVersion)(&mut major, &mut minor) }, "nvrtcVersion")?;
    Ok(major)
}

/// The newest architecture that NVRTC knows up to the device's own.
fn newest_known(nvrtc: &Nvrtc, compute: i32) -> Result<i32> {
    let mut number = 0;
    // SAFETY: NVRTC writes one number.
    accept(unsafe { (nvrtc.nvrtcGetNumSupportedArchs)(&mut number) }, "nvrtcGetNumSupportedArchs")?;
    let mut all = vec![0; usize::try_from(number).unwrap_or(0)];
    // SAFETY: NVRTC writes as many numbers as it has just said.
    accept(unsafe { (nvrtc.nvrtcGetSupportedArchs)(all.as_mut_ptr()) }, "nvrtcGetSupportedArchs")?;
    let known = all.iter().copied().filter(|&known| known <= compute).max();
    known.ok_or_else(|| {
        err!(
            Runtime,
            "the installed NVRTC compiles for devices of compute capability {:.1} and newer, and this one has {:.1}: \
             it takes an older NVRTC (`pip install nvidia-cuda-nvrtc-cu12`)",
            f64::from(all.iter().copied().min().unwrap_or(0)) / 10.0,
            f64::from(compute) / 10.0
        )
    })
}

fn log(compilation: &Compilation<'_>) -> String {
    let mut size = 0;
    // SAFETY: the program exists; NVRTC writes one size.
    unsafe { (compilation.nvrtc.nvrtcGetProgramLogSize)(compilation.program, &mut size) };
    let mut text = vec![0_u8; size];
    // SAFETY: NVRTC writes as many bytes as it has just said.
    unsafe {
        (compilation.nvrtc.nvrtcGetProgramLog)(compilation.program, text.as_mut_ptr().cast())
    };
    String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
}

fn lowered_name(compilation: &Compilation<'_>, name: &CStr) -> Result<String> {
    let mut lowered: *const c_char = std::ptr::null();
    // SAFETY: the program exists; NVRTC writes the address of a text that lives as long as it.
    let status = unsafe {
        (compilation.nvrtc.nvrtcGetLoweredName)(compilation.program, name.as_ptr(), &mut lowered)
    };
    accept(status, "nvrtcGetLoweredName")?;
    // SAFETY: as above; it ends with a zero.
    Ok(unsafe { CStr::from_ptr(lowered) }.to_string_lossy().into_owned())
}

fn image(
    compilation: &Compilation<'_>,
    size_of: unsafe extern "C" fn(Handle, *mut usize) -> i32,
    get: unsafe extern "C" fn(Handle, *mut c_char) -> i32,
) -> Result<Vec<u8>> {
    let mut size = 0;
    // SAFETY: the program exists; NVRTC writes one size.
    accept(unsafe { size_of(compilation.program, &mut size) }, "the size of a compiled kernel")?;
    let mut image = vec![0_u8; size];
    // SAFETY: NVRTC writes as many bytes as it has just said.
    accept(unsafe { get(compilation.program, image.as_mut_ptr().cast()) }, "a compiled kernel")?;
    Ok(image)
}
