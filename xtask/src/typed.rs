//! `corten_ops.h`: a typed function of C for every overload, over calls by name.
//!
//! The functions are `static inline`: they add nothing to the ABI, and one that a program does not call costs
//! nothing. A value that may be absent is a pointer, or a number below zero where it is an enumerator.

use corten_codegen::registry::{Op, Registry};
use corten_codegen::rust::function_name;
use corten_codegen::schema::{Argument, BaseType, Schema, Type};
use std::fmt::Write as _;

const TOP: &str = include_str!("header/ops_top.h");

/// Words of C and C++ that arguments are named by.
const KEYWORDS: &[&str] =
    &["auto", "default", "double", "float", "int", "long", "new", "register", "template", "this"];

/// The header with a function for every overload of the registry.
pub(crate) fn header(registry: &Registry) -> String {
    let mut text = TOP.to_owned();
    for op in &registry.ops {
        for (_, schema) in op.forms() {
            function(op, schema, &mut text);
        }
    }
    text.push_str("\n#endif /* CORTEN_OPS_H */\n");
    text
}

/// How an argument is declared, and the value that it becomes.
struct Parameter {
    declared: String,
    value: String,
}

fn parameter(argument: &Argument) -> Parameter {
    let name = match KEYWORDS.contains(&argument.name.as_str()) {
        true => format!("{}_", argument.name),
        false => argument.name.clone(),
    };
    let (ty, optional) = match argument.ty.bare() {
        Type::Optional(inner) => (inner.bare(), true),
        ty => (ty, false),
    };
    let simple = |ty: &str, function: &str| {
        let star = if ty.ends_with('*') { "" } else { " " };
        Parameter { declared: format!("{ty}{star}{name}"), value: format!("{function}({name})") }
    };
    let list = |element: &str, function: &str| {
        let star = if element.ends_with('*') { "const *" } else { " *" };
        let (element, constant) = match element.ends_with('*') {
            true => (element, ""),
            false => (element, "const "),
        };
        Parameter {
            declared: format!("{constant}{element}{star}{name}, size_t n_{name}"),
            value: match optional {
                true => format!("corten_maybe_list({function}({name}, n_{name}))"),
                false => format!("{function}({name}, n_{name})"),
            },
        }
    };
    match ty {
        Type::Base(base) => match (base, optional) {
            (BaseType::Tensor, false) => simple("CortenTensor *", "corten_of_tensor"),
            (BaseType::Tensor, true) => simple("CortenTensor *", "corten_maybe_tensor"),
            (BaseType::Int | BaseType::SymInt, false) => simple("int64_t", "corten_of_int"),
            (BaseType::Int | BaseType::SymInt, true) => {
                simple("const int64_t *", "corten_maybe_int")
            }
            (BaseType::Float, false) => simple("double", "corten_of_double"),
            (BaseType::Float, true) => simple("const double *", "corten_maybe_double"),
            (BaseType::Bool, false) => simple("bool", "corten_of_bool"),
            (BaseType::Bool, true) => simple("const bool *", "corten_maybe_bool"),
            (BaseType::Str, _) => simple("const char *", "corten_maybe_string"),
            (BaseType::Device, false) => simple("CortenDevice", "corten_of_device"),
            (BaseType::Device, true) => simple("const CortenDevice *", "corten_maybe_device"),
            (BaseType::ScalarType, _) => simple("CortenDType", "corten_maybe_dtype"),
            (BaseType::Layout, _) => simple("int32_t", "corten_maybe_layout"),
            (BaseType::MemoryFormat, _) => simple("int32_t", "corten_maybe_memory_format"),
            (BaseType::Generator, _) => simple("CortenGenerator *", "corten_maybe_generator"),
            _ => Parameter { declared: format!("CortenValue {name}"), value: name },
        },
        Type::List(element, _) => match element.unwrap_optional().unwrap_or(element).bare() {
            Type::Base(BaseType::Tensor) => match element.unwrap_optional() {
                Some(_) => list("CortenTensor *", "corten_of_optional_tensors"),
                None => list("CortenTensor *", "corten_of_tensors"),
            },
            Type::Base(BaseType::Int | BaseType::SymInt) => list("int64_t", "corten_of_ints"),
            Type::Base(BaseType::Float) => list("double", "corten_of_doubles"),
            Type::Base(BaseType::Bool) => list("bool", "corten_of_bools"),
            Type::Base(BaseType::Scalar) => list("CortenValue", "corten_of_scalars"),
            _ => Parameter { declared: format!("CortenValue {name}"), value: name },
        },
        _ => Parameter { declared: format!("CortenValue {name}"), value: name },
    }
}

/// The type of a result, and where it stands in a value; values that own lists are handed out as they are.
fn result(ty: &Type) -> (&'static str, &'static str) {
    match ty.bare() {
        Type::Base(BaseType::Tensor) => ("CortenTensor *", ".u.tensor"),
        Type::Base(BaseType::Int | BaseType::SymInt) => ("int64_t ", ".u.integer"),
        Type::Base(BaseType::Float) => ("double ", ".u.number"),
        Type::Base(BaseType::Bool) => ("bool ", ".u.boolean"),
        Type::Base(BaseType::ScalarType) => ("CortenDType ", ".u.code"),
        _ => ("CortenValue ", ""),
    }
}

fn function(op: &Op, schema: &Schema, text: &mut String) {
    let parameters: Vec<Parameter> = schema.arguments.iter().map(parameter).collect();
    let mut declared: Vec<String> =
        parameters.iter().map(|parameter| parameter.declared.clone()).collect();
    let several = schema.returns.len() > 1;
    for (index, one) in schema.returns.iter().enumerate() {
        let (ty, _) = result(&one.ty);
        let name = if several { format!("result{index}") } else { "result".to_owned() };
        declared.push(format!("{ty}*{name}"));
    }
    if declared.is_empty() {
        declared.push("void".to_owned());
    }
    let name = function_name(schema);
    let (base, overload) = (&schema.name, &schema.overload);
    let called = format!("\"{}::{base}\", \"{overload}\"", op.namespace);
    let _ = writeln!(text, "\n/* {}::{schema} */", op.namespace);
    let _ =
        writeln!(text, "static inline CortenStatus corten_op_{name}({}) {{", declared.join(", "));
    let inputs = if parameters.is_empty() { "NULL" } else { "inputs" };
    let count = parameters.len();
    if count > 0 {
        let values: Vec<&str> =
            parameters.iter().map(|parameter| parameter.value.as_str()).collect();
        let _ = writeln!(text, "    CortenValue inputs[{count}] = {{{}}};", values.join(", "));
    }
    match &schema.returns[..] {
        [] => {
            let _ =
                writeln!(text, "    return corten_call({called}, {inputs}, {count}, NULL, NULL);");
        }
        [one] if result(&one.ty).1 == ".u.tensor" => {
            let _ = writeln!(
                text,
                "    return corten_call_tensor({called}, {inputs}, {count}, result);"
            );
        }
        all => results(&called, inputs, count, all.iter().map(|one| &one.ty), text),
    }
    text.push_str("}\n");
}

fn results<'a>(
    called: &str,
    inputs: &str,
    count: usize,
    types: impl ExactSizeIterator<Item = &'a Type>,
    text: &mut String,
) {
    let several = types.len();
    let _ = writeln!(text, "    CortenValue outputs[{several}];");
    let _ = writeln!(text, "    size_t count = {several};");
    let _ = writeln!(
        text,
        "    CortenStatus status = corten_call({called}, {inputs}, {count}, outputs, &count);"
    );
    text.push_str("    if (status == CORTEN_OK) {\n");
    for (index, ty) in types.enumerate() {
        let place = if several > 1 { format!("result{index}") } else { "result".to_owned() };
        let _ = writeln!(text, "        *{place} = outputs[{index}]{};", result(ty).1);
    }
    text.push_str("    }\n    return status;\n");
}
