//! Which dtype and device the walk has, and the temporaries that bring operands to it.

use super::config::Rules;
use super::{Inline, Operand, TensorIterator};
use crate::{Tensor, derived, op};
use corten_core::{
    Access, AccessSet, BelowADInplaceOrViewGuard, DType, Device, Element, Result, ResultTypeState,
    Scalar, TensorBase, bail, bug, can_cast, default_dtype, ensure, match_dtype,
};

/// What the config fixes beforehand.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    pub(crate) dtype: Option<DType>,
    pub(crate) device: Option<Device>,
}

/// What a first look at the operands shows.
struct Survey {
    /// The dtype of the first input.
    input: DType,
    /// The dtype of the first given output.
    output: DType,
    inputs_differ: bool,
    outputs_differ: bool,
    undefined_outputs: bool,
}

impl TensorIterator {
    /// Decides the common dtype and device, checks the operands against them, and converts
    /// operands where the rules ask for it.
    pub(crate) fn compute_types(
        &mut self,
        rules: &Rules,
        fixed: Fixed,
        all_scalars: bool,
    ) -> Result<()> {
        let survey = self.survey(fixed)?;
        self.common_dtype = survey.input;
        self.device = self.common_device(fixed);
        if rules.check_all_same_dtype {
            self.check_same_dtype(&survey)?;
        }
        if survey.nothing_to_decide(rules) {
            if survey.inputs_differ {
                self.common_dtype = DType::Undefined;
            }
            return Ok(());
        }
        if rules.promote_inputs_to_common_dtype && (survey.inputs_differ || all_scalars) {
            self.common_dtype = self.promoted_dtype()?;
        }
        if rules.promote_integer_inputs_to_float && self.common_dtype.is_integral(true) {
            self.common_dtype = default_dtype();
        }
        self.bring_to_common(rules)
    }

    fn survey(&mut self, fixed: Fixed) -> Result<Survey> {
        let mut survey = Survey {
            input: DType::Undefined,
            output: DType::Undefined,
            inputs_differ: false,
            outputs_differ: false,
            undefined_outputs: false,
        };
        for operand in &mut self.operands {
            if !operand.defined() {
                if !operand.is_output {
                    bug!("an undefined tensor was given as an input");
                }
                match fixed.dtype {
                    Some(dtype) => operand.dtype = dtype,
                    None => survey.undefined_outputs = true,
                }
                continue;
            }
            let (seen, differ) = if operand.is_output {
                (&mut survey.output, &mut survey.outputs_differ)
            } else {
                (&mut survey.input, &mut survey.inputs_differ)
            };
            if *seen == DType::Undefined {
                *seen = operand.dtype;
            }
            *differ |= *seen != operand.dtype;
        }
        Ok(survey)
    }

    /// The first device that is not the CPU; else the CPU.
    fn common_device(&self, fixed: Fixed) -> Device {
        let mut devices = self.operands.iter().filter(|op| op.defined()).map(|op| op.device);
        let first = devices.clone().next();
        devices.find(|device| !device.is_cpu()).or(first).or(fixed.device).unwrap_or(Device::CPU)
    }

    fn check_same_dtype(&self, survey: &Survey) -> Result<()> {
        let other_output = survey.output != DType::Undefined && survey.output != self.common_dtype;
        if !(survey.inputs_differ || survey.outputs_differ || other_output) {
            return Ok(());
        }
        for operand in self.operands.iter().filter(|operand| operand.defined()) {
            ensure!(
                operand.dtype == self.common_dtype,
                Runtime,
                "Found dtype {} but expected {}",
                operand.dtype.type_name(),
                self.common_dtype.type_name()
            );
        }
        Ok(())
    }

    fn promoted_dtype(&self) -> Result<DType> {
        let mut state = ResultTypeState::default();
        for operand in &self.operands[self.outputs..] {
            let tensor = &operand.tensor;
            state.push_tensor(operand.dtype, operand.sizes.len(), tensor.is_wrapped_number())?;
        }
        state.finish()
    }

    fn bring_to_common(&mut self, rules: &Rules) -> Result<()> {
        let (common, device) = (self.common_dtype, self.device);
        let mut cpu_scalars = i32::from(!rules.allow_cpu_scalars);
        for operand in &mut self.operands {
            if !operand.defined() {
                if operand.dtype == DType::Undefined {
                    operand.dtype = common;
                }
                operand.device = device;
                continue;
            }
            if rules.check_all_same_device && operand.device != device {
                operand.check_device(device, &mut cpu_scalars)?;
            }
            if operand.dtype == common {
                continue;
            }
            if operand.is_output {
                operand.check_cast(rules, common)?;
            }
            // Without data the temporary only decides the strides of the result, as it does with data.
            if device.is_cpu() || device.is_meta() && operand.tensor.numel() != 1 {
                operand.convert(rules, common)?;
            }
        }
        Ok(())
    }
}

impl Survey {
    fn nothing_to_decide(&self, rules: &Rules) -> bool {
        !(self.undefined_outputs
            || rules.check_all_same_device
            || rules.promote_inputs_to_common_dtype
            || rules.cast_common_dtype_to_outputs
            || rules.enforce_safe_casting_to_output)
    }
}

impl Operand {
    /// Allows one rank-0 CPU input beside operands of another device; `used` counts them.
    fn check_device(&self, common: Device, used: &mut i32) -> Result<()> {
        if !self.is_output && self.sizes.is_empty() && self.device.is_cpu() {
            // Beside tensors without data a number stands wherever one is taken, and one that was given
            // as a number travels with the launch.
            if common.is_meta() || self.inline.is_some() || self.tensor.is_wrapped_number() {
                return Ok(());
            }
            *used += 1;
            if *used == 1 {
                return Ok(());
            }
        }
        if common.is_meta() {
            bail!(
                Runtime,
                "Tensor on device {} is not on the expected device {common}!",
                self.device
            );
        }
        bail!(
            Runtime,
            "Expected all tensors to be on the same device, but found at least two devices, \
             {common} and {}!",
            self.device
        )
    }

    fn check_cast(&self, rules: &Rules, common: DType) -> Result<()> {
        ensure!(
            !rules.enforce_safe_casting_to_output || can_cast(common, self.dtype),
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            common.type_name(),
            self.dtype.type_name()
        );
        Ok(())
    }

    /// Puts a temporary of the common dtype in the operand's place.
    fn convert(&mut self, rules: &Rules, common: DType) -> Result<()> {
        if self.is_output {
            if rules.cast_common_dtype_to_outputs {
                let original = std::mem::take(&mut self.tensor);
                if !self.will_resize {
                    self.tensor = allocate(&self.sizes, None, common, self.device)?;
                    self.strides = self.tensor.strides();
                }
                self.original = Some(original);
                self.dtype = common;
            }
        } else if rules.promote_inputs_to_common_dtype {
            self.read_as(common)?;
        }
        Ok(())
    }

    /// Makes the loop read an input in this dtype.
    pub(crate) fn read_as(&mut self, dtype: DType) -> Result<()> {
        if self.dtype == dtype {
            return Ok(());
        }
        if self.device.is_cpu() && self.tensor.numel() == 1 {
            self.inline = Some(Inline::new(read_scalar(&self.tensor)?, dtype)?);
        } else {
            let converted = converted(&self.tensor, dtype)?;
            self.strides = converted.strides();
            self.original = Some(std::mem::replace(&mut self.tensor, converted));
        }
        self.dtype = dtype;
        Ok(())
    }

    /// An input that is a number.
    pub(crate) fn number(value: Scalar, dtype: DType) -> Result<Self> {
        let mut operand = Self::new(derived::wrapped(value)?, false);
        operand.inline = Some(Inline::new(value, dtype)?);
        operand.dtype = dtype;
        Ok(operand)
    }
}

impl Inline {
    /// One element with the scalar's value.
    fn new(value: Scalar, dtype: DType) -> Result<Self> {
        let mut bytes = Self([0; 16]);
        let place = &raw mut bytes.0;
        match_dtype!(dtype, "copy", All, T => {
            const { assert!(size_of::<T>() <= 16 && align_of::<T>() <= 16) };
            // SAFETY: the place has room and alignment for every element type, as just asserted.
            unsafe { place.cast::<T>().write(T::from_scalar(value)) };
            Ok(())
        })?;
        Ok(bytes)
    }
}

/// The only element of a CPU tensor.
///
/// # Errors
/// Those of taking access; `Internal` for a tensor without elements.
pub fn read_scalar(tensor: &TensorBase) -> Result<Scalar> {
    if let Some(number) = tensor.only_element()? {
        return Ok(number);
    }
    let set = AccessSet::acquire(&[(tensor, Access::Read)])?;
    match_dtype!(tensor.dtype(), "_local_scalar_dense_cpu", All, T => {
        match set.read::<T>(0)?.first() {
            Some(value) => Ok(value.to_scalar()),
            None => bug!("read_scalar of an empty tensor"),
        }
    })
}

/// Fills a fresh contiguous CPU tensor.
//
// Not through a slice: the arbitrary bytes of a fresh tensor need not be valid bools.
pub(crate) fn write_elements<T: Element>(
    tensor: &TensorBase,
    elements: impl ExactSizeIterator<Item = Result<T>>,
) -> Result<()> {
    if !tensor.is_contiguous() || tensor.numel() != elements.len() as i64 {
        bug!("write_elements needs a contiguous tensor with as many elements");
    }
    let set = AccessSet::acquire(&[(tensor, Access::Write)])?;
    let first = set.write_ptr::<T>(0)?;
    for (i, element) in elements.enumerate() {
        // SAFETY: the tensor is contiguous and has an element `i`; the set holds it for writing.
        unsafe { first.add(i).write(element?) };
    }
    Ok(())
}

/// A new tensor; contiguous unless strides are given.
pub(crate) fn allocate(
    sizes: &[i64],
    strides: Option<&[i64]>,
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    let options = corten_core::TensorOptions::default().dtype(dtype).device(device);
    Ok(match strides {
        Some(strides) => TensorBase::empty_strided(sizes, strides, options)?,
        None => TensorBase::empty(sizes, options)?,
    }
    .into())
}

/// A new tensor of a dtype, with the sizes of another one and the strides of a copy that keeps its layout.
pub(crate) fn allocate_like(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.is_dense_cpu() {
        let (fresh, _) = tensor.empty_like_dense(dtype)?;
        // Dimensions of size 1 may have any stride.
        if fresh.strides() == tensor.strides() {
            return Ok(fresh.into());
        }
    }
    let strides = super::layout::preserved_strides(tensor);
    allocate(&tensor.sizes(), Some(&strides), dtype, tensor.device())
}

/// A copy in another dtype, with the same order of dimensions.
fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    let copy = allocate_like(tensor, dtype)?;
    copy_dense(&copy, tensor)?;
    Ok(copy)
}

/// Copies values without recording anything and without touching versions.
pub(crate) fn copy_dense(to: &Tensor, from: &Tensor) -> Result<()> {
    if to.copy_block_from(from)? {
        return Ok(());
    }
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(to, from, false)?;
    Ok(())
}
