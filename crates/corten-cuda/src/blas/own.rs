//! Products by this crate's kernels: any strides and dtypes.

use super::layout::Matrix;
use super::{Activation, Product};
use crate::device::gpu;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::memory::CudaAllocator;
use crate::operands::Operands;
use crate::pointwise::Numbers;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, Allocator, DType, DataPtr, Device, Result, Scalar, ensure};
use corten_ops::Tensor;

static GEMM: Template = Template { name: "gemm", text: &[text::GEMM] };
static TENSOR_CORES: Template =
    Template { name: "gemm_tensor_cores", text: &[text::MMA, text::GEMM, text::GEMM_MMA] };
static JOIN: Template = Template { name: "gemm_join", text: &[text::GEMM] };
static GEMV_ROWS: Template = Template { name: "gemv_rows", text: &[text::GEMM] };
static GEMV_COLUMNS: Template = Template { name: "gemv_columns", text: &[text::GEMM] };

/// `GemmShape` of `gemm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct GemmShape {
    sizes: [u32; 4],
    chunk: u32,
    parts: u32,
    strides: [[i64; 3]; 4],
}

/// The kernel for a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    /// Tiles in registers.
    Tiles,
    /// Tiles of so many times 32 rows and columns by tensor cores.
    TensorCores(u32),
    /// A matrix times a vector along the rows, with so many elements in a load.
    Rows(u32),
    /// A matrix times a vector whose rows are neighbours, with so many of them in a load.
    Columns(u32),
}

impl Algorithm {
    /// Blocks for the rows and columns of a result.
    fn blocks(self, m: u64, n: u64) -> u64 {
        match self {
            Self::Tiles => m.div_ceil(64) * n.div_ceil(64),
            Self::TensorCores(size) => {
                let tile = 32 * u64::from(size);
                m.div_ceil(tile) * n.div_ceil(tile)
            }
            Self::Rows(_) => m.div_ceil(8),
            Self::Columns(width) => m.div_ceil(32 * u64::from(width)),
        }
    }
}

/// Blocks that keep a large GPU busy: with tiles, and with loads that wait for memory.
const MANY_TILES: u64 = 264;
const MANY_ROWS: u64 = 1056;
/// Steps of a sum that are worth a part of their own.
const LEAST_STEPS: u64 = 512;

/// Computes a product.
///
/// # Errors
/// `Runtime` for more than 2^31 - 1 rows, columns or batches; those of the driver.
pub(super) fn multiply(product: &Product<'_>) -> Result<()> {
    let out = product.out;
    let base = product.base.filter(|base| !product.is_out(base));
    let wanted = [(out, Access::Write), (product.a, Access::Read), (product.b, Access::Read)];
    let added = base.map(|base| (base, Access::Read));
    let wanted: smallvec::SmallVec<[(&Tensor, Access); 4]> =
        wanted.into_iter().chain(added).collect();
    let held = Operands::hold(&wanted)?;
    let at =
        [held.at(0), held.at(1), held.at(2), if base.is_some() { held.at(3) } else { held.at(0) }];
    let mut c = product.out_matrix();
    let (mut a, mut b) = (Matrix::of(product.a), Matrix::of(product.b));
    let mut d = product.base.map_or(c, |base| Matrix::broadcast(base, out));
    let (mut first, mut second) = ((at[1], product.a.dtype()), (at[2], product.b.dtype()));
    if c.sizes[1] == 1 && c.sizes[2] != 1 {
        // A row times a matrix is the transposed matrix times a column.
        (a, b) = (b.transposed(), a.transposed());
        (first, second) = (second, first);
        (c, d) = (c.transposed(), d.transposed());
    }
    let [batches, m, n] = c.sizes;
    let k = a.sizes[2];
    let fits = [batches, m, n, k].iter().all(|&size| size <= i64::from(i32::MAX));
    ensure!(fits, Runtime, "CUDA products take at most 2^31 - 1 rows, columns and batches");
    let sizes = [batches as u32, m as u32, n as u32, k as u32];
    let strides = [a.strides, b.strides, c.strides, d.strides];
    let shape = GemmShape { sizes, chunk: k as u32, parts: 1, strides };
    let call = Launch { product, shape, first, second, base: at[3], out: at[0] };
    call.run()?;
    drop(held);
    Ok(())
}

/// A product whose tensors are held.
struct Launch<'a> {
    product: &'a Product<'a>,
    shape: GemmShape,
    /// Address and dtype of the factors.
    first: (*mut u8, DType),
    second: (*mut u8, DType),
    base: *mut u8,
    out: *mut u8,
}

impl Launch<'_> {
    fn algorithm(&self) -> Algorithm {
        let GemmShape { sizes: [batches, m, n, k], strides: [[batch, down, right], b, ..], .. } =
            self.shape;
        if n != 1 {
            return Algorithm::Tiles;
        }
        let widest = (16 / self.first.1.itemsize()).clamp(1, 8) as i64;
        let (first, second) = (self.first, self.second);
        let aligned = |(address, dtype): (*mut u8, DType), width: i64| {
            address.addr().is_multiple_of(width as usize * dtype.itemsize())
        };
        let halved = |fits: &dyn Fn(i64) -> bool| {
            let mut width = widest;
            while width > 1 && !fits(width) {
                width /= 2;
            }
            width as u32
        };
        if right != 1 && k != 1 {
            // Strides along the sum as well as along the rows: nothing is gained by a special kernel.
            if down != 1 {
                return Algorithm::Tiles;
            }
            return Algorithm::Columns(halved(&|width| {
                let batch_fits = batches == 1 || batch % width == 0;
                // Narrow results have too few blocks as it is.
                let enough = m >= 32 * 66 * width as u32 || width == 1;
                enough && right % width == 0 && batch_fits && aligned(first, width)
            }));
        }
        let fits = |width: i64| {
            let batch_fits = batches == 1 || batch % width == 0 && b[0] % width == 0;
            let alike = first.1.itemsize() == second.1.itemsize() && b[1] == 1;
            alike
                && down % width == 0
                && batch_fits
                && aligned(first, width)
                && aligned(second, width)
        };
        Algorithm::Rows(halved(&fits))
    }

    /// Products of 16-bit floats with neighbours along rows or columns are for tensor cores.
    fn with_tensor_cores(&self, algorithm: Algorithm) -> Result<Algorithm> {
        let GemmShape { sizes: [batches, m, n, _], strides: [a, b, ..], .. } = self.shape;
        let dtype = self.first.1;
        let alike = dtype.is_reduced_float()
            && self.second.1 == dtype
            && self.product.out.dtype() == dtype
            && (a[1] == 1 || a[2] == 1)
            && (b[1] == 1 || b[2] == 1);
        let has_them =
            || gpu(self.product.out.device().index).map(|device| device.properties.major >= 8);
        if algorithm != Algorithm::Tiles || !alike || !has_them()? {
            return Ok(algorithm);
        }
        let large = Algorithm::TensorCores(4);
        let many = large.blocks(m.into(), n.into()) * u64::from(batches) >= MANY_TILES / 2;
        Ok(if many { large } else { Algorithm::TensorCores(2) })
    }

    fn run(&self) -> Result<()> {
        let algorithm = self.with_tensor_cores(self.algorithm())?;
        let mut shape = self.shape;
        let [batches, m, n, k] = shape.sizes.map(u64::from);
        let blocks = algorithm.blocks(m, n);
        let many = if algorithm == Algorithm::Tiles { MANY_TILES } else { MANY_ROWS };
        let wanted = (many / (blocks * batches).max(1)).min(k / LEAST_STEPS).clamp(1, 256);
        // Parts begin where loads of several elements may.
        let chunk = k.div_ceil(wanted).next_multiple_of(16).max(16);
        let parts = k.div_ceil(chunk).max(1);
        (shape.chunk, shape.parts) = (chunk as u32, parts as u32);
        let stream = Stream::current(self.product.out.device().index);
        let sums = self.sum_dtype();
        let partial = match parts {
            1 => DataPtr::null(Device::cuda(stream.device())),
            _ => {
                let bytes = parts * batches * m * n * sums.itemsize() as u64;
                CudaAllocator.allocate_on(bytes as usize, stream.device())?
            }
        };
        let grid =
            [u32::try_from(blocks).unwrap_or(u32::MAX), (batches as u32).min(65535), parts as u32];
        self.first_pass(algorithm, shape, grid, partial.get(), stream)?;
        if parts > 1 { self.second_pass(shape, partial.get(), stream) } else { Ok(()) }
    }

    /// What sums are accumulated in, as the value type of a dtype.
    fn sum_dtype(&self) -> DType {
        match self.product.out.dtype() {
            DType::Float16 | DType::BFloat16 => DType::Float32,
            DType::Complex32 | DType::BComplex32 => DType::Complex64,
            dtype => dtype,
        }
    }

    fn numbers(&self) -> Result<Numbers> {
        let beta = if self.product.base.is_some() { self.product.beta } else { Scalar::Int(0) };
        Numbers::of(&[self.product.alpha, beta], self.product.out.dtype())
    }

    fn first_pass(
        &self,
        algorithm: Algorithm,
        mut shape: GemmShape,
        grid: [u32; 3],
        mut partial: *mut u8,
        stream: Stream,
    ) -> Result<()> {
        let mut numbers = self.numbers()?;
        let (mut a, mut b, mut base, mut out) = (self.first.0, self.second.0, self.base, self.out);
        let types = [
            Argument::Storage(self.product.out.dtype()),
            Argument::Storage(self.first.1),
            Argument::Storage(self.second.1),
            Argument::Value(self.product.out.dtype()),
            Argument::Number(self.activation()),
        ];
        let launched = Shape { grid, block: [256, 1, 1], shared: 0 };
        let parameters = parameters!(shape, a, b, base, out, partial, numbers);
        // SAFETY: the parameters are those of each of the kernels; the strides stay within the tensors, which
        // are held, and loads of several elements are aligned.
        unsafe {
            let (template, number) = match algorithm {
                Algorithm::Tiles => return GEMM.launch(&types, launched, stream, parameters),
                Algorithm::TensorCores(size) => (&TENSOR_CORES, size),
                Algorithm::Columns(width) => (&GEMV_COLUMNS, width),
                Algorithm::Rows(width) => (&GEMV_ROWS, width),
            };
            let [out, first, second, value, activation] = types;
            let types = [out, first, second, value, activation, Argument::Number(number)];
            // Two tiles of both factors, 32 steps deep, in rows of 40 elements.
            let shared = match algorithm {
                Algorithm::TensorCores(size) => 2 * 2 * 32 * size * 40 * 2,
                _ => launched.shared,
            };
            template.launch(&types, Shape { shared, ..launched }, stream, parameters)
        }
    }

    fn second_pass(
        &self,
        mut shape: GemmShape,
        mut partial: *mut u8,
        stream: Stream,
    ) -> Result<()> {
        let [batches, m, n, _] = shape.sizes.map(i64::from);
        let mut numbers = self.numbers()?;
        let (mut base, mut out) = (self.base, self.out);
        let dtype = self.product.out.dtype();
        let types =
            [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(self.activation())];
        let parameters = parameters!(shape, partial, base, out, numbers);
        // SAFETY: the parameters are those of `gemm_join`; what has the memory of the parts next comes after
        // this in the stream.
        unsafe { JOIN.launch(&types, Shape::over(batches * m * n), stream, parameters) }
    }

    fn activation(&self) -> u32 {
        match self.product.activation {
            Activation::None => 0,
            Activation::Relu => 1,
            Activation::Gelu => 2,
        }
    }
}
