//! Which overload of an operator a call in a formula means.

use super::Code;
use crate::registry::Registry;
use crate::rust::{Output, Signature, Ty, function_name};
use crate::schema::Schema;

/// Passes arguments to parameters one by one.
pub(super) fn pass_all(arguments: &[Code], parameters: &[Ty]) -> Option<Vec<String>> {
    if arguments.len() != parameters.len() {
        return None;
    }
    let pass = |(argument, ty): (&Code, &Ty)| argument.coerced(*ty).map(|passed| passed.0);
    arguments.iter().zip(parameters).map(pass).collect()
}

/// The message for arguments that fit no parameters.
pub(super) fn no_fit(name: &str, arguments: &[Code]) -> String {
    let given: Vec<String> = arguments.iter().map(Code::describe).collect();
    format!("`{name}` cannot be called with ({})", given.join(", "))
}

/// The function to call, the arguments to pass (defaults filled in) and what it returns.
pub(super) fn resolve(
    registry: &Registry,
    name: &str,
    arguments: &[Code],
) -> Result<(String, Vec<String>, Output), String> {
    let name = name.strip_suffix('_').filter(|bare| *bare == "where").unwrap_or(name);
    let mut best: Option<(u32, &Schema, Vec<String>)> = None;
    let mut known = false;
    for op in registry.overloads(name).filter(|op| op.schema.is_functional()) {
        known = true;
        if let Some((cost, passed)) = fit(&op.schema, arguments)?
            && best.as_ref().is_none_or(|(least, ..)| cost < *least)
        {
            best = Some((cost, &op.schema, passed));
        }
    }
    match best {
        Some((_, schema, passed)) => Ok((function_name(schema), passed, Output::of(schema)?)),
        None if known => Err(no_fit(name, arguments)),
        None => Err(format!("`{name}` is neither a formula function nor an operator")),
    }
}

fn fit(schema: &Schema, arguments: &[Code]) -> Result<Option<(u32, Vec<String>)>, String> {
    let signature = Signature::of(schema)?;
    if arguments.len() > signature.parameters.len() {
        return Ok(None);
    }
    let (mut total, mut passed) = (0, Vec::new());
    for (i, parameter) in signature.parameters.iter().enumerate() {
        if let Some(argument) = arguments.get(i) {
            let Some((text, cost)) = argument.coerced(parameter.ty) else { return Ok(None) };
            total += cost;
            passed.push(text);
        } else {
            let declared = &schema.arguments[i];
            let Some(default) = &declared.default else { return Ok(None) };
            passed.push(crate::emit::default_value(default, &declared.ty)?);
        }
    }
    // Between overloads that fit equally, the one with fewer arguments left to their defaults.
    let filled = u32::try_from(signature.parameters.len() - arguments.len()).unwrap_or(u32::MAX);
    Ok(Some((total * 16 + filled, passed)))
}
