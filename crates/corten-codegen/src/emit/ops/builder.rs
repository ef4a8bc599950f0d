//! Builders of calls: the optional arguments of an operator by name.

use crate::emit::default_value;
use crate::registry::Op;
use crate::rust::{Base, Parameter, Shape, Signature, camel, function_name};
use crate::schema::Schema;

/// From how many optional arguments on an operator has a builder.
const LEAST_OPTIONAL: usize = 3;

/// The setter of a factory's names of dimensions.
const NAMES: &str = "\
/// Names the dimensions.
#[inline]
pub fn names(mut self, names: &'a [&'a str]) -> Self {
    self.names = Some(names);
    self
}
";

/// The builder of an overload: a struct of all arguments, a function that takes the required ones, a method for
/// each of the others, and `call`. None for operators that programs do not call or that have few optional
/// arguments.
pub(super) fn builder(
    op: &Op,
    schema: &Schema,
    signature: &Signature,
) -> Result<Option<String>, String> {
    if !has_builder(op, schema, signature) {
        return Ok(None);
    }
    let (name, function) = (camel(&function_name(schema)), function_name(schema));
    let types: Vec<String> = signature.parameters.iter().map(owned_type).collect();
    let lifetime = if types.iter().any(|ty| ty.contains('\'')) { "<'a>" } else { "" };
    let (mut fields, mut given, mut started, mut setters) =
        (String::new(), Vec::new(), Vec::new(), String::new());
    for (i, parameter) in signature.parameters.iter().enumerate() {
        let (argument, ty) = (&parameter.name, &types[i]);
        fields.push_str(&format!("{argument}: {ty},"));
        match &schema.arguments[i].default {
            None if ty == "Scalar" => {
                given.push(format!("{argument}: impl Into<Scalar>"));
                started.push(format!("{argument}: {argument}.into()"));
            }
            None => {
                given.push(format!("{argument}: {ty}"));
                started.push(argument.clone());
            }
            Some(value) => {
                let value = default_value(value, &schema.arguments[i].ty)?;
                started.push(format!("{argument}: {value}"));
                setters.push_str(&setter(parameter, ty));
            }
        }
    }
    if takes_names(op) {
        fields.push_str("names: Option<&'a [&'a str]>,");
        started.push("names: None".to_owned());
        setters.push_str(NAMES);
    }
    Ok(Some(format!(
        "#[doc = {doc:?}]
        #[derive(Clone, Copy)]
        #[must_use = \"nothing is computed before `call`\"]
        pub struct {name}{lifetime} {{ {fields} }}

        #[doc = {start:?}]
        #[inline]
        pub fn {function}{lifetime}({given}) -> {name}{lifetime} {{ {name} {{ {started} }} }}

        impl{lifetime} {name}{lifetime} {{
            {setters}

            /// Calls the operator.
            ///
            /// # Errors
            /// Those of its kernel.
            #[inline]
            pub fn call(self) -> Result<{output}> {{ {call} }}
        }}",
        doc = format!(" The arguments of [`{function}`](op::{function})."),
        start = format!(" {} The optional arguments have their defaults.", op.doc),
        given = given.join(", "),
        started = started.join(", "),
        output = signature.output.rust(),
        call = call(op, &function, signature),
    )))
}

fn has_builder(op: &Op, schema: &Schema, signature: &Signature) -> bool {
    let optional = |i: &usize| schema.arguments[*i].default.is_some();
    let is_called = op.variants.function || op.variants.method;
    let is_public = is_called && !schema.name.starts_with('_') && !schema.is_inplace_name();
    is_public && (0..signature.parameters.len()).filter(optional).count() >= LEAST_OPTIONAL
}

/// Whether a call gives names of dimensions.
fn takes_names(op: &Op) -> bool {
    op.names.as_deref() == Some("given")
}

/// The call of the operator, whose result gets the names that are given.
fn call(op: &Op, function: &str, signature: &Signature) -> String {
    let passed: Vec<String> =
        signature.parameters.iter().map(|parameter| format!("self.{}", parameter.name)).collect();
    let call = format!("op::{function}({})", passed.join(", "));
    if !takes_names(op) {
        return call;
    }
    format!("match self.names {{ Some(names) => {call}?.with_names(names), None => {call} }}")
}

/// The type of a field: references live as long as the builder.
fn owned_type(parameter: &Parameter) -> String {
    parameter.ty.parameter().replace('&', "&'a ")
}

fn setter(parameter: &Parameter, ty: &str) -> String {
    let name = &parameter.name;
    let optional = matches!(parameter.ty.shape, Shape::Optional | Shape::OptionalList);
    let inner = match optional {
        true => ty.trim_start_matches("Option<").trim_end_matches('>'),
        false => ty,
    };
    let (taken, mut value) = match parameter.ty.base {
        Base::Scalar if inner == "Scalar" => ("impl Into<Scalar>", format!("{name}.into()")),
        _ => (inner, name.clone()),
    };
    if optional {
        value = format!("Some({value})");
    }
    format!(
        "#[doc = {doc:?}]
        #[inline]
        pub fn {name}(mut self, {name}: {taken}) -> Self {{
            self.{name} = {value};
            self
        }}\n",
        doc = format!(" Sets `{}`.", name.trim_start_matches("r#")),
    )
}
