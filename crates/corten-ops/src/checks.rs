//! Checks of an operator's arguments that say which argument is wrong, in PyTorch's words.
//!
//! ```
//! use corten_ops::checks::{TensorArg, check_all_same, check_dim, check_same_size, check_scalar_type};
//! use corten_core::{DType, Result};
//! use corten_ops::Tensor;
//!
//! fn check(input: &Tensor, weight: &Tensor) -> Result<()> {
//!     const CHECKED: &str = "my_operator";
//!     let input = TensorArg::new(input, "input", 1);
//!     let weight = TensorArg::new(weight, "weight", 2);
//!     check_dim(CHECKED, input, 2)?;
//!     check_scalar_type(CHECKED, weight, DType::Float32)?;
//!     check_all_same(CHECKED, &[input, weight], check_same_size)
//! }
//!
//! # fn main() -> Result<()> {
//! let flat = Tensor::from_vec(vec![1.0f32, 2.0], &[2])?;
//! let refused = check(&flat, &flat).err().map(|error| error.message().to_owned());
//! assert_eq!(
//!     refused.as_deref(),
//!     Some(
//!         "Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #1 'input' \
//!          (while checking arguments for my_operator)"
//!     )
//! );
//! # Ok(())
//! # }
//! ```

use crate::Tensor;
use corten_core::{DType, Device, DeviceType, Layout, Result, ensure};
use std::fmt::{self, Display, Formatter};
use std::ops::{Deref, Range};

/// An argument with its name and its position, which starts at 1; at 0 it has only a name, as `self` has.
///
/// ```
/// use corten_ops::{Tensor, checks::TensorArg};
///
/// let weight = Tensor::undefined();
/// assert_eq!(TensorArg::new(&weight, "weight", 2).to_string(), "argument #2 'weight'");
/// assert_eq!(TensorArg::new(&weight, "self", 0).to_string(), "'self'");
/// ```
#[derive(Clone, Copy)]
pub struct TensorArg<'a> {
    tensor: &'a Tensor,
    name: &'a str,
    position: usize,
}

impl<'a> TensorArg<'a> {
    /// An argument.
    pub fn new(tensor: &'a Tensor, name: &'a str, position: usize) -> Self {
        Self { tensor, name, position }
    }
}

impl Deref for TensorArg<'_> {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        self.tensor
    }
}

impl Display for TensorArg<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.position {
            0 => write!(f, "'{}'", self.name),
            position => write!(f, "argument #{position} '{}'", self.name),
        }
    }
}

/// Dtype and device as PyTorch names a type: `CPUFloatType`, `CUDAHalfType`.
struct TypeName<'a>(&'a Tensor);

impl Display for TypeName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.0.defined() {
            return f.write_str("UndefinedType");
        }
        let device = self.0.device().device_type;
        let layout = if self.0.layout() == Layout::Strided { "" } else { "Sparse" };
        match device {
            DeviceType::Cpu | DeviceType::Cuda => {
                write!(f, "{layout}{}", device.to_string().to_uppercase())?;
            }
            DeviceType::Meta => write!(f, "{layout}Meta")?,
            other => write!(f, "{layout}{other}")?,
        }
        write!(f, "{}Type", self.0.dtype())
    }
}

fn sizes(tensor: &Tensor) -> Vec<i64> {
    tensor.sizes().to_vec()
}

/// Refuses the undefined tensor.
///
/// # Errors
/// `Runtime`.
pub fn check_defined(function: &str, arg: TensorArg<'_>) -> Result<()> {
    // The blanks are PyTorch's.
    ensure!(
        arg.defined(),
        Runtime,
        "Expected tensor for {arg} to be non-null, but it was undefined  (while checking arguments for {function})"
    );
    Ok(())
}

/// As [`check_defined`], of several.
///
/// # Errors
/// `Runtime`.
pub fn check_all_defined(function: &str, args: &[TensorArg<'_>]) -> Result<()> {
    args.iter().try_for_each(|&arg| check_defined(function, arg))
}

/// Refuses another rank.
///
/// # Errors
/// `Runtime`.
pub fn check_dim(function: &str, arg: TensorArg<'_>, dim: usize) -> Result<()> {
    ensure!(
        arg.dim() == dim,
        Runtime,
        "Expected {dim}-dimensional tensor, but got {}-dimensional tensor for {arg} (while checking arguments for {function})",
        arg.dim()
    );
    Ok(())
}

/// Refuses a rank outside of a range, whose end is excluded.
///
/// # Errors
/// `Runtime`.
pub fn check_dim_range(function: &str, arg: TensorArg<'_>, dims: Range<usize>) -> Result<()> {
    ensure!(
        dims.contains(&arg.dim()),
        Runtime,
        "Expected {} to {} dimensions, but got {}-dimensional tensor for {arg} (while checking arguments for {function})",
        dims.start,
        dims.end.saturating_sub(1),
        arg.dim()
    );
    Ok(())
}

/// Refuses different ranks.
///
/// # Errors
/// `Runtime`.
pub fn check_same_dim(function: &str, a: TensorArg<'_>, b: TensorArg<'_>) -> Result<()> {
    ensure!(
        a.dim() == b.dim(),
        Runtime,
        "Expected tensor for {a} to have the same dimension as tensor for {b}; but {} does not equal {} (while checking arguments for {function})",
        a.dim(),
        b.dim()
    );
    Ok(())
}

/// Refuses a tensor that is not contiguous.
///
/// # Errors
/// `Runtime`.
pub fn check_contiguous(function: &str, arg: TensorArg<'_>) -> Result<()> {
    ensure!(
        arg.is_contiguous(),
        Runtime,
        "Expected contiguous tensor, but got non-contiguous tensor for {arg} (while checking arguments for {function})"
    );
    Ok(())
}

/// As [`check_contiguous`], of those that are defined.
///
/// # Errors
/// `Runtime`.
pub fn check_all_contiguous(function: &str, args: &[TensorArg<'_>]) -> Result<()> {
    let mut defined = args.iter().filter(|arg| arg.defined());
    defined.try_for_each(|&arg| check_contiguous(function, arg))
}

/// Refuses another shape.
///
/// # Errors
/// `Runtime`.
pub fn check_size(function: &str, arg: TensorArg<'_>, expected: &[i64]) -> Result<()> {
    check_dim(function, arg, expected.len())?;
    let found = sizes(&arg);
    ensure!(
        found == expected,
        Runtime,
        "Expected tensor of size {expected:?}, but got tensor of size {found:?} for {arg} (while checking arguments for {function})"
    );
    Ok(())
}

/// Refuses another size of a dimension, which may count from the end.
///
/// # Errors
/// `Runtime`; `Index` without such a dimension.
pub fn check_size_at(function: &str, arg: TensorArg<'_>, dim: i64, size: i64) -> Result<()> {
    let found = arg.size(dim)?;
    ensure!(
        found == size,
        Runtime,
        "Expected tensor to have size {size} at dimension {dim}, but got size {found} for {arg} (while checking arguments for {function})"
    );
    Ok(())
}

/// Refuses different shapes.
///
/// # Errors
/// `Runtime`.
pub fn check_same_size(function: &str, a: TensorArg<'_>, b: TensorArg<'_>) -> Result<()> {
    let (first, second) = (sizes(&a), sizes(&b));
    ensure!(
        first == second,
        Runtime,
        "Expected tensor for {a} to have same size as tensor for {b}; but {first:?} does not equal {second:?} (while checking arguments for {function})"
    );
    Ok(())
}

/// Refuses another number of elements.
///
/// # Errors
/// `Runtime`.
pub fn check_numel(function: &str, arg: TensorArg<'_>, numel: i64) -> Result<()> {
    ensure!(
        arg.numel() == numel,
        Runtime,
        "Expected tensor for {arg} to have {numel} elements; but it actually has {} elements (while checking arguments for {function})",
        arg.numel()
    );
    Ok(())
}

/// Refuses different numbers of elements.
///
/// # Errors
/// `Runtime`.
pub fn check_same_numel(function: &str, a: TensorArg<'_>, b: TensorArg<'_>) -> Result<()> {
    ensure!(
        a.numel() == b.numel(),
        Runtime,
        "Expected tensor for {a} to have same number of elements as tensor for {b}; but {} does not equal {} (while checking arguments for {function})",
        a.numel(),
        b.numel()
    );
    Ok(())
}

/// Refuses another dtype.
///
/// # Errors
/// `Runtime`.
pub fn check_scalar_type(function: &str, arg: TensorArg<'_>, dtype: DType) -> Result<()> {
    ensure!(
        arg.defined() && arg.dtype() == dtype,
        Runtime,
        "Expected tensor for {arg} to have scalar type {dtype}; but got {} instead (while checking arguments for {function})",
        TypeName(&arg)
    );
    Ok(())
}

/// Refuses a dtype that is not on a list.
///
/// # Errors
/// `Runtime`.
pub fn check_scalar_types(function: &str, arg: TensorArg<'_>, dtypes: &[DType]) -> Result<()> {
    let names = || dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    ensure!(
        arg.defined() && dtypes.contains(&arg.dtype()),
        Runtime,
        "Expected tensor for {arg} to have one of the following scalar types: {}; but got {} instead (while checking arguments for {function})",
        names(),
        TypeName(&arg)
    );
    Ok(())
}

/// Refuses different dtypes or types of devices.
///
/// # Errors
/// `Runtime`.
pub fn check_same_type(function: &str, a: TensorArg<'_>, b: TensorArg<'_>) -> Result<()> {
    let key = |tensor: &Tensor| {
        tensor.defined().then(|| (tensor.dtype(), tensor.device().device_type, tensor.layout()))
    };
    ensure!(
        key(&a) == key(&b),
        Runtime,
        "Expected tensor for {a} to have the same type as tensor for {b}; but type {} does not equal {} (while checking arguments for {function})",
        TypeName(&a),
        TypeName(&b)
    );
    Ok(())
}

/// Refuses different dtypes, on whatever devices.
///
/// # Errors
/// `Runtime`.
pub fn check_same_dtype(function: &str, a: TensorArg<'_>, b: TensorArg<'_>) -> Result<()> {
    check_defined(function, a)?;
    check_defined(function, b)?;
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "Expected tensor for {a} to have the same dtype as tensor for {b}; but dtype {} does not equal {} (while checking arguments for {function})",
        a.dtype(),
        b.dtype()
    );
    Ok(())
}

/// Refuses a tensor on another device than the others'. Undefined tensors are nowhere.
///
/// # Errors
/// `Runtime`.
pub fn check_same_device(function: &str, args: &[TensorArg<'_>]) -> Result<()> {
    let mut common: Option<Device> = None;
    for arg in args.iter().filter(|arg| arg.defined()) {
        let (device, found) = (*common.get_or_insert(arg.device()), arg.device());
        ensure!(
            device == found,
            Runtime,
            "Expected all tensors to be on the same device, but got {} is on {found}, different from other tensors on {device} (when checking argument in method {function})",
            arg.name
        );
    }
    Ok(())
}

/// Refuses tensors on another type of device. Undefined tensors are nowhere.
///
/// # Errors
/// `Runtime`.
pub fn check_device_type(function: &str, tensors: &[&Tensor], expected: DeviceType) -> Result<()> {
    for tensor in tensors.iter().filter(|tensor| tensor.defined()) {
        let found = tensor.device().device_type;
        ensure!(
            found == expected,
            Runtime,
            "Expected tensor to have {expected} DeviceType, but got tensor with {found} DeviceType (while checking arguments for {function})"
        );
    }
    Ok(())
}

/// Refuses tensors of another layout. Undefined tensors have none.
///
/// # Errors
/// `Runtime`.
pub fn check_layout(function: &str, tensors: &[&Tensor], expected: Layout) -> Result<()> {
    let name = |layout: Layout| if layout == Layout::Strided { "Strided" } else { layout.name() };
    for tensor in tensors.iter().filter(|tensor| tensor.defined()) {
        let found = tensor.layout();
        ensure!(
            found == expected,
            Runtime,
            "Expected tensor to have {} Layout, but got tensor with {} Layout (while checking arguments for {function})",
            name(expected),
            name(found)
        );
    }
    Ok(())
}

/// Compares the first argument that is defined with each of the others that are, by a check of two.
///
/// # Errors
/// The first of the check.
pub fn check_all_same(
    function: &str,
    args: &[TensorArg<'_>],
    check: impl Fn(&str, TensorArg<'_>, TensorArg<'_>) -> Result<()>,
) -> Result<()> {
    let mut defined = args.iter().filter(|arg| arg.defined());
    let Some(&first) = defined.next() else { return Ok(()) };
    defined.try_for_each(|&arg| check(function, first, arg))
}
