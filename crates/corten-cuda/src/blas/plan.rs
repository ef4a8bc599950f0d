//! What cuBLASLt is told of a product, and the algorithm that it chose: made once for each kind of product.
//!
//! Plans belong to a thread, since the address of a bias is part of what a descriptor says.

use super::layout::Operand;
use crate::driver::cublaslt_table::{
    Algorithm, CublasLt, HeuristicResult, NOT_SUPPORTED, check, desc, layout, operation,
    preference, reduction,
};
use crate::driver::{DeviceAddress, Handle};
use corten_core::Result;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

/// What tells one plan from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub(super) device: i8,
    pub(super) batches: i32,
    /// The factors, what is added, and the result.
    pub(super) operands: [Operand; 4],
    /// Their alignments in bytes and that of the bias.
    pub(super) alignments: [u16; 5],
    /// cudaDataType_t of the factors, and of the result and what is added.
    pub(super) types: [i32; 2],
    /// cublasComputeType_t.
    pub(super) compute: i32,
    /// cudaDataType_t of the numbers that it is multiplied by.
    pub(super) scale: i32,
    pub(super) epilogue: u32,
    /// cublasLtReductionScheme_t that are allowed.
    pub(super) reductions: u32,
    /// The most bytes of a workspace.
    pub(super) workspace: usize,
}

/// An object of cuBLASLt, destroyed at the end.
struct Owned(Handle, unsafe extern "C" fn(Handle) -> i32);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the object exists and is used no more.
        unsafe { (self.1)(self.0) };
    }
}

/// Descriptors and the chosen algorithm.
pub(super) struct Plan {
    description: Owned,
    layouts: [Owned; 4],
    algorithm: Algorithm,
    /// The bytes of workspace that the algorithm needs.
    pub(super) workspace: usize,
}

/// A hash of a few words by multiplication: plans are looked up at every product.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_i32(&mut self, word: i32) {
        self.write_u64(word as u32 as u64);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// Plans by problem; `None` for those that cuBLASLt has no algorithm for.
type Plans = HashMap<Problem, Option<Rc<Plan>>, BuildHasherDefault<WordHasher>>;

/// The most plans of a thread: a program with so many shapes pays for the search in any case.
const MOST_PLANS: usize = 1024;

thread_local! {
    static PLANS: RefCell<Plans> = RefCell::default();
}

/// The plan of a problem, or nothing where cuBLASLt does not have an algorithm for it. A bias is given at an
/// address of the alignment that the problem says.
///
/// # Errors
/// `Runtime` for a failure of cuBLASLt.
pub(super) fn find(
    library: &'static CublasLt,
    handle: Handle,
    problem: &Problem,
    bias: DeviceAddress,
) -> Result<Option<Rc<Plan>>> {
    let known = PLANS.with(|plans| plans.borrow().get(problem).cloned());
    if let Some(plan) = known {
        return Ok(plan);
    }
    let made = Plan::new(library, handle, problem, bias)?.map(Rc::new);
    PLANS.with(|plans| {
        let mut plans = plans.borrow_mut();
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert(*problem, made.clone());
    });
    Ok(made)
}

type SetAttribute = unsafe extern "C" fn(Handle, i32, *const c_void, usize) -> i32;

/// Sets an attribute of an object.
fn set<T>(function: SetAttribute, object: &Owned, attribute: i32, value: T) -> Result<()> {
    let bytes = size_of::<T>();
    // SAFETY: the object exists, and the value has the type that the attribute is documented with.
    let status = unsafe { function(object.0, attribute, (&raw const value).cast(), bytes) };
    check(status, "cublasLt…SetAttribute")
}

impl Plan {
    fn new(
        library: &'static CublasLt,
        handle: Handle,
        problem: &Problem,
        bias: DeviceAddress,
    ) -> Result<Option<Self>> {
        let description = describe(library, problem)?;
        if bias != 0 {
            set(library.cublasLtMatmulDescSetAttribute, &description, desc::BIAS_POINTER, bias)?;
        }
        let [a, b, c, d] = problem.operands;
        let [factors, result] = problem.types;
        let layouts = [
            matrix(library, a, factors, problem.batches)?,
            matrix(library, b, factors, problem.batches)?,
            matrix(library, c, result, problem.batches)?,
            matrix(library, d, result, problem.batches)?,
        ];
        let preferences = prefer(library, problem)?;
        let (mut found, mut count) = (HeuristicResult::default(), 0);
        // SAFETY: all objects exist; one result and its number are written.
        let status = unsafe {
            (library.cublasLtMatmulAlgoGetHeuristic)(
                handle,
                description.0,
                layouts[0].0,
                layouts[1].0,
                layouts[2].0,
                layouts[3].0,
                preferences.0,
                1,
                &mut found,
                &mut count,
            )
        };
        // A combination of types or strides that is not supported is also called an invalid value.
        let usable = status == 0 && count > 0 && found.state == 0;
        let HeuristicResult { algorithm, workspace, .. } = found;
        Ok(usable.then_some(Self { description, layouts, algorithm, workspace }))
    }

    /// Puts the product into a stream. Whether there was an algorithm for it.
    ///
    /// # Safety
    /// The addresses must be those of tensors with the layouts of the plan's problem that are held, of a bias
    /// where the epilogue has one, and of a workspace.
    ///
    /// # Errors
    /// `Runtime` for a failure of cuBLASLt.
    pub(super) unsafe fn run(
        &self,
        library: &'static CublasLt,
        handle: Handle,
        call: &Call<'_>,
    ) -> Result<bool> {
        if call.bias != 0 {
            let setter = library.cublasLtMatmulDescSetAttribute;
            set(setter, &self.description, desc::BIAS_POINTER, call.bias)?;
        }
        let [a, b, c, d] = call.operands;
        let [first, second, third, fourth] = &self.layouts;
        // SAFETY: the caller's; numbers and the algorithm are read before the call returns.
        let status = unsafe {
            (library.cublasLtMatmul)(
                handle,
                self.description.0,
                call.alpha.as_ptr().cast(),
                a.cast(),
                first.0,
                b.cast(),
                second.0,
                call.beta.as_ptr().cast(),
                c.cast(),
                third.0,
                d.cast(),
                fourth.0,
                &self.algorithm,
                call.workspace.cast(),
                self.workspace,
                call.stream,
            )
        };
        if status == NOT_SUPPORTED {
            return Ok(false);
        }
        check(status, "cublasLtMatmul").map(|()| true)
    }
}

/// What a call adds to a plan.
pub(super) struct Call<'a> {
    pub(super) operands: [*mut u8; 4],
    pub(super) bias: DeviceAddress,
    pub(super) alpha: &'a [u8; 16],
    pub(super) beta: &'a [u8; 16],
    pub(super) workspace: *mut u8,
    pub(super) stream: Handle,
}

fn describe(library: &'static CublasLt, problem: &Problem) -> Result<Owned> {
    let mut handle = Handle::NULL;
    // SAFETY: one handle is written.
    let status =
        unsafe { (library.cublasLtMatmulDescCreate)(&mut handle, problem.compute, problem.scale) };
    check(status, "cublasLtMatmulDescCreate")?;
    let made = Owned(handle, library.cublasLtMatmulDescDestroy);
    let setter = library.cublasLtMatmulDescSetAttribute;
    for (attribute, operand) in [(desc::TRANSA, 0), (desc::TRANSB, 1)] {
        if problem.operands[operand].transposed {
            set(setter, &made, attribute, operation::T)?;
        }
    }
    set(setter, &made, desc::EPILOGUE, problem.epilogue)?;
    Ok(made)
}

fn matrix(library: &'static CublasLt, operand: Operand, dtype: i32, batches: i32) -> Result<Owned> {
    let mut handle = Handle::NULL;
    let Operand { rows, columns, leading, stride, .. } = operand;
    // SAFETY: one handle is written.
    let status = unsafe {
        (library.cublasLtMatrixLayoutCreate)(
            &mut handle,
            dtype,
            rows as u64,
            columns as u64,
            leading,
        )
    };
    check(status, "cublasLtMatrixLayoutCreate")?;
    let made = Owned(handle, library.cublasLtMatrixLayoutDestroy);
    if batches > 1 {
        let setter = library.cublasLtMatrixLayoutSetAttribute;
        set(setter, &made, layout::BATCH_COUNT, batches)?;
        set(setter, &made, layout::STRIDED_BATCH_OFFSET, stride)?;
    }
    Ok(made)
}

fn prefer(library: &'static CublasLt, problem: &Problem) -> Result<Owned> {
    let mut handle = Handle::NULL;
    // SAFETY: one handle is written.
    let status = unsafe { (library.cublasLtMatmulPreferenceCreate)(&mut handle) };
    check(status, "cublasLtMatmulPreferenceCreate")?;
    let made = Owned(handle, library.cublasLtMatmulPreferenceDestroy);
    let setter = library.cublasLtMatmulPreferenceSetAttribute;
    set(setter, &made, preference::MAX_WORKSPACE_BYTES, problem.workspace)?;
    if problem.reductions != reduction::MASK {
        set(setter, &made, preference::REDUCTION_SCHEME_MASK, problem.reductions)?;
    }
    let attributes = [
        preference::MIN_ALIGNMENT_A_BYTES,
        preference::MIN_ALIGNMENT_B_BYTES,
        preference::MIN_ALIGNMENT_C_BYTES,
        preference::MIN_ALIGNMENT_D_BYTES,
    ];
    for (attribute, alignment) in attributes.into_iter().zip(problem.alignments) {
        set(setter, &made, attribute, u32::from(alignment))?;
    }
    Ok(made)
}
