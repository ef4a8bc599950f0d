//! The file of corten-ops: statics, dispatching functions, kernels for every backend, methods.

use super::signatures::Signatures;
use super::{Generated, HEADER, Output, Piece, Section, indented};
use crate::formula::pointwise::scalars;
use crate::registry::{Autocast, Body, Form, Grad, MetaKernel, MetaRule, Op, Paths, Registry};
use crate::rust::{Base, Parameter, Shape, Signature, Ty, camel, function_name, static_name};
use crate::schema::Schema;

mod builder;
mod method;
mod sparse;

/// What the parts of the file see.
const PRELUDE: &str = "\
#[allow(unused_imports)]
mod prelude {
    pub(super) use crate::core::{
        Complex, DType, Device, Generator, Layout, MemoryFormat, Result, Scalar, Storage,
    };
    pub(super) use crate::meta::{Domain, Promote};
    pub(super) use crate::stub::{Stub, run1, run2, run3, run4};
    pub(super) use crate::{*, any, composite, derived, meta, quantized, shortcut, sparse};
    pub(super) use super::{kernel, op, sig, stubs};
}
#[allow(unused_imports)]
use prelude::*;

";

/// Generates the file.
pub fn ops(registry: &Registry) -> Generated {
    let (mut output, mut signatures) = (Output::default(), Signatures::default());
    let mut statics = Vec::new();
    for op in &registry.ops {
        let pieces = operator(registry, op);
        if pieces.is_ok() {
            signatures.extend(op.forms().flat_map(|(_, schema)| Signature::of(schema)));
            let kept = op.selected_forms().map(|(_, schema)| static_name(schema));
            statics.extend(kept.map(|name| format!("{name}.any()")));
        }
        output.add(op, pieces);
    }
    let all = format!(
        "/// Every overload, in the order of declaration.
        pub static OPS: &[&dyn AnyOp] = &[{}];",
        statics.join(", ")
    );
    let functions = format!("{}\n{}", output.items(Section::Op), super::formatted(&all));
    let text = [
        HEADER,
        PRELUDE,
        &module("The function types of the operators.", "pub mod sig", &signatures.items()),
        &module("The operators: functions and statics.", "pub mod op", &functions),
        &module("Calls whose optional arguments are given by name.", "pub mod build", &output.items(Section::Builder)),
        &module("The loops of iterators.", "pub mod stubs", &output.items(Section::Stubs)),
        &module("What runs everywhere.", "pub(crate) mod kernel", &output.items(Section::Kernel)),
        &format!("impl crate::Tensor {{\n{}}}\n\n", indented(&output.methods())),
        &output.register(
            "/// Registers what the meta device does where no iterator knows it, and functions at further keys.
            pub(crate) fn register()",
            "",
        ),
    ]
    .concat();
    output.finish(text)
}

fn module(doc: &str, head: &str, items: &str) -> String {
    let items = indented(&format!("#[allow(unused_imports)]\nuse super::prelude::*;\n\n{items}"));
    format!("/// {doc}\n{head} {{\n{items}}}\n\n")
}

impl Output {
    fn methods(&self) -> String {
        // Methods are no items of a file: formatted inside of an `impl`, then taken out of it.
        let mut text = String::new();
        for (title, piece) in self.pieces.iter().filter(|(_, piece)| piece.place == Section::Method)
        {
            let wrapped = super::formatted(&format!("impl T {{ {} }}", piece.code));
            let inner = wrapped.trim().trim_start_matches("impl T {").trim_end_matches('}');
            text.push_str(&format!("\n// {title}\n"));
            for line in inner.trim_matches('\n').lines() {
                text.push_str(line.strip_prefix("    ").unwrap_or(line));
                text.push('\n');
            }
        }
        text
    }
}

/// What is generated for one operator.
pub(super) fn operator(registry: &Registry, op: &Op) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    if op.is_iterator() {
        let (name, shown) = (static_name(&op.schema), op.schema.name.trim_end_matches('_'));
        let code = format!("pub static {name}: Stub = Stub::new({shown:?});");
        pieces.push(Piece { place: Section::Stubs, code });
    }
    for (form, schema) in op.forms() {
        let signature = Signature::of(schema)?;
        let left_out = op.left_out.contains(&form);
        let kernel = match left_out {
            true => Builtin::LeftOut,
            false => kernel(registry, op, form, schema, &signature)?,
        };
        let name = function_name(schema);
        let code =
            [declaration(op, form, schema, &signature, &kernel), function(op, schema, &signature)];
        pieces.push(Piece { place: Section::Op, code: code.join("\n") });
        if form == Form::Declared {
            let code = builder::builder(op, schema, &signature)?;
            pieces.extend(code.map(|code| Piece { place: Section::Builder, code }));
        }
        if let Builtin::Body(body) = kernel {
            let (declared, output) = (signature.declared(), signature.output.rust());
            let code = format!("pub(crate) fn {name}({declared}) -> Result<{output}> {{ {body} }}");
            pieces.push(Piece { place: Section::Kernel, code });
        }
        if (form, left_out) == (Form::Declared, false) {
            pieces.extend(op.any_at.iter().map(|(key, path)| {
                let name = static_name(schema);
                let code = format!("op::{name}.implement(Target::{key}, any::{path});");
                Piece { place: Section::Register, code }
            }));
        }
        if !left_out {
            pieces.extend(sparse::kernels(op, form, schema, &signature)?);
            pieces.extend(quantized(op, form, schema)?);
        }
        if let (Form::Declared, false, Some(path)) = (form, left_out, meta_function(op)) {
            let name = static_name(schema);
            let code = format!("op::{name}.implement(Target::Meta, meta::{path});");
            pieces.push(Piece { place: Section::Register, code });
        }
        if op.variants.method && form != Form::Out {
            let code = method::method(registry, op, form, schema, &signature)?;
            pieces.push(Piece { place: Section::Method, code });
        }
    }
    Ok(pieces)
}

/// The kernel of a form at the key of quantised tensors.
fn quantized(op: &Op, form: Form, schema: &Schema) -> Result<Option<Piece>, String> {
    let path = match form {
        Form::Declared => &op.quantized[0],
        Form::Inplace => &op.quantized[1],
        Form::Out => &op.quantized[2],
    };
    let path = match (path.as_deref(), &op.body) {
        (None, _) => return Ok(None),
        (Some("itself"), Body::Any(paths)) => {
            let own = match form {
                Form::Declared => Some(&paths.main),
                Form::Inplace => paths.inplace.as_ref(),
                Form::Out => paths.out.as_ref(),
            };
            format!("any::{}", own.ok_or("quantized: the form has no function of its own")?)
        }
        (Some("itself"), _) => return Err("quantized: `itself` needs a function `any`".to_owned()),
        (Some(path), _) => format!("quantized::{path}"),
    };
    let name = static_name(schema);
    let code = format!("op::{name}.implement(Target::QuantizedCPU, {path});");
    Ok(Some(Piece { place: Section::Register, code }))
}

/// The function that gives the result of a kernel without its data.
fn meta_function(op: &Op) -> Option<&String> {
    match &op.body {
        Body::Kernel { meta: Some(MetaKernel::Function(path)), .. } => Some(path),
        _ => None,
    }
}

/// What an overload does on every backend.
enum Builtin {
    /// Nothing: kernels come from backends.
    None,
    /// Nothing: a selective build leaves the overload out.
    LeftOut,
    /// A function of the same signature.
    Path(String),
    /// This body.
    Body(String),
}

/// How the static of an overload is made, with its last arguments.
fn constructor(op: &Op, path: Option<String>) -> (&'static str, String) {
    match (&op.body, path) {
        (_, None) => ("new", String::new()),
        (Body::Composite(_) | Body::WrapScalar, Some(path)) => ("implicit", format!(", {path}")),
        (Body::CopyOf(_), Some(path)) if matches!(op.grad, Grad::Composite) => {
            ("implicit", format!(", {path}"))
        }
        (_, Some(path)) if op.is_iterator() => {
            ("iterator", format!(", {path}, &stubs::{}", static_name(&op.schema)))
        }
        (_, Some(path)) => ("explicit", format!(", {path}")),
    }
}

/// The static of an overload.
fn declaration(
    op: &Op,
    form: Form,
    schema: &Schema,
    signature: &Signature,
    builtin: &Builtin,
) -> String {
    let (kind, python) = kind(form, schema);
    let path = match builtin {
        Builtin::None | Builtin::LeftOut => None,
        Builtin::Path(path) => Some(path.clone()),
        Builtin::Body(_) => Some(format!("kernel::{}", function_name(schema))),
    };
    let (constructor, kernel) = constructor(op, path);
    let batch = match op.batch_rule() {
        Some(rule) => format!("Some(crate::batched::rules::{rule})"),
        None => "None".to_owned(),
    };
    let names = match op.names_rule() {
        Some(rule) => format!(
            "Some(&crate::names::Rule {{ name: {rule:?}, infer: crate::names::rules::{rule} }})"
        ),
        None => "None".to_owned(),
    };
    let registered = op.registered(schema);
    let homes: Vec<String> = op.python.iter().map(|home| format!("{home:?}")).collect();
    format!(
        "pub static {static_name}: TypedOp<sig::{name}> = TypedOp::{constructor}(&OpDef {{
            name: {base:?}, overload: {overload:?}, namespace: {namespace:?}, schema: {text:?},
            kind: OpKind::{kind}, function: {function}, method: {method}, python: &[{homes}],
            doc: {doc:?}, source: {source:?}, implementation: {implementation:?},
            gradient: Gradient::{gradient}, batch: {batch}, names: {names}, cost: Cost::{cost:?}, autocast: {autocast}, tags: &{tags:?},
            is_view_inplace: {is_view_inplace}, numbers: {numbers}, deprecated: &{deprecated:?}, formulas: &{formulas:?},
            autocast_cuda: {autocast_cuda}, uint64: {uint64},
        }}, sig::boxed_{name}{kernel});",
        static_name = static_name(schema),
        gradient = gradient(op),
        cost = op.cost,
        numbers = op.numbers,
        uint64 = op.uint64.map_or("None".to_owned(), |rule| format!("Some(crate::registry::Uint64::{rule:?})")),
        is_view_inplace = form == Form::Inplace && op.schema.viewed().is_some(),
        deprecated = if form == Form::Out { &[] } else { &op.deprecated[..] },
        formulas = formulas(op, form),
        tags = if *schema == op.schema { &op.tags[..] } else { &[] },
        autocast = cast(op.autocast.filter(|_| *schema == op.schema)),
        autocast_cuda = cast(op.autocast_cuda.filter(|_| *schema == op.schema)),
        name = signature.name(),
        namespace = op.namespace,
        base = registered.name,
        overload = registered.overload,
        text = registered.to_string(),
        function = op.variants.function,
        method = op.variants.method && python,
        homes = homes.join(", "),
        doc = op.doc,
        source = op.location.to_string(),
        implementation = match builtin {
            Builtin::LeftOut => "left out".to_owned(),
            _ => op.implementation(),
        },
    )
}

/// What automatic casts do, as an expression.
fn cast(cast: Option<Autocast>) -> String {
    cast.map_or("None".to_owned(), |cast| format!("Some(Autocast::{cast:?})"))
}

/// What a call does to its arguments, as a variant of `OpKind`, and whether Python has the form as a method.
fn kind(form: Form, schema: &Schema) -> (&'static str, bool) {
    match form {
        Form::Out => ("Out", false),
        Form::Inplace => ("Inplace", true),
        Form::Declared if schema.outs().next().is_some() => ("Out", false),
        Form::Declared if !schema.is_functional() => ("Inplace", true),
        Form::Declared if schema.viewed().is_some() => ("View", true),
        Form::Declared => ("Functional", true),
    }
}

/// Where an operator's gradient comes from, as a variant of `Gradient`.
fn gradient(op: &Op) -> &'static str {
    match &op.grad {
        Grad::None => "None",
        Grad::Composite => "Composite",
        Grad::Manual | Grad::Formulas { .. } | Grad::Multi { .. } => "Formula",
    }
}

/// The formulas of the declared form's gradient: the arguments of each, and its text.
fn formulas(op: &Op, form: Form) -> Vec<(String, &str)> {
    match &op.grad {
        _ if form != Form::Declared => Vec::new(),
        Grad::Formulas { formulas, .. } => {
            formulas.iter().map(|(name, formula)| (name.clone(), formula.text.as_str())).collect()
        }
        Grad::Multi { formula, args, .. } => vec![(args.join(", "), formula.text.as_str())],
        Grad::None | Grad::Composite | Grad::Manual => Vec::new(),
    }
}

/// The dispatching function of an overload.
fn function(op: &Op, schema: &Schema, signature: &Signature) -> String {
    let names: Vec<&str> = signature.parameters.iter().map(|p| p.name.as_str()).collect();
    format!(
        "#[doc = {doc:?}] pub fn {function}({declared}) -> Result<{output}> {{
            sig::call_{name}({static_name}.lookup({keys})?{comma}{passed})
        }}",
        doc = format!(" {}", op.doc),
        function = function_name(schema),
        declared = signature.declared(),
        output = signature.output.rust(),
        name = signature.name(),
        static_name = static_name(schema),
        keys = keys(signature, &names),
        comma = if signature.parameters.is_empty() { "" } else { ", " },
        passed = signature.passed(),
    )
}

/// The key set of a call: of its tensors; where there are none, of what it is asked to make.
/// The key set of a call whose arguments have these names.
pub(super) fn keys(signature: &Signature, names: &[impl AsRef<str>]) -> String {
    let mut text = "KeyBuilder::new()".to_owned();
    let named = || signature.parameters.iter().zip(names.iter().map(AsRef::as_ref));
    for (parameter, name) in named() {
        let method = match (parameter.ty.base, parameter.ty.shape) {
            (Base::Tensor, Shape::One) => "tensor",
            (Base::Tensor, Shape::Optional) => "optional",
            (Base::Tensor, Shape::List) => "list",
            (Base::Tensor, Shape::ListOfOptional) => "optional_list",
            (Base::Generator, Shape::Optional) => "generator",
            _ => continue,
        };
        text.push_str(&format!(".{method}({name})"));
    }
    let find = |base: Base| named().find(|(p, _)| p.ty.base == base);
    if let (None, Some((device, name))) = (find(Base::Tensor), find(Base::Device)) {
        let given = |name: &str, ty: Ty| match ty.shape {
            Shape::One => format!("Some({name})"),
            _ => name.to_owned(),
        };
        let layout = find(Base::Layout).map_or("None".to_owned(), |(p, name)| given(name, p.ty));
        text.push_str(&format!(".options({layout}, {})", given(name, device.ty)));
    }
    text + ".finish()"
}

fn kernel(
    registry: &Registry,
    op: &Op,
    form: Form,
    schema: &Schema,
    signature: &Signature,
) -> Result<Builtin, String> {
    Ok(match &op.body {
        Body::Pointwise { meta, .. } | Body::Iterator { meta, .. } => {
            Builtin::Body(iterator(op, schema, signature, meta))
        }
        Body::Any(paths) => by_paths("any", paths, op, form, schema)?,
        Body::Composite(paths) => by_paths("composite", paths, op, form, schema)?,
        Body::Sparse => Builtin::None,
        Body::Kernel { .. } => match form {
            Form::Declared => Builtin::None,
            _ => Builtin::Body(derived(op, form, schema)?),
        },
        Body::WrapScalar => Builtin::Body(wrapping(registry, op, form, signature)?),
        Body::CopyOf(view) => Builtin::Body(match form {
            Form::Declared => copying(view)?,
            _ => derived(op, form, schema)?,
        }),
    })
}

fn by_paths(
    module: &str,
    paths: &Paths,
    op: &Op,
    form: Form,
    schema: &Schema,
) -> Result<Builtin, String> {
    let path = match form {
        Form::Declared => Some(&paths.main),
        Form::Inplace => paths.inplace.as_ref(),
        Form::Out => paths.out.as_ref(),
    };
    match path {
        Some(path) => Ok(Builtin::Path(format!("{module}::{path}"))),
        None => derived(op, form, schema).map(Builtin::Body),
    }
}

/// Computes the result and copies it.
fn derived(op: &Op, form: Form, schema: &Schema) -> Result<String, String> {
    if op.schema.viewed().is_some() && form == Form::Inplace {
        return Err("the in-place form of a view needs a function of its own".to_owned());
    }
    let call = computed(op, schema)?;
    Ok(match (form, &outputs(schema)[..]) {
        (Form::Out, [out]) => format!("{}.write({out}, &{call})", out_rule(op, 0)),
        (Form::Out, several) => {
            let write = |(i, out): (usize, &String)| {
                format!("{}.write({out}, &results.{i})?", out_rule(op, i))
            };
            let writes: Vec<String> = several.iter().enumerate().map(write).collect();
            format!("let results = {call}; Ok(({}))", writes.join(", "))
        }
        _ => format!("derived::write_inplace(self_, &{call})"),
    })
}

/// The names of what an overload writes its results to.
fn outputs(schema: &Schema) -> Vec<String> {
    schema.outs().map(|argument| crate::rust::identifier(&argument.name)).collect()
}

/// A call of the declared form with the arguments of a derived one.
fn computed(op: &Op, schema: &Schema) -> Result<String, String> {
    let signature = Signature::of(schema)?;
    let declared = Signature::of(&op.schema)?;
    let outs = outputs(schema);
    // A factory's options are those of `out`.
    let given =
        |name: &str, ty: Ty| match (signature.parameters.iter().any(|p| p.name == name), ty.base) {
            (true, _) => name.to_owned(),
            (false, Base::DType) => format!("Some({}.dtype())", outs[0]),
            (false, Base::Layout) => format!("Some({}.layout())", outs[0]),
            (false, Base::Device) => format!("Some({}.device())", outs[0]),
            (false, Base::Tensor) => "self_".to_owned(),
            (false, _) => "None".to_owned(),
        };
    let passed: Vec<String> = declared.parameters.iter().map(|p| given(&p.name, p.ty)).collect();
    Ok(format!("op::{}({})?", function_name(&op.schema), passed.join(", ")))
}

/// What the derived out form asks of the output that result `nr` is written into.
fn out_rule(op: &Op, nr: usize) -> String {
    let result = op.schema.returns.get(nr).and_then(|result| result.name.as_deref());
    format!(
        "derived::OutRule {{ operator: {:?}, result: {:?}, exact: {}, history: {}, words: {:?} }}",
        op.schema.name,
        result.unwrap_or("result"),
        op.exact_out,
        op.out_history,
        op.out_error
    )
}

/// Copies the results of a view operator.
fn copying(view: &Schema) -> Result<String, String> {
    let signature = Signature::of(view)?;
    let copy = match &signature.output.0[..] {
        [ty] if ty.shape == Shape::List => "copies",
        _ => "copy",
    };
    // What is copied need not be a view, and the copy of a detached one is differentiable.
    let shown = match view.full_name().as_str() {
        "view" => "reshape".to_owned(),
        "detach" => "alias".to_owned(),
        _ => function_name(view),
    };
    Ok(format!("derived::{copy}(&op::{shown}({})?)", signature.passed()))
}

/// Calls the overload on tensors.
fn wrapping(
    registry: &Registry,
    op: &Op,
    form: Form,
    signature: &Signature,
) -> Result<String, String> {
    let Some((base, mut flags)) = registry.tensor_overload(op) else {
        return Err("wrap_scalar: no overload has tensors in place of the numbers".to_owned());
    };
    let target = base.forms().find(|(other, _)| *other == form);
    let Some((_, target)) = target else {
        return Err(format!("wrap_scalar: {} lacks this form", base.schema.full_name()));
    };
    flags.resize(signature.parameters.len(), false);
    let names: Vec<String> = signature.parameters.iter().map(|p| p.name.clone()).collect();
    let compares = matches!(
        &base.body,
        Body::Pointwise { meta: MetaRule::Pointwise { promote: "comparison", .. }, .. }
    );
    let pass = |(name, wrapped): (&String, bool)| match wrapped {
        true if compares => format!("&derived::compared({}, {name})?", names[0]),
        true => format!("&derived::wrapped({name})?"),
        false => name.clone(),
    };
    let passed: Vec<String> = names.iter().zip(flags).map(pass).collect();
    Ok(format!("op::{}({})", function_name(target), passed.join(", ")))
}

/// Builds the iterator and runs the stub.
fn iterator(op: &Op, schema: &Schema, signature: &Signature, meta: &MetaRule) -> String {
    let count = op.schema.returns.len();
    let is_out =
        |name: &str| schema.outs().any(|argument| crate::rust::identifier(&argument.name) == name);
    let written: Vec<String> =
        schema.written().map(|a| format!("Some({})", crate::rust::identifier(&a.name))).collect();
    let outs = if written.is_empty() { vec!["None".to_owned(); count] } else { written };
    let inputs = signature.parameters.iter().filter(|p| !is_out(&p.name));
    let rule = match meta {
        MetaRule::Pointwise { promote, domain } => {
            let tensors: Vec<&str> =
                inputs.filter(|p| p.ty.holds_tensors()).map(|p| p.name.as_str()).collect();
            format!(
                "meta::pointwise({:?}, Promote::{}, Domain::{}, &[{}], {})?",
                op.schema.name.trim_end_matches('_'),
                camel(promote),
                camel(domain),
                tensors.join(", "),
                outs.join(", ")
            )
        }
        MetaRule::Function(path) => {
            let names = inputs.map(|p| p.name.clone());
            let passed: Vec<String> = names.chain(outs.clone()).collect();
            format!("meta::{path}({})?", passed.join(", "))
        }
    };
    let number = |name: &String| {
        let scalar =
            signature.parameters.iter().any(|p| p.name == *name && p.ty.base == Base::Scalar);
        if scalar { name.clone() } else { format!("Scalar::from({name})") }
    };
    let numbers: Vec<String> = scalars(signature).iter().map(number).collect();
    let (stub, numbers) = (static_name(&op.schema), numbers.join(", "));
    let run = format!("run{count}({rule}, &stubs::{stub}, &[{numbers}])");
    let inputs: Vec<&Parameter> =
        signature.parameters.iter().filter(|p| p.ty.holds_tensors() && !is_out(&p.name)).collect();
    match (shortcut_rule(op, meta), &outs[..]) {
        (Some(rule), [out]) => format!("{}{run}", shortcut(&stub, &rule, &inputs, out, &numbers)),
        _ => run,
    }
}

/// Tries the way around the iterator, for which one to three tensors are known.
fn shortcut(stub: &str, rule: &str, inputs: &[&Parameter], out: &str, numbers: &str) -> String {
    if !(1..=3).contains(&inputs.len()) || inputs.iter().any(|p| p.ty.shape != Shape::One) {
        return String::new();
    }
    let inputs: Vec<&str> = inputs.iter().map(|p| p.name.as_str()).collect();
    format!(
        "const RULE: shortcut::Rule = {rule};
        if let Some(result) =
            shortcut::run(&stubs::{stub}, &RULE, &shortcut::Call {{
                inputs: &[{}], out: {out}, scalars: &[{numbers}],
            }})?
        {{
            return Ok(result);
        }}
        ",
        inputs.join(", ")
    )
}

/// The rule of an operator with a way around the iterator: one without conditions of its own, or
/// with conditions that dense operands of one dtype always meet.
fn shortcut_rule(op: &Op, meta: &MetaRule) -> Option<String> {
    let (promote, domain) = match (meta, &op.body) {
        (MetaRule::Pointwise { promote, domain }, Body::Pointwise { .. }) => (*promote, *domain),
        (MetaRule::Function(path), Body::Pointwise { .. })
            if matches!(&**path, "elementwise::add" | "elementwise::sub") =>
        {
            ("binary", "all")
        }
        _ => return None,
    };
    let (promote, domain) = (camel(promote), camel(domain));
    Some(format!("shortcut::Rule {{ promote: Promote::{promote}, domain: Domain::{domain} }}"))
}
