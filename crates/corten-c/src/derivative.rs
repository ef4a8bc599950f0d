//! Derivatives that C gives to whole operators.

use crate::function::Handles;
use crate::kernels::{UserData, Values};
use crate::library::CortenDerivative;
use crate::status::check_callback;
use corten::autograd::function::{Context, Function, apply};
use corten::core::{BelowADInplaceOrViewGuard, bail};
use corten::ops::schema::{BaseType, Type};
use corten::ops::{BoxedCall, IValue, Stack, registry, replace_tensors};
use corten::{Result, Tensor};
use std::sync::Arc;

/// The kernel at the autograd key of an operator with a derivative written in C.
///
/// # Errors
/// `Runtime` when there is no such operator, `NotImplemented` where it writes to an argument or returns something
/// else than new tensors.
pub(crate) fn derivative(
    name: &str,
    backward: CortenDerivative,
    user: UserData,
) -> Result<impl Fn(&BoxedCall, &mut Stack) -> Result<()> + Send + Sync + 'static> {
    let Some(op) = registry::find(name) else { bail!(Runtime, "operator {name} does not exist") };
    let schema = op.schema();
    let tensors_only =
        schema.returns.iter().all(|one| *one.ty.bare() == Type::Base(BaseType::Tensor));
    if !tensors_only || schema.arguments.iter().any(|argument| argument.is_aliased()) {
        bail!(
            NotImplemented,
            "{name}: only operators that return new tensors and nothing else can be given a derivative"
        );
    }
    let user = Arc::new(user);
    Ok(move |call: &BoxedCall, stack: &mut Stack| {
        let mut arguments = std::mem::take(stack);
        let inputs = take_tensors(&mut arguments)?;
        let name = call.op().def().name.to_owned();
        let user = Arc::clone(&user);
        let derived = Derived { call: call.clone(), name, arguments, backward, user };
        *stack = apply(derived, &inputs)?.into_iter().map(IValue::Tensor).collect();
        Ok(())
    })
}

/// Takes the tensors out of a stack, in order.
fn take_tensors(stack: &mut Stack) -> Result<Vec<Tensor>> {
    let mut found = Vec::new();
    for value in stack.iter_mut() {
        replace_tensors(value, &mut |tensor| {
            found.push(tensor.clone());
            Ok(Tensor::undefined())
        })?;
    }
    Ok(found)
}

/// One call of an operator with a derivative written in C.
struct Derived {
    call: BoxedCall,
    name: String,
    /// The arguments without their tensors, which autograd saves.
    arguments: Stack,
    backward: CortenDerivative,
    user: Arc<UserData>,
}

impl Derived {
    /// The arguments with tensors in their places.
    fn arguments_with(&self, tensors: &[Tensor]) -> Result<Stack> {
        let mut stack = self.arguments.clone();
        let mut tensors = tensors.iter().cloned();
        for value in stack.iter_mut() {
            replace_tensors(value, &mut |_| Ok(tensors.next().unwrap_or_default()))?;
        }
        Ok(stack)
    }
}

impl Function for Derived {
    fn name(&self) -> &str {
        &self.name
    }

    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut stack = self.arguments_with(inputs)?;
        {
            let _below = BelowADInplaceOrViewGuard::new();
            self.call.op().call_boxed(&mut stack)?;
        }
        let outputs = take_tensors(&mut stack)?;
        let saved: Vec<Tensor> = inputs.iter().chain(&outputs).cloned().collect();
        ctx.save_for_backward(&saved);
        Ok(outputs)
    }

    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        let Some(backward) = self.backward else { bail!(Value, "a callback is null") };
        let saved = ctx.saved_tensors()?;
        let count = ctx.needs_input_grad().len();
        let Some((inputs, outputs)) = saved.split_at_checked(count) else {
            bail!(Internal, "{} saved tensors of {count} inputs", saved.len());
        };
        let arguments = Values::of(&self.arguments_with(inputs)?);
        let (outputs, grads) = (Handles::of(outputs), Handles::of(grads));
        let mut made = Handles::absent(count);
        // SAFETY: whoever registered the derivative promised that it can be called so.
        let status = unsafe {
            backward(
                self.user.data,
                arguments.as_ptr(),
                arguments.len(),
                outputs.as_ptr(),
                grads.as_ptr(),
                grads.len(),
                made.as_mut_ptr(),
                count,
            )
        };
        check_callback(&self.name, status)?;
        Ok(made.into_tensors())
    }
}
