//! The rules that blocks of the registry name with `names = "…"`.

use super::{Call, Inferred, unify_from_right};
use crate::Tensor;
use crate::boxed::IValue;
use corten_core::{DimName, Result, ShownNames, bail, ensure};

mod product;

pub(crate) use product::{addmatmul, linear, matmul, outer};

fn all(names: Vec<DimName>) -> Result<Inferred> {
    Ok(Inferred::All(names))
}

/// As the operators that this one calls have rules, its own call passes the key.
pub(crate) fn parts(call: &Call<'_>) -> Result<Inferred> {
    keep(call)
}

/// The names of the first tensor.
pub(crate) fn keep(call: &Call<'_>) -> Result<Inferred> {
    all(call.first_named()?.1)
}

/// The names that a call of a factory gives, which are those of its output, if it has one.
pub(crate) fn given(call: &Call<'_>) -> Result<Inferred> {
    match call.value("out") {
        Some(IValue::Tensor(out)) => all(out.dim_names()),
        _ => Ok(Inferred::Unnamed),
    }
}

/// No names: the results have other dimensions, or none, or are no tensors.
pub(crate) fn drop(_call: &Call<'_>) -> Result<Inferred> {
    Ok(Inferred::Unnamed)
}

/// The names of all tensors, matched from the right.
pub(crate) fn unify(call: &Call<'_>) -> Result<Inferred> {
    all(unified(&call.inputs())?)
}

pub(super) fn unified(tensors: &[&Tensor]) -> Result<Vec<DimName>> {
    let mut names = Vec::new();
    for tensor in tensors {
        names = unify_from_right(&names, &tensor.dim_names(), "broadcast")?;
    }
    Ok(names)
}

/// Without the reduced dimensions, which `keepdim` keeps; all are reduced where none is given.
pub(crate) fn reduce(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, names) = call.first_named()?;
    let dims = call.dims("dim", tensor.dim())?.filter(|dims| !dims.is_empty());
    match dims {
        _ if call.flag("keepdim") => all(names),
        None => Ok(Inferred::Unnamed),
        Some(dims) => all(without(names, &dims)),
    }
}

fn without(names: Vec<DimName>, dims: &[usize]) -> Vec<DimName> {
    let kept = names.into_iter().enumerate().filter(|(index, _)| !dims.contains(index));
    kept.map(|(_, name)| name).collect()
}

/// Without the dimension `dim`.
pub(crate) fn select(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, names) = call.first_named()?;
    all(without(names, &[call.dim("dim", tensor.dim())?]))
}

/// Without the dimensions of size 1, of `dim` or of all.
pub(crate) fn squeeze(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, names) = call.first_named()?;
    let sizes = tensor.sizes();
    let dims = call.dims("dim", sizes.len())?;
    let mut gone: Vec<usize> = (0..sizes.len()).filter(|dim| sizes[*dim] == 1).collect();
    gone.retain(|dim| dims.as_ref().is_none_or(|dims| dims.contains(dim)));
    all(without(names, &gone))
}

/// With an unnamed dimension at `dim`.
pub(crate) fn unsqueeze(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, mut names) = call.first_named()?;
    names.insert(call.dim("dim", tensor.dim() + 1)?, None);
    all(names)
}

/// The names of all tensors, which must match, and an unnamed dimension at `dim`.
pub(crate) fn stack(call: &Call<'_>) -> Result<Inferred> {
    let mut names = unified(&call.inputs())?;
    names.insert(call.dim("dim", names.len() + 1)?, None);
    all(names)
}

/// The names of all tensors, which must match; empty ones of old programs are left out.
pub(crate) fn cat(call: &Call<'_>) -> Result<Inferred> {
    let mut tensors = call.inputs();
    tensors.retain(|tensor| tensor.sizes().as_slice() != [0]);
    all(unified(&tensors)?)
}

/// With two dimensions exchanged: `dim0` and `dim1`, or `axis0` and `axis1`.
pub(crate) fn transpose(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, mut names) = call.first_named()?;
    let letter = if call.value("dim0").is_some() { "dim" } else { "axis" };
    let place = |which: usize| call.dim(&format!("{letter}{which}"), tensor.dim());
    let (a, b) = (place(0)?, place(1)?);
    if !names.is_empty() {
        names.swap(a, b);
    }
    all(names)
}

/// With the last two dimensions exchanged, where there are so many.
pub(crate) fn adjoint(call: &Call<'_>) -> Result<Inferred> {
    let (_, mut names) = call.first_named()?;
    if let [.., a, b] = &mut names[..] {
        std::mem::swap(a, b);
    }
    all(names)
}

/// With the dimensions in the order of `dims`.
pub(crate) fn permute(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, names) = call.first_named()?;
    let order = call.dims("dims", tensor.dim())?.unwrap_or_default();
    // The operator refuses an order that is none.
    all(order.iter().filter_map(|dim| names.get(*dim).cloned()).collect())
}

/// With the dimensions from the last to the first.
pub(crate) fn reverse(call: &Call<'_>) -> Result<Inferred> {
    let (_, mut names) = call.first_named()?;
    names.reverse();
    all(names)
}

/// With unnamed dimensions in front, up to the length of `size`.
pub(crate) fn expand(call: &Call<'_>) -> Result<Inferred> {
    let (_, names) = call.first_named()?;
    let rank = match call.value("size") {
        Some(IValue::IntList(sizes)) => sizes.len(),
        _ => names.len(),
    };
    // Bounded: dimensions.
    let mut expanded = vec![None; rank.saturating_sub(names.len())];
    expanded.extend(names);
    all(expanded)
}

/// With an unnamed dimension in the place of several.
pub(crate) fn flatten(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, mut names) = call.first_named()?;
    if names.is_empty() {
        return Ok(Inferred::Unnamed);
    }
    let (start, end) = (call.dim("start_dim", tensor.dim())?, call.dim("end_dim", tensor.dim())?);
    if start < end {
        names.splice(start..=end, [None]);
    }
    all(names)
}

/// None: names of the new dimensions must be given.
pub(crate) fn unflatten(_call: &Call<'_>) -> Result<Inferred> {
    bail!(
        Runtime,
        "unflatten: input is a named tensor but no names were given for unflattened sizes"
    )
}

/// Without `dim1` and `dim2`, and with an unnamed dimension behind.
pub(crate) fn diagonal(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, names) = call.first_named()?;
    let rank = tensor.dim();
    let mut names = without(names, &[call.dim("dim1", rank)?, call.dim("dim2", rank)?]);
    names.push(None);
    all(names)
}

/// With an unnamed dimension behind.
pub(crate) fn append(call: &Call<'_>) -> Result<Inferred> {
    let (_, mut names) = call.first_named()?;
    names.push(None);
    all(names)
}

/// Without the last dimension.
pub(crate) fn drop_last(call: &Call<'_>) -> Result<Inferred> {
    let (_, mut names) = call.first_named()?;
    names.pop();
    all(names)
}

/// The names of all tensors must match; the result has one dimension without a name.
pub(crate) fn masked_select(call: &Call<'_>) -> Result<Inferred> {
    unified(&call.inputs())?;
    Ok(Inferred::Unnamed)
}

/// No tensor: tensors whose names differ are not equal.
pub(crate) fn equal(call: &Call<'_>) -> Result<Inferred> {
    let inputs = call.inputs();
    let same = inputs.windows(2).all(|pair| pair[0].dim_names() == pair[1].dim_names());
    Ok(if same { Inferred::Unnamed } else { Inferred::Answer(false) })
}

/// Those that the tensor has: only to the size that it has.
pub(crate) fn resize(call: &Call<'_>) -> Result<Inferred> {
    let (tensor, names) = call.first_named()?;
    let wanted = match (call.value("size"), call.value("the_template")) {
        (Some(IValue::IntList(sizes)), _) => sizes.clone(),
        (_, Some(IValue::Tensor(template))) => template.sizes(),
        _ => tensor.sizes(),
    };
    let own = tensor.sizes();
    ensure!(
        !tensor.has_names() || own == wanted,
        Runtime,
        "Cannot resize named tensor with resize_ or resize_as_ (tried to resize Tensor{} with size \
         {own:?} to {wanted:?}). This may be caused by passing a named tensor as an `out=` argument; \
         please ensure that the sizes are the same. ",
        ShownNames(&names)
    );
    // A tensor that has no names gets none from its template.
    Ok(if tensor.has_names() { Inferred::All(names) } else { Inferred::Unnamed })
}
