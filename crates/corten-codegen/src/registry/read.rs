//! From TOML to the model.

use super::file::{self, Formula as RawFormula, OpBlock};
use super::{
    Autocast, Body, Cost, Grad, Location, MetaKernel, MetaRule, Mistake, Op, Paths, Registry,
    Variants, derive,
};
use crate::formula::Formula;
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::path::Path;

const PROMOTE: [&str; 7] =
    ["same", "float", "binary", "binary_float", "comparison", "ternary", "bool_out"];
const DOMAIN: [&str; 12] = [
    "every",
    "all",
    "no_bool",
    "real",
    "real_wide",
    "ordered",
    "ordered_wide",
    "float",
    "float_complex",
    "integral",
    "integral_bool",
    "integral_bool_wide",
];

/// Reads every `*.toml` of a directory, in the order of names.
pub(super) fn directory(directory: &Path) -> (Registry, Vec<Mistake>) {
    let (mut registry, mut mistakes) = (Registry::default(), Vec::new());
    let mut trouble = |path: &Path, error: std::io::Error| {
        let location = Location { file: path.display().to_string(), line: 0 };
        mistakes.push(Mistake { location, schema: String::new(), message: error.to_string() });
    };
    let mut texts = Vec::new();
    match std::fs::read_dir(directory) {
        Err(error) => trouble(directory, error),
        Ok(entries) => {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
            paths.sort();
            for path in paths {
                match std::fs::read_to_string(&path) {
                    Ok(text) => texts.push((path, text)),
                    Err(error) => trouble(&path, error),
                }
            }
        }
    }
    for (path, text) in texts {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        file(&format!("ops/{}", name.unwrap_or_default()), &text, &mut registry, &mut mistakes);
    }
    (registry, mistakes)
}

/// Reads the text of one file.
pub(super) fn file(name: &str, text: &str, registry: &mut Registry, mistakes: &mut Vec<Mistake>) {
    let at = |offset: usize| Location {
        file: name.to_owned(),
        line: 1 + text[..offset.min(text.len())].matches('\n').count(),
    };
    let parsed: file::File = match toml::from_str(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            mistakes.push(Mistake {
                location: at(error.span().map_or(0, |span| span.start)),
                schema: String::new(),
                message: error.message().to_owned(),
            });
            return;
        }
    };
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".toml");
    for block in parsed.op {
        let location = at(block.schema.span().start);
        let schema = block.schema.get_ref().clone();
        let cost = block.cost.or(parsed.cost).unwrap_or_default();
        match operator(block, stem, location.clone()) {
            Ok(mut op) => {
                op.feature = parsed.feature.clone();
                op.cost = cost;
                let copy = op.variants.copy.then(|| copy_of(&op)).transpose();
                registry.ops.push(op);
                match copy {
                    Ok(copy) => registry.ops.extend(copy),
                    Err(message) => mistakes.push(Mistake { location, schema, message }),
                }
            }
            Err(message) => mistakes.push(Mistake { location, schema, message }),
        }
    }
}

fn operator(block: OpBlock, family: &str, location: Location) -> Result<Op, String> {
    let (namespace, schema) =
        (namespace(block.schema.get_ref())?, parse_schema(block.schema.get_ref())?);
    let variants = variants(&block.variants)?;
    let inplace = match &block.inplace {
        Some(text) => Some(parse_schema(text)?),
        None if variants.inplace => Some(derive::inplace_of(&schema)?),
        None => None,
    };
    let out = match &block.out {
        Some(text) => Some(parse_schema(text)?),
        None if variants.out => Some(derive::out_of(&schema)?),
        None => None,
    };
    Ok(Op {
        body: body(&block, &schema)?,
        grad: grad(&block, &schema)?,
        grad_inplace: grad_inplace(&block, &schema)?,
        family: family.to_owned(),
        feature: None,
        left_out: Vec::new(),
        python: block.python.to_list(),
        node: block.node,
        node_inplace: block.node_inplace,
        exact_out: block.exact_out,
        out_error: block.out_error,
        out_history: block.out_history,
        batch: block.batch,
        names: block.names,
        cost: Cost::default(),
        autocast: block.autocast,
        autocast_cuda: autocast_cuda(block.autocast_cuda.as_deref(), block.autocast)?,
        nondiff: nondiff(&block.nondiff, &schema)?,
        tags: block.tags.to_list(),
        numbers: block.numbers,
        uint64: block.uint64,
        deprecated: block.deprecated,
        any_at: block.any_at.into_iter().collect(),
        kernel_at: block.kernel_at.into_iter().collect(),
        sparse: sparse(block.sparse, block.sparse_inplace, block.sparse_out)?,
        sparse_csr: sparse(block.sparse_csr, block.sparse_csr_inplace, block.sparse_csr_out)?,
        quantized: [block.quantized, block.quantized_inplace, block.quantized_out],
        rust: block.rust,
        doc: block.doc,
        location,
        namespace,
        schema,
        inplace,
        out,
        variants,
    })
}

/// The kernels of one sparse layout.
fn sparse(
    main: Option<String>,
    inplace: Option<String>,
    out: Option<String>,
) -> Result<Option<Paths>, String> {
    match main {
        Some(main) => Ok(Some(Paths { main, inplace, out })),
        None if inplace.is_none() && out.is_none() => Ok(None),
        None => Err("a sparse kernel of a form needs one of the declared form".to_owned()),
    }
}

/// What automatic casts do on GPUs: what they do on the host unless the block says otherwise.
fn autocast_cuda(word: Option<&str>, host: Option<Autocast>) -> Result<Option<Autocast>, String> {
    match word {
        None => Ok(host),
        Some("none") => Ok(None),
        Some("lower") => Ok(Some(Autocast::Lower)),
        Some("float32") => Ok(Some(Autocast::Float32)),
        Some("widest") => Ok(Some(Autocast::Widest)),
        Some(other) => {
            Err(format!("autocast_cuda: `{other}` is none of lower, float32, widest, none"))
        }
    }
}

/// The names of `nondiff`, each of which is a tensor argument.
fn nondiff(words: &file::Words, schema: &Schema) -> Result<Vec<String>, String> {
    let names = words.to_list();
    let is_tensor =
        |name: &String| schema.arguments.iter().any(|a| a.name == *name && a.ty.holds_tensors());
    match names.iter().find(|name| !is_tensor(name)) {
        Some(name) => Err(format!("nondiff: `{name}` is no tensor argument")),
        None => Ok(names),
    }
}

/// The operator that copies what a view operator shows.
fn copy_of(view: &Op) -> Result<Op, String> {
    let schema = derive::copy_of(&view.schema)?;
    let list = schema.returns.iter().any(|r| !r.ty.is_tensor());
    let out = if list { None } else { Some(derive::out_of(&schema)?) };
    let variants = Variants { function: true, out: out.is_some(), ..Variants::default() };
    Ok(Op {
        location: view.location.clone(),
        family: view.family.clone(),
        feature: None,
        left_out: Vec::new(),
        namespace: view.namespace.clone(),
        schema,
        inplace: None,
        out,
        variants,
        python: Vec::new(),
        body: Body::CopyOf(view.schema.clone()),
        grad: match &view.grad {
            Grad::Manual => Grad::Composite,
            other => other.clone(),
        },
        grad_inplace: None,
        node: Some(format!("{}_copy", view.shown_node())),
        node_inplace: None,
        exact_out: true,
        out_error: None,
        out_history: false,
        batch: view.batch.clone(),
        names: view.names.clone(),
        cost: view.cost,
        autocast: None,
        autocast_cuda: None,
        nondiff: view.nondiff.clone(),
        tags: Vec::new(),
        numbers: false,
        uint64: None,
        deprecated: Vec::new(),
        any_at: Vec::new(),
        kernel_at: Vec::new(),
        sparse: None,
        sparse_csr: None,
        quantized: [None, None, None],
        rust: None,
        doc: format!("The view that `{}` makes, copied.", view.schema.name),
    })
}

/// The namespace of a schema; `aten` where it names none.
fn namespace(text: &str) -> Result<String, String> {
    let schema = Schema::parse(text).map_err(|error| format!("schema: {error}"))?;
    Ok(if schema.namespace.is_empty() { "aten".to_owned() } else { schema.namespace })
}

fn parse_schema(text: &str) -> Result<Schema, String> {
    let schema = Schema::parse(text).map_err(|error| format!("schema: {error}"))?;
    let name = match NAMED_BY_SPACE.contains(&&*schema.namespace) {
        true => format!("{}__{}", schema.namespace, schema.name),
        false => schema.name,
    };
    Ok(Schema { namespace: String::new(), name, ..schema })
}

/// Namespaces whose operators have the names of others: Rust names begin with the namespace, and an
/// overload stands behind two underscores too.
pub(crate) const NAMED_BY_SPACE: [&str; 2] = ["quantized", "quantized_decomposed"];

fn variants(text: &str) -> Result<Variants, String> {
    let mut variants = Variants::default();
    for word in text.split_whitespace() {
        match word {
            "function" => variants.function = true,
            "method" => variants.method = true,
            "inplace" => variants.inplace = true,
            "out" => variants.out = true,
            "copy" => variants.copy = true,
            other => return Err(format!("variants: unknown word `{other}`")),
        }
    }
    Ok(variants)
}

fn body(block: &OpBlock, schema: &Schema) -> Result<Body, String> {
    let kinds = [
        ("any", block.any.is_some()),
        ("composite", block.composite.is_some()),
        ("pointwise or kernel", block.pointwise.is_some() || block.kernel.is_some()),
    ];
    let by_key = !block.kernel_at.is_empty() || block.quantized.is_some();
    if (block.sparse.is_some() || block.sparse_csr.is_some() || by_key)
        && kinds.iter().all(|kind| !kind.1)
    {
        return Ok(Body::Sparse);
    }
    let given: Vec<&str> = kinds.iter().filter(|kind| kind.1).map(|kind| kind.0).collect();
    if given.len() != 1 || (block.pointwise.is_some() && block.kernel.is_some()) {
        return Err("needs exactly one of pointwise, kernel, any, composite".to_owned());
    }
    let paths = |main: &str, inplace: &Option<String>, out: &Option<String>| Paths {
        main: main.to_owned(),
        inplace: inplace.clone(),
        out: out.clone(),
    };
    if let Some(any) = &block.any {
        return Ok(Body::Any(paths(any, &block.any_inplace, &block.any_out)));
    }
    if let Some(composite) = &block.composite {
        return Ok(match composite.as_str() {
            "wrap_scalar" => Body::WrapScalar,
            path => Body::Composite(paths(path, &block.composite_inplace, &block.composite_out)),
        });
    }
    if let Some(expr) = &block.pointwise {
        let expr = Formula::parse(expr.get_ref()).map_err(|error| format!("pointwise: {error}"))?;
        let meta = match &block.meta {
            Some(rule) => meta_rule(rule, block, schema)?,
            None => pointwise_rule(block, schema)?,
        };
        return Ok(Body::Pointwise { expr, meta });
    }
    let kernel = block.kernel.clone().unwrap_or_default();
    Ok(match &block.meta {
        Some(rule) => Body::Iterator { kernel, meta: meta_rule(rule, block, schema)? },
        None if block.promote.is_some() => {
            Body::Iterator { kernel, meta: pointwise_rule(block, schema)? }
        }
        None => Body::Kernel {
            kernel,
            inplace: block.kernel_inplace.clone(),
            out: block.kernel_out.clone(),
            meta: block.meta_kernel.as_deref().map(meta_kernel),
        },
    })
}

fn meta_kernel(text: &str) -> MetaKernel {
    match text {
        "itself" => MetaKernel::Itself,
        path => MetaKernel::Function(path.to_owned()),
    }
}

/// `name` or `name(variant)`: a function of `corten_ops::meta`, or the name of a pointwise rule.
fn meta_rule(text: &str, block: &OpBlock, schema: &Schema) -> Result<MetaRule, String> {
    let bare = text.strip_prefix("unary_").unwrap_or(text);
    if PROMOTE.contains(&bare) {
        return promoting(bare, block);
    }
    if text == "unary" {
        return pointwise_rule(block, schema);
    }
    match text.split_once('(') {
        None => Ok(MetaRule::Function(text.to_owned())),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(variant) => Ok(MetaRule::Function(format!("{name}_{variant}"))),
            None => Err(format!("meta: `{text}` is neither `name` nor `name(variant)`")),
        },
    }
}

fn pointwise_rule(block: &OpBlock, schema: &Schema) -> Result<MetaRule, String> {
    let tensors = schema.arguments.iter().filter(|a| a.ty.is_tensor() && !a.kwarg_only).count();
    let default = match tensors {
        1 => "same",
        2 => "binary",
        3 => "ternary",
        n => return Err(format!("no pointwise rule for {n} tensors: give `meta`")),
    };
    promoting(block.promote.as_deref().unwrap_or(default), block)
}

fn promoting(promote: &str, block: &OpBlock) -> Result<MetaRule, String> {
    let find = |name: &str, known: &[&'static str], field: &str| {
        let found = known.iter().copied().find(|one| *one == name);
        found.ok_or_else(|| format!("{field}: `{name}` is none of {}", known.join(", ")))
    };
    Ok(MetaRule::Pointwise {
        promote: find(promote, &PROMOTE, "promote")?,
        domain: find(block.domain.as_deref().unwrap_or("all"), &DOMAIN, "domain")?,
    })
}

/// The outputs that have gradients, as bits.
fn grad_outputs(block: &OpBlock, schema: &Schema) -> u32 {
    match &block.grad_outputs {
        Some(list) => list.iter().fold(0, |bits, i| bits | 1 << (i % 32)),
        None => (0..schema.returns.len().min(32)).fold(0, |bits, i| bits | 1 << i),
    }
}

fn grad_inplace(block: &OpBlock, schema: &Schema) -> Result<Option<Grad>, String> {
    let Some(table) = &block.grad_inplace else { return Ok(None) };
    formulas(table, schema, grad_outputs(block, schema)).map(Some)
}

fn grad(block: &OpBlock, schema: &Schema) -> Result<Grad, String> {
    let outputs = grad_outputs(block, schema);
    match &block.grad {
        None if block.composite.is_some() => Ok(Grad::Composite),
        None => Err("needs `grad`: formulas, or \"none\" where there is no gradient".to_owned()),
        Some(_) if block.composite.is_some() => {
            Err("a composite is differentiable through its parts: no `grad`".to_owned())
        }
        Some(file::Grad::Word(word)) => match word.as_str() {
            "none" => Ok(Grad::None),
            "manual" => Ok(Grad::Manual),
            other => Err(format!("grad: `{other}` is neither \"none\" nor \"manual\"")),
        },
        Some(file::Grad::Formulas(table)) => formulas(table, schema, outputs),
    }
}

fn formulas(
    table: &BTreeMap<String, RawFormula>,
    schema: &Schema,
    outputs: u32,
) -> Result<Grad, String> {
    let parse = |name: &str, raw: &RawFormula| match raw {
        RawFormula::Text(text) => {
            Formula::parse(text).map_err(|error| format!("grad.{name}: {error}"))
        }
        RawFormula::Names(_) => Err(format!("grad.{name}: must be a formula")),
    };
    let is_argument = |name: &str| schema.arguments.iter().any(|a| a.name == name);
    if let Some(multi) = table.get("multi").filter(|_| !is_argument("multi")) {
        let args = match table.get("args") {
            Some(RawFormula::Names(names)) => names.clone(),
            Some(RawFormula::Text(_)) => return Err("grad.args: must be a list".to_owned()),
            None => differentiable(schema),
        };
        return Ok(Grad::Multi { formula: parse("multi", multi)?, args, outputs });
    }
    for name in table.keys() {
        if !is_argument(name) {
            return Err(format!("grad.{name}: there is no such argument"));
        }
    }
    let mut formulas = Vec::new();
    for argument in &schema.arguments {
        if let Some(raw) = table.get(&argument.name) {
            formulas.push((argument.name.clone(), parse(&argument.name, raw)?));
        }
    }
    Ok(Grad::Formulas { formulas, outputs })
}

/// What `grad.multi` returns gradients for when it does not say: every single tensor.
fn differentiable(schema: &Schema) -> Vec<String> {
    let single = |ty: &crate::schema::Type| {
        ty.is_tensor() || ty.unwrap_optional().is_some_and(|inner| inner.is_tensor())
    };
    schema.arguments.iter().filter(|a| single(&a.ty)).map(|a| a.name.clone()).collect()
}
