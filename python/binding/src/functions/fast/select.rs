//! Which overload the parser takes for arguments of known exact types, found once per group.

use crate::args::{Param, ParamKind, Signature};

/// An argument whose exact type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// A tensor that overrides nothing.
    Tensor,
    Int,
    Float,
    Bool,
    None,
    /// A tuple or list of integers, perhaps empty.
    Ints,
    /// A tuple or list of tensors, not empty.
    Tensors,
}

/// Whether a parameter or a signature accepts what is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Yes,
    No,
    /// The value decides, or the check is not worth repeating here.
    Depends,
}

impl From<bool> for Verdict {
    fn from(accepted: bool) -> Self {
        if accepted { Self::Yes } else { Self::No }
    }
}

/// What the parser's check of the parameter says of such an argument.
fn verdict(param: &Param, given: Given) -> Verdict {
    use ParamKind as Kind;
    let is_list = matches!(
        param.kind,
        Kind::TensorList
            | Kind::OptionalTensorList
            | Kind::IntList
            | Kind::FloatList
            | Kind::BoolList
            | Kind::ScalarList
    );
    match (given, param.kind) {
        (_, Kind::Object | Kind::Stream | Kind::Device) => Verdict::Depends,
        (Given::None, _) => param.nullable.into(),
        (Given::Tensor, Kind::Tensor) => Verdict::Yes,
        (Given::Tensor, Kind::Scalar | Kind::Complex | Kind::Float | Kind::Int | Kind::IntList) => {
            Verdict::Depends
        }
        (Given::Tensor, _) => Verdict::No,
        (Given::Int | Given::Float | Given::Bool, Kind::Tensor) => param.numbers.into(),
        (Given::Int | Given::Float | Given::Bool, Kind::Scalar | Kind::Complex | Kind::Float) => {
            Verdict::Yes
        }
        (Given::Int, Kind::Int) | (Given::Bool, Kind::Bool) => Verdict::Yes,
        (Given::Int, Kind::IntList) => (param.count > 0).into(),
        (Given::Ints, Kind::IntList) | (Given::Tensors, Kind::TensorList) => Verdict::Yes,
        (Given::Ints | Given::Tensors, _) if is_list => Verdict::Depends,
        _ => Verdict::No,
    }
}

/// Whether all positional arguments of a signature may be one list of integers.
pub(super) fn collects(signature: &Signature) -> bool {
    signature.max_positional == 1 && signature.params[0].kind == ParamKind::IntList
}

/// Whether the parser binds the arguments to the signature.
fn fits(signature: &Signature, positional: &[Given], named: &[(&str, Given)]) -> Verdict {
    let params = &signature.params;
    let mut left = named.len();
    let mut all = Verdict::Yes;
    let collected = collects(signature) && positional.first() == Some(&Given::Int);
    if collected && positional.iter().any(|given| *given != Given::Int) {
        return Verdict::Depends;
    }
    let positional = if collected { &[Given::Ints][..] } else { positional };
    if positional.len() > signature.max_positional {
        return if collects(signature) { Verdict::Depends } else { Verdict::No };
    }
    for (index, param) in params.iter().enumerate() {
        let by_name =
            || named.iter().find(|(name, _)| *name == param.name).map(|(_, given)| *given);
        let given = positional.get(index).copied().or_else(|| {
            let found = by_name();
            left -= usize::from(found.is_some());
            found
        });
        let one = match given {
            Some(given) => verdict(param, given),
            None => param.optional.into(),
        };
        match one {
            Verdict::No => return Verdict::No,
            Verdict::Depends => all = Verdict::Depends,
            Verdict::Yes => {}
        }
    }
    if left > 0 { Verdict::No } else { all }
}

/// The first signature that accepts the arguments; nothing where none does, or where that depends on
/// their values.
pub(super) fn chosen(
    signatures: &[Signature],
    positional: &[Given],
    named: &[(&str, Given)],
) -> Option<usize> {
    for (index, signature) in signatures.iter().enumerate() {
        match fits(signature, positional, named) {
            Verdict::Yes => return Some(index),
            Verdict::Depends => return None,
            Verdict::No => {}
        }
    }
    None
}
