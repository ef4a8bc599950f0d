//! The ABI on record, and what the functions do with arguments of every kind.

#![allow(clippy::unwrap_used, clippy::too_many_lines, reason = "a test fails by panicking")]

use corten_c::*;
use std::ffi::{CStr, c_void};
use std::fmt::Write as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const HOME: &str = env!("CARGO_MANIFEST_DIR");

/// The prototypes of the header's functions, one per line, in the order of the table.
fn prototypes() -> Vec<String> {
    let header = std::fs::read_to_string(Path::new(HOME).join("include/corten_library.h")).unwrap();
    let (_, table) = header.split_once("struct CortenApi {").unwrap();
    let (table, _) = table.split_once("};").unwrap();
    let members = table.lines().filter(|line| line.contains("(*"));
    members.map(|line| line.trim().replace("(*", "").replacen(')', "", 1)).collect()
}

/// The version, the sizes of structures and the functions.
fn abi() -> String {
    let mut text = format!("version {CORTEN_ABI_VERSION}\n");
    let sizes = [
        ("CortenAllocator", size_of::<CortenAllocator>()),
        ("CortenContent", size_of::<CortenContent>()),
        ("CortenDevice", size_of::<CortenDevice>()),
        ("CortenFunction", size_of::<CortenFunction>()),
        ("CortenValue", size_of::<CortenValue>()),
    ];
    for (name, size) in sizes {
        writeln!(text, "sizeof {name} = {size}").unwrap();
    }
    let members = prototypes();
    assert_eq!(members.len(), API_FUNCTIONS.len(), "the header is not current");
    for (member, name) in members.iter().zip(API_FUNCTIONS) {
        assert!(member.contains(&format!(" {name}(")), "{member} stands where {name} belongs");
        writeln!(text, "{member}").unwrap();
    }
    text
}

#[test]
fn abi_is_on_record() {
    let recorded = std::fs::read_to_string(Path::new(HOME).join("abi.txt")).unwrap_or_default();
    let present = abi();
    if recorded == present {
        return;
    }
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi.txt");
    std::fs::write(&new, &present).unwrap();
    let same_version = recorded.lines().next() == present.lines().next();
    let only_added = present.starts_with(&recorded);
    assert!(
        !same_version || only_added,
        "the ABI changed without its version:\n{}",
        changes(&recorded, &present)
    );
    panic!("functions were added, or the version was: cp {} {HOME}/abi.txt", new.display());
}

fn changes(old: &str, new: &str) -> String {
    let gone = old.lines().filter(|line| !new.lines().any(|other| other == *line));
    let come = new.lines().filter(|line| !old.lines().any(|other| other == *line));
    let gone = gone.map(|line| format!("- {line}\n"));
    gone.chain(come.map(|line| format!("+ {line}\n"))).collect()
}

fn message() -> String {
    // SAFETY: the text ends with a zero byte and nothing fails meanwhile.
    unsafe { CStr::from_ptr(corten_last_error()) }.to_str().unwrap().to_owned()
}

fn int(integer: i64) -> CortenValue {
    CortenValue { tag: CORTEN_INT, length: 0, u: CortenContent { integer } }
}

fn number(number: f64) -> CortenValue {
    CortenValue { tag: CORTEN_DOUBLE, length: 0, u: CortenContent { number } }
}

fn of(tensor: *mut CortenTensor) -> CortenValue {
    CortenValue { tag: CORTEN_TENSOR, length: 0, u: CortenContent { tensor } }
}

fn ints(list: &[i64]) -> CortenValue {
    let u = CortenContent { integers: list.as_ptr() };
    CortenValue { tag: CORTEN_INT_LIST, length: list.len(), u }
}

fn doubles(values: &[f64], sizes: &[i64]) -> *mut CortenTensor {
    let mut made = ptr::null_mut();
    // SAFETY: the lists live, and there are as many elements as the sizes say.
    let status = unsafe {
        let data = values.as_ptr().cast();
        corten_tensor_from_copy(data, sizes.as_ptr(), sizes.len(), CORTEN_FLOAT64, &raw mut made)
    };
    assert_eq!(status, CORTEN_OK, "{}", message());
    made
}

fn elements(tensor: *const CortenTensor) -> Vec<f64> {
    // SAFETY: the tensor is alive, and the list has room for all of its doubles.
    unsafe {
        let mut found = vec![0.0f64; usize::try_from(corten_tensor_numel(tensor)).unwrap()];
        let status = corten_tensor_copy_to(tensor, found.as_mut_ptr().cast(), found.len() * 8);
        assert_eq!(status, CORTEN_OK, "{}", message());
        found
    }
}

/// Calls an operator that returns one tensor.
fn call(
    name: &CStr,
    overload: &CStr,
    inputs: &[CortenValue],
) -> Result<*mut CortenTensor, CortenStatus> {
    let mut made = ptr::null_mut();
    // SAFETY: the values are what their tags say.
    let status = unsafe {
        let (inputs, n) = (inputs.as_ptr(), inputs.len());
        corten_call_tensor(name.as_ptr(), overload.as_ptr(), inputs, n, &raw mut made)
    };
    if status == CORTEN_OK { Ok(made) } else { Err(status) }
}

fn free(tensors: &[*mut CortenTensor]) {
    // SAFETY: every reference is given back once.
    tensors.iter().for_each(|tensor| unsafe { corten_tensor_free(*tensor) });
}

#[test]
fn defaults_fill_in_and_numbers_stand_for_lists() {
    let x = doubles(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    // `alpha` is left out.
    let sum = call(c"add", c"Tensor", &[of(x), of(x)]).unwrap();
    assert_eq!(elements(sum), [2.0, 4.0, 6.0, 8.0]);
    // `int[1]? dim` as one number, and the rest left out.
    let mean = call(c"aten::mean.dim", c"", &[of(x), int(0)]).unwrap();
    assert_eq!(elements(mean), [2.0, 3.0]);
    // A memory format and a list with a default.
    let like = call(c"zeros_like", c"", &[of(x)]).unwrap();
    assert_eq!(elements(like), [0.0; 4]);
    let image = call(c"reshape", c"", &[of(x), ints(&[1, 1, 2, 2])]).unwrap();
    let pooled = call(c"avg_pool2d", c"", &[of(image), int(2)]).unwrap();
    assert_eq!(elements(pooled), [2.5]);
    free(&[x, sum, mean, like, image, pooled]);
}

#[test]
fn several_results_and_lists() {
    let x = doubles(&[3.0, 1.0, 2.0], &[3]);
    let mut outputs = [CortenValue::NONE; 2];
    let mut count = outputs.len();
    let inputs = [of(x)];
    // SAFETY: the values are what their tags say, and there is room for two results.
    unsafe {
        let (outputs, count) = (outputs.as_mut_ptr(), &raw mut count);
        let status = corten_call(c"sort".as_ptr(), ptr::null(), inputs.as_ptr(), 1, outputs, count);
        assert_eq!(status, CORTEN_OK, "{}", message());
    }
    assert_eq!(count, 2);
    // SAFETY: both are tensors.
    unsafe {
        assert_eq!(elements(outputs[0].u.tensor), [1.0, 2.0, 3.0]);
        assert_eq!(corten_tensor_dtype(outputs[1].u.tensor), CORTEN_INT64);
        corten_values_free(outputs.as_mut_ptr(), 2);
    }
    assert_eq!(outputs[0].tag, CORTEN_NONE);
    // A list comes out, and goes in again.
    let mut list = [CortenValue::NONE];
    let mut count = 1;
    let inputs = [of(x), int(1), int(0)];
    // SAFETY: as above.
    unsafe {
        let (list, count) = (list.as_mut_ptr(), &raw mut count);
        let status =
            corten_call(c"split.Tensor".as_ptr(), ptr::null(), inputs.as_ptr(), 3, list, count);
        assert_eq!(status, CORTEN_OK, "{}", message());
    }
    assert_eq!((list[0].tag, list[0].length), (CORTEN_TENSOR_LIST, 3));
    let whole = call(c"cat", c"", &list).unwrap();
    assert_eq!(elements(whole), [3.0, 1.0, 2.0]);
    // SAFETY: the list is the library's own.
    unsafe { corten_values_free(list.as_mut_ptr(), 1) };
    free(&[x, whole]);
}

#[test]
fn errors_have_codes_and_words() {
    let x = doubles(&[1.0, 2.0], &[2]);
    assert_eq!(call(c"no_such_operator", c"", &[]), Err(CORTEN_RUNTIME_ERROR));
    assert_eq!(message(), "operator aten::no_such_operator does not exist");
    assert_eq!(call(c"neg", c"", &[number(1.0)]), Err(CORTEN_TYPE_ERROR));
    assert_eq!(message(), "aten::neg: argument 'self' (position 1) must be Tensor, not Double");
    assert_eq!(call(c"neg", c"", &[of(x), of(x)]), Err(CORTEN_TYPE_ERROR));
    assert_eq!(call(c"add", c"Tensor", &[of(x)]), Err(CORTEN_TYPE_ERROR));
    assert_eq!(message(), "aten::add.Tensor: argument 'other' is missing");
    assert_eq!(call(c"squeeze", c"dim", &[of(x), int(5)]), Err(CORTEN_INDEX_ERROR));
    assert_eq!(corten_last_status(), CORTEN_INDEX_ERROR);
    let unknown = CortenValue { tag: 99, ..CortenValue::NONE };
    assert_eq!(call(c"neg", c"", &[unknown]), Err(CORTEN_TYPE_ERROR));
    // SAFETY: null handles are errors.
    unsafe {
        assert_eq!(corten_tensor_dim(ptr::null()), -1);
        assert_eq!(corten_tensor_device(ptr::null()).r#type, -1);
        assert_eq!(corten_tensor_set_requires_grad(ptr::null_mut(), true), CORTEN_VALUE_ERROR);
        assert_eq!(
            corten_library_define(ptr::null_mut(), c"f() -> ()".as_ptr()),
            CORTEN_VALUE_ERROR
        );
        assert_eq!(
            corten_load_library(c"/no/such/library.so".as_ptr(), ptr::null_mut()),
            CORTEN_RUNTIME_ERROR
        );
        corten_tensor_free(ptr::null_mut());
        corten_values_free(ptr::null_mut(), 3);
    }
    free(&[x]);
}

#[test]
fn foreign_memory_is_freed_once() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn deleter(context: *mut c_void) {
        // SAFETY: the context is the vector below.
        drop(unsafe { Box::from_raw(context.cast::<Vec<f64>>()) });
        FREED.fetch_add(1, Ordering::SeqCst);
    }
    let elements_of = Box::new(vec![1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let data = elements_of.as_ptr().cast_mut().cast::<c_void>();
    let context = Box::into_raw(elements_of).cast::<c_void>();
    let device = CortenDevice { r#type: CORTEN_CPU, index: -1 };
    let (sizes, strides) = ([3i64, 2], [1i64, 3]);
    let mut made = ptr::null_mut();
    // SAFETY: the memory lives until the deleter is called.
    unsafe {
        let wrong = [-1i64, 2];
        let status = corten_tensor_from_memory(
            data,
            wrong.as_ptr(),
            ptr::null(),
            2,
            CORTEN_FLOAT64,
            device,
            Some(deleter),
            context,
            &raw mut made,
        );
        assert_eq!((status, FREED.load(Ordering::SeqCst)), (CORTEN_VALUE_ERROR, 0));
        let status = corten_tensor_from_memory(
            data,
            sizes.as_ptr(),
            strides.as_ptr(),
            2,
            CORTEN_FLOAT64,
            device,
            Some(deleter),
            context,
            &raw mut made,
        );
        assert_eq!(status, CORTEN_OK, "{}", message());
        let mut found = [0i64; 2];
        assert_eq!(corten_tensor_strides(made, found.as_mut_ptr(), 2), CORTEN_OK);
        assert_eq!(found, strides);
        assert_eq!(corten_tensor_sizes(made, found.as_mut_ptr(), 1), CORTEN_VALUE_ERROR);
        assert!(!corten_tensor_is_contiguous(made));
        let mut address = ptr::null_mut();
        assert_eq!(corten_tensor_data(made, &raw mut address), CORTEN_OK);
        assert_eq!(address, data);
    }
    assert_eq!(elements(made), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let view = call(c"select.int", c"", &[of(made), int(0), int(1)]).unwrap();
    free(&[made]);
    assert_eq!(FREED.load(Ordering::SeqCst), 0);
    assert_eq!(elements(view), [2.0, 5.0]);
    free(&[view]);
    assert_eq!(FREED.load(Ordering::SeqCst), 1);
}

#[test]
fn references_weak_and_strong() {
    let x = doubles(&[1.0], &[1]);
    let mut weak = ptr::null_mut();
    // SAFETY: every handle is alive where it is used.
    unsafe {
        assert_eq!(corten_tensor_downgrade(x, &raw mut weak), CORTEN_OK);
        let again = corten_tensor_new_reference(x);
        assert!(corten_tensor_is_same(x, again));
        let upgraded = corten_weak_upgrade(weak);
        assert!(corten_tensor_is_same(x, upgraded));
        free(&[x, again, upgraded]);
        assert!(corten_weak_upgrade(weak).is_null());
        corten_weak_free(weak);
    }
}

/// The square, with a derivative that is thrice what it should be, so that it is known to have been asked.
unsafe extern "C" fn square(
    context: *mut CortenContext,
    _data: *mut c_void,
    inputs: *const *mut CortenTensor,
    n_inputs: usize,
    outputs: *mut *mut CortenTensor,
    _n_outputs: usize,
) -> CortenStatus {
    // SAFETY: called with one input and room for one output.
    unsafe {
        assert!(corten_context_needs_grad(context, 0) && !corten_is_grad_enabled());
        let status = corten_context_save(context, inputs, n_inputs);
        if status != CORTEN_OK {
            return status;
        }
        let both = [of(*inputs), of(*inputs)];
        corten_call_tensor(c"mul".as_ptr(), c"Tensor".as_ptr(), both.as_ptr(), 2, outputs)
    }
}

unsafe extern "C" fn square_backward(
    context: *mut CortenContext,
    data: *mut c_void,
    grads: *const *mut CortenTensor,
    _n_grads: usize,
    results: *mut *mut CortenTensor,
    _n_results: usize,
) -> CortenStatus {
    // SAFETY: called with one gradient and room for one; the data is a number.
    unsafe {
        if data.is_null() {
            return corten_set_error(
                CORTEN_INDEX_ERROR,
                c"this function has no derivative".as_ptr(),
            );
        }
        assert_eq!(corten_context_save(context, grads, 1), CORTEN_RUNTIME_ERROR);
        let mut saved = ptr::null_mut();
        let status = corten_context_saved(context, 0, &raw mut saved);
        if status != CORTEN_OK {
            return status;
        }
        let factor = [of(saved), number(*data.cast::<f64>())];
        let scaled = call(c"mul", c"Scalar", &factor).unwrap();
        let both = [of(scaled), of(*grads)];
        let status =
            corten_call_tensor(c"mul".as_ptr(), c"Tensor".as_ptr(), both.as_ptr(), 2, results);
        free(&[saved, scaled]);
        status
    }
}

#[test]
fn functions_have_derivatives_and_errors() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn count(data: *mut c_void) {
        assert!(!data.is_null());
        FREED.fetch_add(1, Ordering::SeqCst);
    }
    let mut factor = 6.0f64;
    let mut function = CortenFunction {
        name: c"Square".as_ptr(),
        n_outputs: 1,
        forward: Some(square),
        backward: Some(square_backward),
        data: (&raw mut factor).cast(),
        free: Some(count),
    };
    let x = doubles(&[1.0, 2.0], &[2]);
    let (mut y, mut grad) = (ptr::null_mut(), ptr::null_mut());
    let inputs = [x];
    // SAFETY: every handle is alive where it is used.
    unsafe {
        assert_eq!(corten_tensor_set_requires_grad(x, true), CORTEN_OK);
        let status = corten_function_apply(&raw const function, inputs.as_ptr(), 1, &raw mut y);
        assert_eq!(status, CORTEN_OK, "{}", message());
        assert!(corten_tensor_requires_grad(y) && !corten_tensor_is_leaf(y));
        let sum = call(c"sum", c"", &[of(y)]).unwrap();
        let status = corten_backward(&raw const sum, ptr::null(), 1, false, false);
        assert_eq!(status, CORTEN_OK, "{}", message());
        assert_eq!(corten_tensor_grad(x, &raw mut grad), CORTEN_OK);
        assert_eq!(elements(grad), [6.0, 12.0]);
        // A second pass without `retain_graph` says so.
        assert_eq!(
            corten_backward(&raw const sum, ptr::null(), 1, false, false),
            CORTEN_RUNTIME_ERROR
        );
        free(&[sum, y, grad]);
        assert_eq!(FREED.load(Ordering::SeqCst), 1);
        // What a callback says arrives as it said it.
        function.data = ptr::null_mut();
        function.free = None;
        let status = corten_function_apply(&raw const function, inputs.as_ptr(), 1, &raw mut y);
        assert_eq!(status, CORTEN_OK, "{}", message());
        let sum = call(c"sum", c"", &[of(y)]).unwrap();
        let no = ptr::null();
        let mut result = ptr::null_mut();
        let status = corten_grad(
            &raw const sum,
            no,
            1,
            inputs.as_ptr(),
            1,
            false,
            false,
            false,
            &raw mut result,
        );
        assert_eq!(status, CORTEN_INDEX_ERROR);
        assert_eq!(message(), "this function has no derivative");
        free(&[sum, y, x]);
    }
}

/// Says the name of the operator, and what the kernel below computes twice over.
unsafe extern "C" fn twice(
    data: *mut c_void,
    call_: *const CortenKernelCall,
    inputs: *const CortenValue,
    n_inputs: usize,
    outputs: *mut CortenValue,
    n_outputs: usize,
) -> CortenStatus {
    // SAFETY: called with one tensor and room for one; the data is null.
    unsafe {
        assert!(data.is_null() && n_inputs == 1 && n_outputs == 1);
        let name = CStr::from_ptr(corten_kernel_operator(call_));
        if name != c"rust_test::twice" {
            return corten_set_error(CORTEN_INTERNAL_ERROR, name.as_ptr());
        }
        let both = [*inputs, *inputs];
        match call(c"add", c"Tensor", &both) {
            Ok(sum) => outputs.write(of(sum)),
            Err(status) => return status,
        }
        CORTEN_OK
    }
}

/// Returns a number where the schema has a tensor.
unsafe extern "C" fn wrong(
    _data: *mut c_void,
    _call: *const CortenKernelCall,
    _inputs: *const CortenValue,
    _n_inputs: usize,
    outputs: *mut CortenValue,
    _n_outputs: usize,
) -> CortenStatus {
    // SAFETY: there is room for one result.
    unsafe { outputs.write(int(1)) };
    CORTEN_OK
}

#[test]
fn libraries_define_operators() {
    let mut library = ptr::null_mut();
    // SAFETY: texts end with zero bytes, and the kernels can be called by any thread.
    unsafe {
        let none = ptr::null_mut();
        assert_eq!(corten_library_new(c"rust_test".as_ptr(), &raw mut library), CORTEN_OK);
        for schema in [c"twice(Tensor self) -> Tensor", c"wrong(Tensor self) -> Tensor"] {
            assert_eq!(corten_library_define(library, schema.as_ptr()), CORTEN_OK, "{}", message());
        }
        let again = corten_library_define(library, c"twice(Tensor self) -> Tensor".as_ptr());
        assert_eq!(again, CORTEN_RUNTIME_ERROR);
        let key = c"CompositeImplicitAutograd".as_ptr();
        for (name, kernel) in
            [(c"twice", twice as unsafe extern "C" fn(_, _, _, _, _, _) -> _), (c"wrong", wrong)]
        {
            let status =
                corten_library_implement(library, name.as_ptr(), key, Some(kernel), none, None);
            assert_eq!(status, CORTEN_OK, "{}", message());
        }
        let no_key = corten_library_implement(
            library,
            c"twice".as_ptr(),
            c"Nowhere".as_ptr(),
            Some(twice),
            none,
            None,
        );
        assert_eq!(no_key, CORTEN_RUNTIME_ERROR);
        corten_library_free(library);
    }
    let x = doubles(&[1.0, 2.0], &[2]);
    let y = call(c"rust_test::twice", c"", &[of(x)]).unwrap();
    assert_eq!(elements(y), [2.0, 4.0]);
    assert_eq!(call(c"rust_test::wrong", c"", &[of(x)]), Err(CORTEN_TYPE_ERROR));
    assert_eq!(message(), "rust_test::wrong: the kernel returned Int for Tensor");
    free(&[x, y]);
}
