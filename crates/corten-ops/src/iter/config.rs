//! What an iterator is built from: the operands and the rules.

use super::{Hold, Operand, Start, TensorIterator, types};
use crate::Tensor;
use corten_core::{DType, Device, Dims, Result, Scalar};

/// Collects the operands and rules of a [`TensorIterator`].
///
/// Outputs come before inputs. The constructors named after kinds of operators set the rules
/// those follow; the setters change single ones.
///
/// ```
/// use corten::ops::iter::TensorIteratorConfig;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1, 2, 3]?;
/// let config = TensorIteratorConfig::unary_float().add_output(None).add_input(&x);
/// assert_eq!(config.build()?.dtype(0), DType::Float32);
/// # Ok(())
/// # }
/// ```
pub struct TensorIteratorConfig {
    pub(crate) operands: Vec<Operand>,
    pub(crate) outputs: usize,
    pub(crate) rules: Rules,
    pub(crate) static_dtype: Option<DType>,
    pub(crate) static_device: Option<Device>,
    pub(crate) static_shape: Option<Dims>,
}

/// The switches of a config.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) check_mem_overlap: bool,
    pub(crate) allow_cpu_scalars: bool,
    pub(crate) is_reduction: bool,
    pub(crate) resize_outputs: bool,
    pub(crate) check_all_same_dtype: bool,
    pub(crate) check_all_same_device: bool,
    pub(crate) enforce_safe_casting_to_output: bool,
    pub(crate) promote_inputs_to_common_dtype: bool,
    pub(crate) promote_integer_inputs_to_float: bool,
    pub(crate) cast_common_dtype_to_outputs: bool,
    pub(crate) enforce_linear_iteration: bool,
}

impl Default for TensorIteratorConfig {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, on: bool) -> Self {
            self.rules.$name = on;
            self
        }
    )+};
}

impl TensorIteratorConfig {
    /// No operands; overlap, dtype and device are checked, outputs may be resized.
    pub fn new() -> Self {
        Self {
            operands: Vec::with_capacity(4),
            outputs: 0,
            rules: Rules {
                check_mem_overlap: true,
                allow_cpu_scalars: false,
                is_reduction: false,
                resize_outputs: true,
                check_all_same_dtype: true,
                check_all_same_device: true,
                enforce_safe_casting_to_output: false,
                promote_inputs_to_common_dtype: false,
                promote_integer_inputs_to_float: false,
                cast_common_dtype_to_outputs: false,
                enforce_linear_iteration: false,
            },
            static_dtype: None,
            static_device: None,
            static_shape: None,
        }
    }

    /// The rules of `add`: inputs are promoted, the result may be cast to a given output.
    pub fn binary() -> Self {
        Self::new()
            .promote_inputs_to_common_dtype(true)
            .cast_common_dtype_to_outputs(true)
            .enforce_safe_casting_to_output(true)
            .allow_cpu_scalars(true)
    }

    /// The rules of `div`: as [`binary`](Self::binary), and integers become floating point.
    pub fn binary_float() -> Self {
        Self::binary().promote_integer_inputs_to_float(true)
    }

    /// The rules of `eq`: inputs are promoted, the result is boolean unless `out` says otherwise.
    pub fn comparison(out: Option<&Tensor>) -> Self {
        let config = Self::new().allow_cpu_scalars(true).promote_inputs_to_common_dtype(true);
        match out.filter(|out| out.defined()) {
            None => config.declare_static_dtype(DType::Bool),
            Some(out) => config.cast_common_dtype_to_outputs(out.dtype() != DType::Bool),
        }
    }

    /// The rules of `neg`: input and output have the same dtype.
    pub fn unary() -> Self {
        Self::new()
    }

    /// The rules of `exp`: integers become floating point.
    pub fn unary_float() -> Self {
        Self::new()
            .promote_inputs_to_common_dtype(true)
            .promote_integer_inputs_to_float(true)
            .cast_common_dtype_to_outputs(true)
            .enforce_safe_casting_to_output(true)
    }

    /// The rules of `isfinite`: the result is boolean.
    pub fn unary_force_bool() -> Self {
        Self::new().check_all_same_dtype(false).declare_static_dtype(DType::Bool)
    }

    /// The rules of `addcmul`: three inputs are promoted together.
    pub fn ternary() -> Self {
        Self::new()
            .promote_inputs_to_common_dtype(true)
            .cast_common_dtype_to_outputs(true)
            .enforce_safe_casting_to_output(true)
    }

    /// The rules of `fill_`: an output that exists, and nothing to read.
    pub fn nullary() -> Self {
        Self::new().check_all_same_dtype(false).resize_outputs(false)
    }

    /// The rules of `sum`: the output is a view with stride 0 along the reduced dimensions.
    pub fn reduction() -> Self {
        Self::new()
            .check_mem_overlap(false)
            .resize_outputs(false)
            .is_reduction(true)
            .promote_inputs_to_common_dtype(true)
    }

    /// Adds an output; `None` or an undefined tensor is allocated.
    #[must_use]
    pub fn add_output(mut self, output: Option<&Tensor>) -> Self {
        debug_assert_eq!(self.outputs, self.operands.len(), "outputs come before inputs");
        self.operands.push(Operand::new(output.cloned().unwrap_or_default(), true));
        self.outputs += 1;
        self
    }

    /// Adds an input.
    #[must_use]
    pub fn add_input(mut self, input: &Tensor) -> Self {
        self.operands.push(Operand::new(input.clone(), false));
        self
    }

    /// Adds an input that the loop reads in another dtype: converted at once on the CPU.
    ///
    /// # Errors
    /// Those of the conversion.
    pub fn add_input_as(mut self, input: &Tensor, dtype: DType) -> Result<Self> {
        let mut operand = Operand::new(input.clone(), false);
        operand.read_as(dtype)?;
        self.operands.push(operand);
        Ok(self)
    }

    /// Adds a number as an input that has the same value everywhere.
    ///
    /// # Errors
    /// `Runtime` when the number does not fit the dtype.
    pub fn add_input_scalar(mut self, value: Scalar, dtype: DType) -> Result<Self> {
        value.check_fits(dtype, "fill")?;
        self.operands.push(Operand::number(value, dtype)?);
        Ok(self)
    }

    switches! {
        /// Whether outputs that overlap themselves or, in part, an input are refused.
        check_mem_overlap;
        /// Whether one rank-0 CPU input may join operands of another device.
        allow_cpu_scalars;
        /// Whether outputs have stride 0 along reduced dimensions.
        is_reduction;
        /// Whether given outputs of another shape are resized.
        resize_outputs;
        /// Whether all operands must have one dtype.
        check_all_same_dtype;
        /// Whether all operands must be on one device.
        check_all_same_device;
        /// Whether a given output's dtype must be able to hold the common dtype.
        enforce_safe_casting_to_output;
        /// Whether a given output of another dtype is written through a temporary.
        cast_common_dtype_to_outputs;
        /// Whether the walk keeps the logical order of elements.
        enforce_linear_iteration;
    }

    /// Whether inputs of several dtypes are converted to their common one. Implies that dtypes
    /// are not checked to be the same.
    #[must_use]
    pub fn promote_inputs_to_common_dtype(mut self, on: bool) -> Self {
        self.rules.promote_inputs_to_common_dtype = on;
        self.rules.check_all_same_dtype &= !on;
        self
    }

    /// Whether an integral common dtype becomes the default floating-point one.
    #[must_use]
    pub fn promote_integer_inputs_to_float(mut self, on: bool) -> Self {
        self.rules.promote_integer_inputs_to_float = on;
        self
    }

    /// Allocated outputs have this dtype, whatever the inputs are.
    #[must_use]
    pub fn declare_static_dtype(mut self, dtype: DType) -> Self {
        self.static_dtype = Some(dtype);
        self
    }

    /// Allocated outputs are on this device, whatever the inputs are.
    #[must_use]
    pub fn declare_static_device(mut self, device: Device) -> Self {
        self.static_device = Some(device);
        self
    }

    /// The walk has this shape, whatever the operands' are; their strides are used as they are.
    #[must_use]
    pub fn declare_static_shape(mut self, shape: &[i64]) -> Self {
        self.static_shape = Some(shape.into());
        self
    }

    /// As [`declare_static_shape`](Self::declare_static_shape), with dimension `squash` of size 1:
    /// a kernel walks that dimension itself.
    #[must_use]
    pub fn declare_static_shape_squashed(self, shape: &[i64], squash: usize) -> Self {
        let mut shape: Dims = shape.into();
        if let Some(size) = shape.get_mut(squash) {
            *size = 1;
        }
        self.declare_static_shape(&shape)
    }

    /// Checks the operands against the rules and plans the walk.
    ///
    /// # Errors
    /// torch's errors for overlap, shape, dtype and device.
    pub fn build(self) -> Result<TensorIterator> {
        let mut iter = TensorIterator {
            operands: self.operands,
            outputs: self.outputs,
            shape: Dims::new(),
            perm: Dims::new(),
            numel: 1,
            common_dtype: DType::Undefined,
            device: Device::CPU,
            is_reduction: self.rules.is_reduction,
            all_same_shape: false,
            coalesced: false,
            is_final: true,
            accumulates: false,
            hold: Hold::Free,
        };
        let rules = self.rules;
        iter.mark_outputs();
        if rules.check_mem_overlap {
            iter.check_overlap()?;
        }
        let all_scalars = iter.compute_shape(&rules, self.static_shape)?;
        let fixed = types::Fixed { dtype: self.static_dtype, device: self.static_device };
        iter.compute_types(&rules, fixed, all_scalars)?;
        if !iter.fast_setup(&rules)? {
            iter.compute_strides();
            iter.reorder_dimensions(rules.enforce_linear_iteration);
            iter.allocate_or_resize_outputs()?;
            iter.coalesce_dimensions();
        }
        Ok(iter)
    }
}

impl Operand {
    pub(crate) fn new(tensor: Tensor, is_output: bool) -> Self {
        let defined = tensor.defined();
        Self {
            sizes: if defined { tensor.sizes() } else { Dims::new() },
            strides: if defined { tensor.strides() } else { Dims::new() },
            dtype: if defined { tensor.dtype() } else { DType::Undefined },
            device: if defined { tensor.device() } else { Device::CPU },
            tensor,
            original: None,
            result: None,
            byte_offset: 0,
            is_output,
            read_write: false,
            will_resize: false,
            fresh: false,
            start: Start(std::ptr::null_mut()),
            inline: None,
        }
    }
}
