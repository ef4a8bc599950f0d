//! The second dispatch: iterator operators choose their loop by device type.

use crate::Tensor;
use crate::iter::TensorIterator;
use crate::shortcut::Shortcut;
use corten_core::{Backend, DType, DeviceType, Result, Scalar, bail};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The loop of an iterator operator: reads and writes the operands of the iterator; the scalars
/// are the operator's numeric arguments in schema order.
pub type IterKernel = fn(&mut TensorIterator, &[Scalar]) -> Result<()>;

/// CPU, CUDA and one device type from outside have a place of their own.
const PLACES: [DeviceType; 3] = [DeviceType::Cpu, DeviceType::Cuda, DeviceType::PrivateUse1];

/// One loop per device type, filled by the device crates when they are initialised.
///
/// ```
/// use corten::ops::{Stub, TensorIterator};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// static DOUBLE: Stub = Stub::new("double");
///
/// /// Doubles contiguous numbers.
/// fn double(iter: &mut TensorIterator, _: &[Scalar]) -> Result<()> {
///     let (out, input) = (iter.output(0), iter.input(0).clone());
///     op::add_out(&input, &input, 1.into(), &out).map(drop)
/// }
///
/// DOUBLE.set(corten::core::DeviceType::Cpu, double)?;
/// assert!(DOUBLE.has(corten::core::DeviceType::Cpu));
/// # Ok(())
/// # }
/// ```
pub struct Stub {
    name: &'static str,
    /// The CPU's way around the iterator.
    shortcut: OnceLock<Shortcut>,
    kernels: [AtomicPtr<IterKernel>; PLACES.len()],
}

impl Stub {
    /// A stub without loops for the operator `name`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            shortcut: OnceLock::new(),
            kernels: [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES.len()],
        }
    }

    /// Sets the loop for a device type.
    ///
    /// # Errors
    /// `Runtime` for a device type that cannot have iterator kernels.
    pub fn set(&self, device_type: DeviceType, kernel: IterKernel) -> Result<()> {
        let Some(place) = place_of(device_type) else {
            bail!(Runtime, "{}: device type {device_type} has no iterator kernels", self.name)
        };
        // Leaked on purpose: kernels live as long as the program, and readers take no lock.
        self.kernels[place].store(Box::leak(Box::new(kernel)), Ordering::Release);
        Ok(())
    }

    /// Sets the CPU's way around the iterator. The one set first stays.
    pub fn set_shortcut(&self, shortcut: Shortcut) {
        self.shortcut.get_or_init(|| shortcut);
    }

    /// The CPU's way around the iterator.
    #[inline]
    pub(crate) fn shortcut(&self) -> Option<Shortcut> {
        self.shortcut.get().copied()
    }

    /// Runs the loop for the iterator's device. On the meta device there is nothing to do.
    ///
    /// # Errors
    /// `NotImplemented` when the device has no loop for this operator, or the loop's own errors.
    pub fn run(&self, iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
        let device_type = iter.device().device_type;
        if device_type == DeviceType::Meta {
            return Ok(());
        }
        if scalars.iter().any(|number| number.is_complex()) {
            self.check_complex(iter.common_dtype(), scalars)?;
        }
        match self.kernel(device_type) {
            Some(kernel) => kernel(iter, scalars),
            None => bail!(
                NotImplemented,
                "\"{}\" not implemented for device '{device_type}'",
                self.name
            ),
        }
    }

    /// Fails for complex numbers where the loop computes with real ones and would drop their
    /// imaginary parts.
    #[cold]
    fn check_complex(&self, dtype: DType, scalars: &[Scalar]) -> Result<()> {
        let real = dtype.is_floating_point() || dtype.is_integral(true);
        let complex = scalars.iter().filter(|number| real && number.is_complex());
        complex.copied().try_for_each(|number| number.check_fits(dtype, self.name))
    }

    /// Whether a device type has a loop.
    pub fn has(&self, device_type: DeviceType) -> bool {
        self.kernel(device_type).is_some()
    }

    /// Whether tensors of a backend have a loop, or need none.
    pub(crate) fn serves(&self, backend: Backend) -> bool {
        let loops = || PLACES.into_iter().filter(|place| self.has(*place));
        backend == Backend::Meta || loops().any(|place| Backend::of(place) == Some(backend))
    }

    fn kernel(&self, device_type: DeviceType) -> Option<IterKernel> {
        let pointer = self.kernels[place_of(device_type)?].load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from `Box::leak` in `set`, published with Release.
        unsafe { pointer.as_ref() }.copied()
    }
}

/// Runs an iterator operator with one result.
///
/// # Errors
/// The loop's, or those of writing the result back.
pub fn run1(mut iter: TensorIterator, stub: &Stub, scalars: &[Scalar]) -> Result<Tensor> {
    stub.run(&mut iter, scalars)?;
    iter.finish()?;
    Ok(iter.output(0))
}

/// Runs an iterator operator with two results.
///
/// # Errors
/// The loop's, or those of writing the results back.
pub fn run2(mut iter: TensorIterator, stub: &Stub, scalars: &[Scalar]) -> Result<(Tensor, Tensor)> {
    stub.run(&mut iter, scalars)?;
    iter.finish()?;
    Ok((iter.output(0), iter.output(1)))
}

/// Runs an iterator operator with three results.
///
/// # Errors
/// The loop's, or those of writing the results back.
pub fn run3(
    mut iter: TensorIterator,
    stub: &Stub,
    scalars: &[Scalar],
) -> Result<(Tensor, Tensor, Tensor)> {
    stub.run(&mut iter, scalars)?;
    iter.finish()?;
    Ok((iter.output(0), iter.output(1), iter.output(2)))
}

/// Runs an iterator operator with four results.
///
/// # Errors
/// The loop's, or those of writing the results back.
pub fn run4(
    mut iter: TensorIterator,
    stub: &Stub,
    scalars: &[Scalar],
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    stub.run(&mut iter, scalars)?;
    iter.finish()?;
    Ok((iter.output(0), iter.output(1), iter.output(2), iter.output(3)))
}

fn place_of(device_type: DeviceType) -> Option<usize> {
    PLACES.iter().position(|place| *place == device_type)
}
