//! Products by cuBLASLt.

use super::layout::{Matrix, Operand, accepted};
use super::plan::{self, Call, Problem};
use super::settings::{self, Reduction};
use super::{Activation, Product};
use crate::device::{MOST_DEVICES, bound};
use crate::driver::cublaslt_table::{
    CublasLt, check, compute, cublaslt, data_type, epilogue, reduction,
};
use crate::driver::{Handle, RelaxedCapture, driver};
use crate::launch::launched;
use crate::memory::CudaAllocator;
use crate::operands::Operands;
use crate::stream::Stream;
use corten_core::{Access, Allocator, Complex, DType, Result, Scalar, f16};
use corten_ops::{Tensor, op};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Lets products be computed by cuBLASLt where it is found, or by this crate's own kernels only.
pub fn use_cublaslt(wanted: bool) {
    ENABLED.store(wanted, Ordering::Relaxed);
}

/// That cuBLASLt is found.
///
/// # Errors
/// `Runtime` with every place that was looked at.
pub fn check_cublaslt() -> Result<()> {
    cublaslt().map(drop)
}

/// cuBLASLt's handle of a device, if there is one.
fn handle(device: i8) -> Option<(&'static CublasLt, Handle)> {
    static HANDLES: [OnceLock<Option<Handle>>; MOST_DEVICES] =
        [const { OnceLock::new() }; MOST_DEVICES];
    if !ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    let library = cublaslt().ok()?;
    let made = HANDLES.get(usize::try_from(device).ok()?)?.get_or_init(|| create(library).ok());
    made.map(|handle| (library, handle))
}

/// A handle in the context that is current. It is never destroyed.
fn create(library: &'static CublasLt) -> Result<Handle> {
    let _relaxed = RelaxedCapture::new(driver()?);
    let mut handle = Handle::NULL;
    // SAFETY: one handle is written.
    let status = unsafe { (library.cublasLtCreate)(&mut handle) };
    check(status, "cublasLtCreate(handle)")?;
    Ok(handle)
}

/// What elements are for cuBLASLt.
struct Types {
    factors: i32,
    result: i32,
    compute: i32,
    scale: i32,
    reductions: u32,
}

impl Types {
    fn of(factors: DType, result: DType) -> Option<Self> {
        let single =
            if settings::tf32_allowed() { compute::IN_32F_FAST_TF32 } else { compute::IN_32F };
        let same = |dtype, compute, scale| {
            Some(Self {
                factors: dtype,
                result: dtype,
                compute,
                scale,
                reductions: reduction::MASK,
            })
        };
        let reduced = |types: Option<Self>, bfloat16| {
            let reductions = match settings::reduction(bfloat16) {
                Reduction::Any => reduction::MASK,
                Reduction::Exact => reduction::COMPUTE_TYPE,
                Reduction::Unsplit => reduction::NONE,
            };
            types.map(|types| Self { reductions, ..types })
        };
        match factors {
            DType::Float32 => same(data_type::R_32F, single, data_type::R_32F),
            DType::Float64 => same(data_type::R_64F, compute::IN_64F, data_type::R_64F),
            DType::Complex64 => same(data_type::C_32F, single, data_type::C_32F),
            DType::Complex128 => same(data_type::C_64F, compute::IN_64F, data_type::C_64F),
            DType::Float16 if settings::half_sums_allowed() => {
                reduced(same(data_type::R_16F, compute::IN_16F, data_type::R_16F), false)
            }
            DType::Float16 => {
                reduced(same(data_type::R_16F, compute::IN_32F, data_type::R_32F), false)
            }
            DType::BFloat16 => {
                reduced(same(data_type::R_16BF, compute::IN_32F, data_type::R_32F), true)
            }
            DType::Int8 if result == DType::Int32 => {
                let types = same(data_type::R_8I, compute::IN_32I, data_type::R_32I);
                types.map(|types| Self { result: data_type::R_32I, ..types })
            }
            _ => None,
        }
    }
}

/// A number as the calls take it.
fn scale_bytes(scalar: Scalar, scale: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut put = |value: &[u8]| bytes[..value.len()].copy_from_slice(value);
    let Complex { re, im } = scalar.to_complex();
    match scale {
        data_type::R_64F => put(&re.to_ne_bytes()),
        data_type::R_16F => put(&f16::from_f64(re).to_ne_bytes()),
        data_type::R_32I => put(&(re as i32).to_ne_bytes()),
        data_type::C_32F => {
            put(&(re as f32).to_ne_bytes());
            bytes[4..8].copy_from_slice(&(im as f32).to_ne_bytes());
        }
        data_type::C_64F => {
            put(&re.to_ne_bytes());
            bytes[8..].copy_from_slice(&im.to_ne_bytes());
        }
        _ => put(&(re as f32).to_ne_bytes()),
    }
    bytes
}

/// The greatest power of two up to 256 that an address is a multiple of.
fn alignment(address: *mut u8) -> u16 {
    1 << address.addr().trailing_zeros().min(8)
}

/// What is added to a product, as cuBLASLt can take it.
#[derive(Clone, Copy)]
enum Addend {
    Nothing,
    /// A row, by the epilogue.
    Row,
    /// A matrix, the result itself where its address is the same.
    Matrix(Operand),
    /// Nothing of the kind: the result must hold it first.
    Copied,
}

/// What cuBLASLt is given.
#[derive(Clone, Copy)]
struct Request {
    operands: [Operand; 4],
    /// Whether it computes the transpose, whose factors are exchanged.
    turned: bool,
    addend: Addend,
}

impl Request {
    /// `None` where a matrix is not one of BLAS, and a copy would be needed.
    fn of(product: &Product<'_>) -> Option<Self> {
        let (out, a, b) = (product.out_matrix(), Matrix::of(product.a), Matrix::of(product.b));
        let turned = out.transposed().operand().is_some_and(|d| !d.transposed);
        let turn = |matrix: Matrix| if turned { matrix.transposed() } else { matrix };
        let d = turn(out).operand().filter(|d| !d.transposed)?;
        let (first, second) = if turned { (b, a) } else { (a, b) };
        let (first, second) = (turn(first).operand()?, turn(second).operand()?);
        let addend = match product.base {
            None => Addend::Nothing,
            Some(base) => addend(product, turn(Matrix::broadcast(base, product.out)), turned),
        };
        let c = if let Addend::Matrix(c) = addend { c } else { d };
        Some(Self { operands: [first, second, c, d], turned, addend })
    }
}

/// How `base`, in the order in which the result is computed, is added.
fn addend(product: &Product<'_>, base: Matrix, turned: bool) -> Addend {
    let [batch, down, right] = base.strides;
    let dtype = product.out.dtype();
    let row = turned && right == 0 && (down == 1 || base.sizes[1] == 1) && batch == 0;
    if row && product.beta_is_one() && dtype.is_floating_point() && base.sizes[0] == 1 {
        return Addend::Row;
    }
    let [batches, rows, columns] = base.sizes;
    let repeats =
        (down == 0 && rows > 1) || (right == 0 && columns > 1) || (batch == 0 && batches > 1);
    match base.operand() {
        Some(c) if !repeats && !c.transposed => Addend::Matrix(c),
        _ => Addend::Copied,
    }
}

/// Computes a product. Whether cuBLASLt was there and had an algorithm for it.
///
/// # Errors
/// Those of the driver and of cuBLASLt.
pub(super) fn multiply(product: &Product<'_>) -> Result<bool> {
    let (factors, result) = (product.a.dtype(), product.out.dtype());
    let small = product.out_matrix().sizes[0] <= i64::from(i32::MAX);
    if product.b.dtype() != factors || !small {
        return Ok(false);
    }
    let Some(types) = Types::of(factors, result) else { return Ok(false) };
    let stream = Stream::current(product.out.device().index);
    let gpu = bound(stream.device())?;
    let Some((library, handle)) = handle(stream.device()) else { return Ok(false) };
    settings::check_deterministic()?;
    let Some(request) = Request::of(product) else { return with_copies(product) };
    let target = Target { library, handle, stream, major: gpu.properties.major };
    let done = match request.addend {
        Addend::Copied => false,
        _ => target.submit(product, &request, &types)?,
    };
    if done { Ok(true) } else { target.in_steps(product, &request, &types) }
}

/// [`multiply`] with copies of the matrices that BLAS does not take.
fn with_copies(product: &Product<'_>) -> Result<bool> {
    let (a, b) = (accepted(product.a)?, accepted(product.b)?);
    let fits = product.out_matrix().transposed().operand().is_some();
    match fits {
        true => multiply(&Product { a: &a, b: &b, ..*product }),
        // A result with other strides is left to the kernel that takes all.
        false => Ok(false),
    }
}

fn epilogue_of(activation: Activation, row: bool) -> u32 {
    match (activation, row) {
        (Activation::None, false) => epilogue::DEFAULT,
        (Activation::None, true) => epilogue::BIAS,
        (Activation::Relu, false) => epilogue::RELU,
        (Activation::Relu, true) => epilogue::RELU_BIAS,
        (Activation::Gelu, false) => epilogue::GELU,
        (Activation::Gelu, true) => epilogue::GELU_BIAS,
    }
}

/// Where products are computed.
#[derive(Clone, Copy)]
struct Target {
    library: &'static CublasLt,
    handle: Handle,
    stream: Stream,
    /// Of the device's compute capability.
    major: i32,
}

impl Target {
    /// What the epilogue and the addend of a call cannot do is done before and after it, if there is any.
    fn in_steps(self, product: &Product<'_>, request: &Request, types: &Types) -> Result<bool> {
        let copied = matches!(request.addend, Addend::Row | Addend::Copied);
        let Product { out, activation, .. } = *product;
        if !copied && activation == Activation::None {
            return Ok(false);
        }
        let mut simple = Product { activation: Activation::None, ..*product };
        let mut request = *request;
        if copied && let Some(base) = product.base {
            op::copy_(out, &op::expand(base, &out.sizes(), false)?, false)?;
            simple.base = Some(out);
            request.operands[2] = request.operands[3];
            request.addend = Addend::Matrix(request.operands[3]);
        }
        if !self.submit(&simple, &request, types)? {
            return Ok(false);
        }
        match activation {
            Activation::None => {}
            Activation::Relu => drop(op::relu_(out)?),
            Activation::Gelu => drop(op::gelu_(out, "tanh")?),
        }
        Ok(true)
    }

    fn submit(self, product: &Product<'_>, request: &Request, types: &Types) -> Result<bool> {
        let Self { library, handle, stream, major } = self;
        let row = matches!(request.addend, Addend::Row);
        let base = product.base.filter(|base| !product.is_out(base));
        let mut wanted: smallvec::SmallVec<[(&Tensor, Access); 4]> = smallvec::smallvec![
            (product.out, Access::Write),
            (product.a, Access::Read),
            (product.b, Access::Read),
        ];
        wanted.extend(base.map(|base| (base, Access::Read)));
        let held = Operands::hold(&wanted)?;
        let d = held.at(0);
        let (first, second) = if request.turned { (2, 1) } else { (1, 2) };
        let added = if base.is_some() { held.at(3) } else { d };
        let c = if row { d } else { added };
        let operands = [held.at(first), held.at(second), c, d];
        let [one, two, three, four] = operands.map(alignment);
        let problem = Problem {
            device: stream.device(),
            batches: product.out_matrix().sizes[0] as i32,
            operands: request.operands,
            alignments: [one, two, three, four, if row { alignment(added) } else { 0 }],
            types: [types.factors, types.result],
            compute: types.compute,
            scale: types.scale,
            epilogue: epilogue_of(product.activation, row),
            reductions: types.reductions,
            workspace: settings::workspace_bytes(major),
        };
        let bias = if row { added as u64 } else { 0 };
        let Some(plan) = plan::find(library, handle, &problem, bias)? else { return Ok(false) };
        let adds = matches!(request.addend, Addend::Matrix(_));
        let beta = if adds { product.beta } else { Scalar::Int(0) };
        let (alpha, beta) =
            (scale_bytes(product.alpha, types.scale), scale_bytes(beta, types.scale));
        // Given back at once: what has this memory next comes after this in the stream.
        let workspace = match plan.workspace {
            0 => None,
            bytes => Some(CudaAllocator.allocate_on(bytes, stream.device())?),
        };
        let workspace = workspace.as_ref().map_or(std::ptr::null_mut(), corten_core::DataPtr::get);
        let call =
            Call { operands, bias, alpha: &alpha, beta: &beta, workspace, stream: stream.handle() };
        // SAFETY: the request describes the tensors, which are held.
        let done = unsafe { plan.run(library, handle, &call)? };
        launched(stream)?;
        Ok(done)
    }
}
