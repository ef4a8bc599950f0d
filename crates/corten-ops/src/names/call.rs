//! What a rule sees of a call.

use crate::Tensor;
use crate::boxed::{IValue, Stack};
use crate::registry::AnyOp;
use corten_core::{DimName, Result, bug, geometry};

/// A call: the operator and its arguments.
///
/// ```
/// use corten::ops::names::{Call, Inferred};
///
/// /// A rule: results have the names of the first tensor.
/// fn keep(call: &Call<'_>) -> corten::Result<Inferred> {
///     let names = call.inputs().first().and_then(|tensor| tensor.extra_meta()?.names);
///     Ok(names.map_or(Inferred::Unnamed, |names| Inferred::All(names.to_vec())))
/// }
/// let _: fn(&Call<'_>) -> corten::Result<Inferred> = keep;
/// ```
pub struct Call<'a> {
    op: &'static dyn AnyOp,
    stack: &'a Stack,
}

impl<'a> Call<'a> {
    pub(super) fn new(op: &'static dyn AnyOp, stack: &'a Stack) -> Self {
        Self { op, stack }
    }

    /// The argument of this name.
    pub fn value(&self, name: &str) -> Option<&'a IValue> {
        let position = self.op.schema().arguments.iter().position(|arg| arg.name == name)?;
        self.stack.get(position)
    }

    /// The tensors that are computed with, in the order of the arguments.
    pub fn inputs(&self) -> Vec<&'a Tensor> {
        let mut found = Vec::new();
        for (argument, value) in self.op.schema().arguments.iter().zip(self.stack.iter()) {
            if argument.kwarg_only && argument.is_written() {
                continue;
            }
            match value {
                IValue::Tensor(tensor) => found.push(tensor),
                IValue::TensorList(list) => found.extend(list),
                IValue::OptionalTensorList(list) => found.extend(list.iter().flatten()),
                _ => {}
            }
        }
        found.retain(|tensor| tensor.defined());
        found
    }

    /// The first of them.
    ///
    /// # Errors
    /// `Internal` where there is none.
    pub fn first(&self) -> Result<&'a Tensor> {
        match self.inputs().first() {
            Some(tensor) => Ok(tensor),
            None => bug!("{}: a rule for names needs a tensor", self.op.def().name),
        }
    }

    /// The first input and its names.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn first_named(&self) -> Result<(&'a Tensor, Vec<DimName>)> {
        let tensor = self.first()?;
        Ok((tensor, tensor.dim_names()))
    }

    /// Whether a truth value is given and true.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Some(IValue::Bool(true)))
    }

    /// The dimensions that an argument lists, counted from the front; `None` where it is absent.
    ///
    /// # Errors
    /// `Index` for a dimension out of range.
    pub fn dims(&self, name: &str, rank: usize) -> Result<Option<Vec<usize>>> {
        let given = match self.value(name) {
            Some(IValue::Int(dim)) => std::slice::from_ref(dim),
            Some(IValue::IntList(dims)) => dims,
            _ => return Ok(None),
        };
        given.iter().map(|dim| geometry::wrap_dim(*dim, rank)).collect::<Result<_>>().map(Some)
    }

    /// The one dimension that an argument gives.
    ///
    /// # Errors
    /// `Index` for a dimension out of range, `Internal` where the argument is absent.
    pub fn dim(&self, name: &str, rank: usize) -> Result<usize> {
        match self.dims(name, rank)?.as_deref() {
            Some([dim]) => Ok(*dim),
            _ => bug!("{}: the rule for names needs the argument {name}", self.op.def().name),
        }
    }
}
