//! Operators and kernels of extensions, and calls of operators by name.

use super::constants::LAST_TAG;
use super::lists::Word;
use super::outcome::{FAILURE, Outcome, SUCCESS, guard};
use super::protect::{self, Kernel};
use super::words::{value_of, word_of};
use crate::call::full_name;
use crate::tensor::{check_place, write_to};
use crate::value::{slice_of, text_of};
use corten::Result;
use corten::core::{bail, err};
use corten::ops::schema::Schema;
use corten::ops::{AnyOp, BoxedCall, Library, Stack, Target, registry};
use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// A block of definitions or of kernels of an extension.
struct Namespace {
    library: Library,
    name: String,
    /// Where its kernels go. None for a key that PyTorch has alone: kernels there are never called.
    key: Option<Target>,
}

/// Kernels of operators that nobody has defined yet: blocks are read in any order.
static EARLY: Mutex<Vec<(String, Target, Kernel)>> = Mutex::new(Vec::new());

thread_local! {
    /// Failures of the library that this thread loads.
    static FAILURES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// A library is being loaded by this thread. Its constructors register operators, and the headers throw if that
/// fails; but nothing can catch what a constructor throws. So they are told that all went well, and whoever loads the
/// library learns of the failures.
pub(crate) struct Loading {
    before: Option<Vec<String>>,
}

impl Loading {
    pub(crate) fn begin() -> Self {
        Self { before: FAILURES.replace(Some(Vec::new())) }
    }

    /// # Errors
    /// The first failure.
    pub(crate) fn finish(mut self) -> Result<()> {
        let failures = FAILURES.replace(self.before.take()).unwrap_or_default();
        std::mem::forget(self);
        match failures.first() {
            Some(message) => bail!(Runtime, "{message}"),
            None => Ok(()),
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        FAILURES.set(self.before.take());
    }
}

/// As [`guard`], but failures of a library that is being loaded are kept for later.
fn guard_registration(body: impl FnOnce() -> Result<()>) -> Outcome {
    let mut failure = None;
    let outcome = guard(|| {
        let done = body();
        failure = done.as_ref().err().map(|error| error.message().to_owned());
        done
    });
    let Some(message) = failure else { return outcome };
    FAILURES.with_borrow_mut(|failures| match failures {
        Some(failures) => {
            failures.push(message);
            SUCCESS
        }
        None => FAILURE,
    })
}

/// # Safety
/// The texts must end with zero bytes, the place must be valid for a write.
unsafe fn new_namespace(
    namespace: *const c_char,
    key: Option<*const c_char>,
    made: *mut *mut Namespace,
) -> Outcome {
    guard_registration(|| {
        check_place(made)?;
        // What comes next uses the handle without a look at the outcome.
        // SAFETY: the caller's.
        unsafe { write_to(made, std::ptr::null_mut()) }?;
        // SAFETY: the caller's.
        let name = unsafe { text_of("a namespace", namespace) }?;
        let key = match key {
            // SAFETY: the caller's.
            Some(key) => Target::from_name(unsafe { text_of("a dispatch key", key) }?),
            None => Some(Target::CompositeImplicitAutograd),
        };
        let namespace = Namespace { library: Library::new(name), name: name.to_owned(), key };
        // SAFETY: the caller's.
        unsafe { write_to(made, Box::into_raw(Box::new(namespace))) }
    })
}

/// # Safety
/// The texts must end with zero bytes, the place must be valid for a write.
unsafe extern "C" fn aoti_torch_library_init_impl(
    namespace: *const c_char,
    key: *const c_char,
    _file: *const c_char,
    _line: u32,
    made: *mut *mut Namespace,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { new_namespace(namespace, Some(key), made) }
}

/// # Safety
/// As `aoti_torch_library_init_impl`.
unsafe extern "C" fn aoti_torch_library_init_def(
    namespace: *const c_char,
    _file: *const c_char,
    _line: u32,
    made: *mut *mut Namespace,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { new_namespace(namespace, None, made) }
}

/// # Safety
/// As `aoti_torch_library_init_impl`.
unsafe extern "C" fn aoti_torch_library_init_fragment(
    namespace: *const c_char,
    _file: *const c_char,
    _line: u32,
    made: *mut *mut Namespace,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { new_namespace(namespace, None, made) }
}

/// What was registered stays.
///
/// # Safety
/// The handle must be null or the caller's, and is not used afterwards.
unsafe extern "C" fn aoti_torch_delete_library_object(namespace: *mut Namespace) -> Outcome {
    guard(|| {
        if !namespace.is_null() {
            // SAFETY: the caller's.
            drop(unsafe { Box::from_raw(namespace) });
        }
        Ok(())
    })
}

/// # Safety
/// The handle must be null or alive as long as the result.
unsafe fn namespace_at<'a>(namespace: *const Namespace) -> Result<&'a Namespace> {
    // SAFETY: the caller's.
    unsafe { namespace.as_ref() }.ok_or_else(|| err!(Runtime, "the handle of a library is null"))
}

fn define(namespace: &Namespace, schema: &str) -> Result<()> {
    let qualifier = format!("{}::", namespace.name);
    let schema = schema.strip_prefix(&qualifier).unwrap_or(schema);
    let parsed = Schema::parse(schema).map_err(|error| err!(Runtime, "{error}"))?;
    let name = match parsed.overload.as_str() {
        "" => format!("{}::{}", namespace.name, parsed.name),
        overload => format!("{}::{}.{overload}", namespace.name, parsed.name),
    };
    // Operators of packages that the registry has anyway: kernels of the extension go before its own.
    let is_known = registry::find(&name)
        .is_some_and(|op| op.def().implementation != "library" && same_types(op.schema(), &parsed));
    if !is_known {
        namespace.library.define(schema)?;
    }
    let mut early = EARLY.lock().unwrap_or_else(PoisonError::into_inner);
    let ready: Vec<_> = early.extract_if(.., |(wanted, ..)| *wanted == name).collect();
    drop(early);
    for (name, key, kernel) in ready {
        add(namespace, &name, key, kernel)?;
    }
    Ok(())
}

/// Whether two schemas take and return the same.
fn same_types(a: &Schema, b: &Schema) -> bool {
    let arguments = |schema: &Schema| {
        let types = schema.arguments.iter().map(|argument| argument.ty.without_alias().to_string());
        types.collect::<Vec<_>>()
    };
    let returns = |schema: &Schema| {
        let types = schema.returns.iter().map(|one| one.ty.without_alias().to_string());
        types.collect::<Vec<_>>()
    };
    arguments(a) == arguments(b) && returns(a) == returns(b)
}

/// # Safety
/// The handle must be alive, the schema text.
unsafe extern "C" fn aoti_torch_library_def(
    namespace: *mut Namespace,
    schema: *const c_char,
) -> Outcome {
    // SAFETY: the caller's.
    guard_registration(|| unsafe { define(namespace_at(namespace)?, text_of("a schema", schema)?) })
}

/// Tags are advice to compilers of graphs, of which there are none here: they are checked and then forgotten.
///
/// # Safety
/// As `aoti_torch_library_def`; `tags` must be valid for `count` numbers.
unsafe extern "C" fn torch_library_def_with_tags(
    namespace: *mut Namespace,
    schema: *const c_char,
    tags: *const i32,
    count: i32,
) -> Outcome {
    guard_registration(|| {
        // SAFETY: the caller's.
        let tags = unsafe { slice_of(tags, usize::try_from(count).unwrap_or(0)) }?;
        if let Some(tag) = tags.iter().find(|tag| !(0..=LAST_TAG).contains(*tag)) {
            bail!(Runtime, "there is no tag of number {tag}");
        }
        // SAFETY: the caller's.
        unsafe { define(namespace_at(namespace)?, text_of("a schema", schema)?) }
    })
}

/// Where compilers of graphs find more about the operators; nothing here asks for it.
///
/// # Safety
/// The handle must be alive.
unsafe extern "C" fn torch_library_set_python_module(
    namespace: *mut Namespace,
    _module: *const c_char,
    _context: *const c_char,
) -> Outcome {
    // SAFETY: the caller's.
    guard_registration(|| unsafe { namespace_at(namespace) }.map(drop))
}

/// # Safety
/// The handle must be alive, the name text; any thread may call the kernel for as long as the program runs.
unsafe extern "C" fn torch_library_impl(
    namespace: *mut Namespace,
    name: *const c_char,
    kernel: Option<Kernel>,
    _build_version: u64,
) -> Outcome {
    guard_registration(|| {
        // SAFETY: the caller's.
        let (namespace, name) =
            unsafe { (namespace_at(namespace)?, text_of("the name of an operator", name)?) };
        let Some(kernel) = kernel else { bail!(Runtime, "the kernel of {name} is null") };
        let Some(key) = namespace.key else { return Ok(()) };
        let qualified = match name.contains("::") {
            true => name.to_owned(),
            false => format!("{}::{name}", namespace.name),
        };
        match registry::find(&qualified) {
            Some(_) => add(namespace, &qualified, key, kernel)?,
            None => {
                let mut early = EARLY.lock().unwrap_or_else(PoisonError::into_inner);
                early.push((qualified, key, kernel));
            }
        }
        Ok(())
    })
}

/// # Safety
/// As `torch_library_impl`.
unsafe extern "C" fn aoti_torch_library_impl(
    namespace: *mut Namespace,
    name: *const c_char,
    kernel: Option<Kernel>,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { torch_library_impl(namespace, name, kernel, super::VERSION) }
}

fn add(namespace: &Namespace, name: &str, key: Target, kernel: Kernel) -> Result<()> {
    let kernel = move |call: &BoxedCall, stack: &mut Stack| run(kernel, call, stack);
    namespace.library.implement(name, key, kernel)?.keep();
    Ok(())
}

/// Runs a kernel on the values of a stack.
fn run(kernel: Kernel, call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let (arguments, returns) = (&call.op().schema().arguments, &call.op().schema().returns);
    let mut words = Vec::with_capacity(arguments.len().max(returns.len()));
    for (value, argument) in stack.iter().zip(arguments) {
        match word_of(value, &argument.ty) {
            Ok(word) => words.push(word),
            Err(error) => {
                for (word, argument) in words.iter().zip(arguments) {
                    // SAFETY: `word_of` made the word from the same type, and nobody has used it.
                    drop(unsafe { value_of(*word, &argument.ty) });
                }
                return Err(error);
            }
        }
    }
    // The kernel owns what the words refer to.
    stack.clear();
    let given = words.len();
    words.resize(given.max(returns.len()), 0);
    // SAFETY: whoever registered the kernel promised that it takes words of the schema.
    unsafe { protect::call_kernel(kernel, &mut words, given, returns.len()) }?;
    // All results are taken over, whichever is not what the schema says.
    let results: Vec<_> = words
        .iter()
        .zip(returns)
        // SAFETY: the kernel promised to leave words of the schema.
        .map(|(word, declared)| unsafe { value_of(*word, &declared.ty) })
        .collect();
    for result in results {
        stack.push(result?);
    }
    Ok(())
}

/// Calls an operator with the words of all its arguments, which it takes, and leaves those of its results there.
///
/// # Safety
/// The texts must end with zero bytes. The words must be of the schema, and valid for as many writes as there are
/// results.
unsafe extern "C" fn torch_call_dispatcher(
    name: *const c_char,
    overload: *const c_char,
    words: *mut Word,
    _build_version: u64,
) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let name = unsafe { full_name(name, overload) }?;
        let Some(op) = registry::find(&name) else {
            bail!(Runtime, "Could not find schema for {name}.");
        };
        // SAFETY: the caller's.
        unsafe { call(op, words) }
    })
}

/// # Safety
/// As `torch_call_dispatcher`.
unsafe extern "C" fn aoti_torch_call_dispatcher(
    name: *const c_char,
    overload: *const c_char,
    words: *mut Word,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { torch_call_dispatcher(name, overload, words, super::VERSION) }
}

/// # Safety
/// The words must be of the operator's schema, and valid for as many writes as there are results.
unsafe fn call(op: &'static dyn AnyOp, words: *mut Word) -> Result<()> {
    let schema = op.schema();
    // SAFETY: the caller's.
    let given = unsafe { slice_of(words.cast_const(), schema.arguments.len()) }?;
    // All are taken, whichever is refused.
    let values: Vec<_> = given
        .iter()
        .zip(&schema.arguments)
        // SAFETY: the caller's.
        .map(|(word, argument)| unsafe { value_of(*word, &argument.ty) })
        .collect();
    let mut stack: Stack = values.into_iter().collect::<Result<Vec<_>>>()?.into_iter().collect();
    op.call_boxed(&mut stack)?;
    for (index, (value, declared)) in stack.iter().zip(&schema.returns).enumerate() {
        let word = word_of(value, &declared.ty)?;
        // SAFETY: the caller's.
        unsafe { write_to(words.wrapping_add(index), word) }?;
    }
    Ok(())
}

/// Defines what PyTorch's headers call and the registry has under another form: `is_pinned` is a method of tensors.
pub(super) fn define_operators_of_headers() -> Result<()> {
    if registry::find("aten::is_pinned").is_some() {
        return Ok(());
    }
    let library = Library::new("aten");
    library.define("is_pinned(Tensor self, Device? device=None) -> bool")?;
    let kernel = |_call: &BoxedCall, stack: &mut Stack| {
        let pinned = super::devices::is_pinned(stack[0].get()?);
        stack.clear();
        stack.push(pinned);
        Ok(())
    };
    library.implement("is_pinned", Target::CompositeImplicitAutograd, kernel)?.keep();
    Ok(())
}

/// Reads the operators of an executor of graphs that were compiled by PyTorch: there is none here.
extern "C" fn aoti_torch_proxy_executor_call_function(
    _executor: *mut c_void,
    _node: i32,
    _n_integers: i32,
    _integers: *mut i64,
    _n_tensors: i32,
    _tensors: *mut c_void,
) -> Outcome {
    guard(|| Err(super::outcome::absent("graphs compiled by PyTorch have no executor here")))
}

super::functions! {
    aoti_torch_library_init_impl
    aoti_torch_library_init_def
    aoti_torch_library_init_fragment
    aoti_torch_delete_library_object
    aoti_torch_library_def
    torch_library_def_with_tags
    torch_library_set_python_module
    torch_library_impl
    aoti_torch_library_impl
    torch_call_dispatcher
    aoti_torch_call_dispatcher
    aoti_torch_proxy_executor_call_function
}
