//! Kernels that are templates over dtypes, launched by name.

use crate::compile::{Key, Program, function};
use crate::launch::{Shape, launch};
use crate::stream::Stream;
use crate::text;
use corten_core::{DType, Result, not_implemented_for};
use std::ffi::c_void;

/// A template in the kernels' text.
pub(crate) struct Template {
    /// The template's name in namespace `ct`.
    pub(crate) name: &'static str,
    /// The texts that define it, after those of types and primitives.
    pub(crate) text: &'static [&'static str],
}

/// An argument of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// The type in which elements lie in memory.
    Storage(DType),
    /// The type in which they are computed with.
    Value(DType),
    /// A number.
    Number(u32),
}

impl Template {
    /// Launches an instantiation.
    ///
    /// # Safety
    /// The parameters must be those of the kernel, and memory that it uses must be held.
    ///
    /// # Errors
    /// Those of compiling and of the driver.
    pub(crate) unsafe fn launch(
        &'static self,
        arguments: &[Argument],
        shape: Shape,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Result<()> {
        let mut dtypes = [DType::Undefined; 6];
        let mut variant = 0_u32;
        let computed = arguments.iter().filter_map(|argument| match argument {
            Argument::Value(dtype) => Some(*dtype),
            _ => None,
        });
        refuse_stored_only(self.name, computed)?;
        for (place, argument) in arguments.iter().enumerate() {
            match argument {
                Argument::Storage(dtype) | Argument::Value(dtype) => dtypes[place] = *dtype,
                Argument::Number(number) => variant = variant << 8 | number,
            }
        }
        let operator = std::ptr::from_ref(self).addr();
        let key = Key { device: stream.device(), operator, dtypes, variant };
        let kernel = function(key, || {
            let named = arguments.iter().map(|argument| match argument {
                Argument::Storage(dtype) => text::storage_type(*dtype).to_owned(),
                Argument::Value(dtype) => text::value_type(*dtype).to_owned(),
                Argument::Number(number) => format!("{number}u"),
            });
            let named: Vec<String> = named.collect();
            let mut parts = vec![text::TYPES, text::MATH, text::POINTWISE];
            parts.extend(self.text);
            Program {
                text: parts,
                own: String::new(),
                expression: format!("ct::{}<{}>", self.name, named.join(", ")),
            }
        })?;
        // SAFETY: the caller's.
        unsafe { launch(kernel, shape, stream, parameters) }
    }
}

/// Refuses to compute with elements that are no numbers.
///
/// # Errors
/// `NotImplemented` for a dtype that is stored only.
pub(crate) fn refuse_stored_only(
    kernel: &str,
    mut dtypes: impl Iterator<Item = DType>,
) -> Result<()> {
    let is_stored_only = |dtype: &DType| !dtype.is_numeric() && *dtype != DType::Undefined;
    match dtypes.find(is_stored_only) {
        Some(dtype) => Err(not_implemented_for(kernel, dtype)),
        None => Ok(()),
    }
}

/// The addresses of variables, as a launch takes its parameters.
macro_rules! parameters {
    ($($variable:ident),+ $(,)?) => {
        &mut [$((&raw mut $variable).cast::<std::ffi::c_void>()),+]
    };
}
pub(crate) use parameters;
