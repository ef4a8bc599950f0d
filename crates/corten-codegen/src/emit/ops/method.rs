//! The methods of `Tensor`.

use crate::emit::default_value;
use crate::registry::{Form, Op, Registry};
use crate::rust::{Base, Parameter, Shape, Signature, function_name, identifier};
use crate::schema::Schema;

/// The overloads that take the bare name, in order of preference.
const PLAIN: [&str; 5] = ["", "Tensor", "self", "int", "Tensor_Tensor"];

/// A method with the required arguments, and where there are defaults one with all.
pub(super) fn method(
    registry: &Registry,
    op: &Op,
    form: Form,
    schema: &Schema,
    signature: &Signature,
) -> Result<String, String> {
    let this = signature
        .parameters
        .iter()
        .position(|p| p.name == "self_" && p.ty.base == Base::Tensor && p.ty.shape == Shape::One);
    let Some(this) = this else {
        return Err("variants: a method needs an argument `Tensor self`".to_owned());
    };
    let name = method_name(registry, op, form);
    let call = Call { this, schema, signature };
    let required = |i: usize| schema.arguments[i].default.is_none();
    let doc = format!(" {}", op.doc);
    let mut text = format!("#[doc = {doc:?}]\n{}", call.method(&name, &required)?);
    if (0..signature.parameters.len()).any(|i| !required(i)) {
        let doc = format!(" [`{name}`](Self::{name}) with all arguments.");
        let full = match name.strip_suffix('_') {
            Some(stem) => format!("{stem}_with_"),
            None => format!("{name}_with"),
        };
        text.push_str(&format!("#[doc = {doc:?}]\n{}", call.method(&full, &|_| true)?));
    }
    Ok(text)
}

struct Call<'a> {
    this: usize,
    schema: &'a Schema,
    signature: &'a Signature,
}

impl Call<'_> {
    fn method(&self, name: &str, given: &dyn Fn(usize) -> bool) -> Result<String, String> {
        let mut declared = vec!["&self".to_owned()];
        let mut passed = Vec::new();
        for (i, parameter) in self.signature.parameters.iter().enumerate() {
            if i == self.this {
                passed.push("self".to_owned());
            } else if given(i) {
                let (ty, pass) = convenient(parameter);
                declared.push(format!("{}: {ty}", parameter.name));
                passed.push(pass);
            } else {
                let argument = &self.schema.arguments[i];
                let default = argument.default.as_ref().map(|v| default_value(v, &argument.ty));
                passed.push(default.unwrap_or_else(|| Err("no default".to_owned()))?);
            }
        }
        Ok(format!(
            "pub fn {name}({}) -> Result<{}> {{ op::{}({}) }}",
            declared.join(", "),
            self.signature.output.rust(),
            function_name(self.schema),
            passed.join(", ")
        ))
    }
}

/// Numbers are taken in any type.
fn convenient(parameter: &Parameter) -> (String, String) {
    let name = &parameter.name;
    match (parameter.ty.base, parameter.ty.shape) {
        (Base::Scalar, Shape::One) => ("impl Into<Scalar>".to_owned(), format!("{name}.into()")),
        _ => (parameter.ty.parameter(), name.clone()),
    }
}

fn method_name(registry: &Registry, op: &Op, form: Form) -> String {
    let declared = match &op.rust {
        Some(name) => name.clone(),
        None => derived_name(registry, op),
    };
    match form {
        Form::Inplace => format!("{}_", declared.trim_end_matches('_')),
        _ => identifier(&declared),
    }
}

fn derived_name(registry: &Registry, op: &Op) -> String {
    let name = &op.schema.name;
    let others: Vec<&Op> = registry
        .overloads(name)
        .filter(|other| other.variants.method && other.rust.is_none())
        .collect();
    let plain = |overload: &&&str| others.iter().any(|other| other.schema.overload == **overload);
    let taken = registry.overloads(name).any(|other| other.rust.as_ref() == Some(name));
    let bare = match PLAIN.iter().find(plain) {
        _ if taken => false,
        Some(overload) => op.schema.overload == **overload,
        None => others.len() == 1,
    };
    if bare {
        return name.to_ascii_lowercase();
    }
    // `fill_.Scalar` is `fill_scalar_`: the underscore of an in-place name stays last.
    let (stem, end) = match op.schema.is_inplace_name() {
        true => (name.trim_end_matches('_'), "_"),
        false => (name.as_str(), ""),
    };
    format!("{stem}_{}{end}", op.schema.overload.to_ascii_lowercase())
}
