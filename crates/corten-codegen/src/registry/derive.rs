//! In-place and out forms, by the rules that PyTorch follows for most operators.

use super::irregular;
use crate::schema::{Alias, Argument, Return, Schema, Type};

fn written(set: usize) -> Alias {
    let letter = char::from(b'a' + u8::try_from(set % 26).unwrap_or(0));
    Alias { before: vec![letter.to_string()], write: true, after: None }
}

fn aliased(ty: &Type, set: usize) -> Type {
    Type::Aliased(Box::new(ty.without_alias()), written(set))
}

/// The in-place form: `self` is written and returned.
///
/// # Errors
/// When there is no `self` or not exactly one result.
pub fn inplace_of(schema: &Schema) -> Result<Schema, String> {
    let mut derived = schema.clone();
    let position = schema.arguments.iter().position(|a| a.name == "self" && a.ty.is_tensor());
    // Dropout calls it `input` and renames it in the in-place form.
    let input = || schema.arguments.first().filter(|a| a.name == "input" && a.ty.is_tensor());
    let Some(position) = position.or_else(|| input().map(|_| 0)) else {
        return Err("no in-place form: there is no argument `Tensor self`".to_owned());
    };
    if schema.returns.len() != 1 || !schema.returns[0].ty.is_tensor() {
        return Err("no in-place form: it must return one tensor".to_owned());
    }
    for argument in &mut derived.arguments {
        argument.ty = argument.ty.without_alias();
    }
    let this = &mut derived.arguments[position];
    this.ty = aliased(&this.ty, 0);
    this.name = "self".to_owned();
    derived.returns = vec![Return { name: None, ty: this.ty.clone() }];
    derived.name.push('_');
    if let Some(overload) = irregular::inplace(&schema.full_name()) {
        derived.overload = overload.to_owned();
    }
    Ok(derived)
}

/// The schema of the operator that copies what a view operator shows.
///
/// # Errors
/// When the operator is no view.
pub(super) fn copy_of(schema: &Schema) -> Result<Schema, String> {
    if schema.viewed().is_none() {
        return Err("no copy: it is no view".to_owned());
    }
    let mut derived = schema.clone();
    derived.name.push_str("_copy");
    for argument in &mut derived.arguments {
        argument.ty = argument.ty.without_alias();
    }
    for result in &mut derived.returns {
        result.ty = result.ty.without_alias();
    }
    Ok(derived)
}

/// The out form: keyword-only results at the end, written and returned.
///
/// # Errors
/// When something else than tensors is returned.
pub fn out_of(schema: &Schema) -> Result<Schema, String> {
    if schema.returns.is_empty() || !schema.returns.iter().all(|r| r.ty.is_tensor()) {
        return Err("no out form: it must return tensors".to_owned());
    }
    let (overload, names) = match irregular::out(&schema.full_name()) {
        Some((overload, names)) => (overload.to_owned(), names),
        None => (regular_overload(schema), regular_names(schema)),
    };
    let mut derived = Schema { overload, ..schema.clone() };
    for argument in &mut derived.arguments {
        argument.ty = argument.ty.without_alias();
    }
    drop_factory_options(&mut derived.arguments);
    derived.returns.clear();
    for (i, (result, name)) in schema.returns.iter().zip(&names).enumerate() {
        let ty = aliased(&result.ty, i);
        derived.returns.push(Return { name: result.name.clone(), ty: ty.clone() });
        let (name, default) = (name.clone(), None);
        derived.arguments.push(Argument { name, ty, default, kwarg_only: true });
    }
    if let [one] = &mut derived.returns[..] {
        one.name = None;
    }
    Ok(derived)
}

/// The results say themselves what dtype and device they have.
fn drop_factory_options(arguments: &mut Vec<Argument>) {
    const OPTIONS: [&str; 4] = ["dtype", "layout", "device", "pin_memory"];
    if OPTIONS.iter().all(|name| arguments.iter().any(|a| a.name == *name)) {
        arguments.retain(|a| !OPTIONS.contains(&a.name.as_str()));
    }
}

fn is_gradient(schema: &Schema) -> bool {
    schema.name.ends_with("_backward") && schema.overload.is_empty() && schema.returns.len() == 1
}

fn regular_names(schema: &Schema) -> Vec<String> {
    let named = |r: &Return| r.name.clone();
    match &schema.returns[..] {
        [_] if is_gradient(schema) => vec!["grad_input".to_owned()],
        [_] => vec!["out".to_owned()],
        several => match several.iter().map(named).collect() {
            Some(names) => names,
            None => (0..several.len()).map(|i| format!("out{i}")).collect(),
        },
    }
}

fn regular_overload(schema: &Schema) -> String {
    if is_gradient(schema) {
        return "grad_input".to_owned();
    }
    let several = schema.returns.len() > 1 && schema.returns[0].name.is_some();
    let algebra = schema.name.starts_with("linalg_") || schema.name.starts_with("lu_");
    let last = match &schema.returns[0].name {
        Some(name) if several && !(algebra && schema.overload.is_empty()) => name.as_str(),
        _ => "out",
    };
    match schema.overload.as_str() {
        "" => last.to_owned(),
        overload => format!("{overload}_{last}"),
    }
}

/// For the overload of `base` that takes numbers in place of some tensors: which arguments must
/// be wrapped. `None` when the schemas do not correspond.
pub(super) fn wrapped_arguments(numbers: &Schema, base: &Schema) -> Option<Vec<bool>> {
    if numbers.arguments.len() != base.arguments.len() || numbers.overload == base.overload {
        return None;
    }
    let wrapped = |(number, tensor): (&Argument, &Argument)| {
        if number.ty.without_alias() == tensor.ty.without_alias() {
            return Some(false);
        }
        let scalar = Type::Base(crate::schema::BaseType::Scalar);
        (*number.ty.bare() == scalar && tensor.ty.is_tensor()).then_some(true)
    };
    let flags: Option<Vec<bool>> =
        numbers.arguments.iter().zip(&base.arguments).map(wrapped).collect();
    flags.filter(|flags| flags.contains(&true))
}
