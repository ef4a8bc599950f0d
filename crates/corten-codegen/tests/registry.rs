//! The registry itself: `ops/*.toml` against PyTorch's registered schemas and our own rules.

#![cfg(feature = "generate")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use corten_codegen::registry::{Body, Cost, Op, Registry, inplace_of, out_of};
use corten_codegen::schema::Schema;
use corten_codegen::{Sources, emit};
use std::collections::{BTreeMap, BTreeSet};

/// The declarations without mistakes; `declarations_have_no_mistakes` is about the others.
fn registry() -> Registry {
    Registry::read_sound(&common::root().join("ops")).0
}

fn sources() -> Sources {
    let sources = Sources::read_sound(&common::root());
    sources.unwrap_or_else(|mistakes| panic!("{}", common::listed(&mistakes)))
}

#[test]
fn declarations_have_no_mistakes() {
    let (_, mistakes) = Registry::read_sound(&common::root().join("ops"));
    assert!(mistakes.is_empty(), "{}", common::listed(&mistakes));
}

fn torch() -> BTreeMap<String, Schema> {
    let parse = |text: &String| Schema::parse(text.strip_prefix("aten::").unwrap()).unwrap();
    common::torch_schemas()
        .iter()
        .map(parse)
        .map(|schema| (schema.full_name(), schema.normalized()))
        .collect()
}

/// Declarations say that they are not PyTorch's by this name in `python`.
const OWN: &str = "corten";

/// A registry that keeps the overloads of a file with this text.
fn selected(name: &str, text: &str) -> Result<Registry, String> {
    let file = std::env::temp_dir().join(format!("corten-{name}-{}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let mut registry = registry();
    let result = registry.select(&file);
    std::fs::remove_file(&file).unwrap();
    result.map(|()| registry).map_err(|mistakes| common::listed(&mistakes))
}

#[test]
fn a_selection_leaves_the_others_out() {
    let registry = selected("selection", "aten::add.Tensor\n\nmul_.Tensor\n").unwrap();
    let (ops, cpu) = (emit::ops(&registry).text, emit::cpu(&registry, &sources().vocabulary).text);
    let listed = ops.split("pub static OPS").nth(1).and_then(|rest| rest.split("];").next());
    assert_eq!(listed.map(|list| list.matches(".any()").count()), Some(2));
    assert!(cpu.contains("&stubs::ADD_TENSOR") && cpu.contains("&stubs::MUL_TENSOR"));
    assert!(!cpu.contains("&stubs::SIN"));
    // What is left out can be called, and says so.
    assert!(ops.contains("pub static SIN: ") && ops.contains("implementation: \"left out\""));
    let functions = sources().functions;
    let autograd = emit::autograd(&Sources { registry, functions, ..Sources::default() }).text;
    assert!(autograd.contains("op::ADD_TENSOR.implement") && !autograd.contains("op::SIN"));
    assert!(autograd.contains("op::MUL__TENSOR.impl") && !autograd.contains("op::MUL_TENSOR.impl"));
}

#[test]
fn a_selection_of_unknown_operators_is_a_mistake() {
    let message = selected("unknown", "add.Tensor\nadd.Nothing\n").map(drop).unwrap_err();
    assert!(message.contains("no operator `add.Nothing`"), "{message}");
}

#[test]
fn every_schema_is_pytorchs() {
    let (registry, torch) = (registry(), torch());
    let mut wrong = Vec::new();
    let ours = |op: &&Op| op.namespace == "aten" && !op.python.iter().any(|home| home == OWN);
    for op in registry.ops.iter().filter(ours) {
        for (_, schema) in op.forms() {
            let ours = schema.clone().normalized();
            match torch.get(&schema.full_name()) {
                Some(theirs) if *theirs == ours => {}
                Some(theirs) => wrong.push(format!("{}: {ours}\n    torch: {theirs}", op.location)),
                None => wrong.push(format!("{}: torch has no {ours}", op.location)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn schemas_print_back() {
    for op in registry().ops {
        for (_, schema) in op.forms() {
            assert_eq!(Schema::parse(&schema.to_string()).unwrap(), *schema, "{}", op.location);
        }
    }
}

#[test]
fn everything_is_generated() {
    let sources = sources();
    let files = [
        emit::ops(&sources.registry),
        emit::cpu(&sources.registry, &sources.vocabulary),
        emit::autograd(&sources),
    ];
    let mistakes: Vec<_> = files.into_iter().flat_map(|file| file.mistakes).collect();
    assert!(mistakes.is_empty(), "{}", common::listed(&mistakes));
}

#[test]
fn methods_have_different_names() {
    let sources = sources();
    let text = emit::ops(&sources.registry).text;
    let methods = text.split("impl crate::Tensor {").nth(1).unwrap();
    let names = methods.lines().filter_map(|line| line.trim().strip_prefix("pub fn "));
    let mut seen = BTreeSet::new();
    for name in names.filter_map(|rest| rest.split('(').next()) {
        assert!(seen.insert(name), "two methods are called {name}: give one `rust = ..`");
    }
}

/// How far the rules of derivation reach, measured on everything that PyTorch registers.
#[test]
fn derivation_rules_match_pytorch() {
    let torch = torch();
    let functional = |name: &str| -> Vec<&Schema> {
        torch.values().filter(|s| s.name == name && s.is_functional()).collect()
    };
    let (mut outs, mut out_hits, mut inplace, mut inplace_hits) = (0, 0, 0, 0);
    for schema in torch.values() {
        let tensors = !schema.returns.is_empty() && schema.returns.iter().all(|r| r.ty.is_tensor());
        if tensors && schema.outs().count() == schema.returns.len() {
            outs += 1;
            let derived = functional(&schema.name).into_iter().filter_map(|f| out_of(f).ok());
            out_hits += usize::from(derived.map(Schema::normalized).any(|d| d == *schema));
        }
        if schema.is_inplace_name() && tensors && schema.returns.len() == 1 {
            inplace += 1;
            let base = schema.name.trim_end_matches('_');
            let derived = functional(base).into_iter().filter_map(|f| inplace_of(f).ok());
            inplace_hits += usize::from(derived.map(Schema::normalized).any(|d| d == *schema));
        }
    }
    println!("out {out_hits} of {outs}, in-place {inplace_hits} of {inplace}");
    assert!(out_hits * 100 >= outs * 90, "out: {out_hits} of {outs}");
    assert!(inplace_hits * 100 >= inplace * 80, "in-place: {inplace_hits} of {inplace}");
}

/// Operators of the families of products whose work is that of reading their arguments.
const STREAMING: [&str; 6] = ["dot", "vdot", "linalg_vecdot", "im2col", "col2im", "lu_unpack"];

#[test]
fn the_cost_of_products_is_declared() {
    // Files of `vision` are decoded, which takes more than reading their bytes.
    const PRODUCTS: [&str; 7] =
        ["matmul", "conv", "attention", "linalg", "rnn", "spectral", "vision"];
    for op in registry().ops {
        let name = op.schema.name.as_str();
        let product = op.cost == Cost::Product;
        if PRODUCTS.contains(&op.family.as_str()) {
            assert_eq!(product, !STREAMING.contains(&name), "{name}");
        }
        assert!(!product || !matches!(op.body, Body::Pointwise { .. }), "{name}");
        // Products outside of these families are those that multiply what they are given in pairs.
        let elsewhere = [
            "cdist",
            "pdist",
            "cov",
            "corrcoef",
            "kron",
            "mkldnn_linear",
            "foreach_mm",
            "sparse",
            "smm",
            "hspmm",
            "sspaddmm",
            "cslt",
            "int8_",
            "quantized_linear",
            "quantized_convolution",
            "quantized__matmul",
            "kv_cache_attention",
            "pack_mm",
            "scaled_mm",
            "matmul_4bit",
            "grouped_mm",
            "mixed_dtypes",
        ];
        let paired = elsewhere.iter().any(|word| name.contains(word));
        assert!(!product || paired || PRODUCTS.contains(&op.family.as_str()), "{name}");
    }
}

#[test]
fn names_say_nothing_of_costs() {
    let cost = |name: &str| {
        let registry = registry();
        let found = registry.ops.iter().find(|op| op.schema.name == name);
        found.unwrap_or_else(|| panic!("no operator {name}")).cost
    };
    for name in [
        "lgamma",
        "digamma",
        "cummax",
        "hamming_window",
        "upsample_bilinear2d",
        "polygamma",
        "linalg_vector_norm",
        "linalg_cross",
        "_standard_gamma",
    ] {
        assert_eq!(cost(name), Cost::Stream, "{name}");
    }
    for name in [
        "mm",
        "baddbmm",
        "conv2d",
        "gru_sequence",
        "lstm_sequence",
        "bilinear",
        "einsum",
        "scaled_dot_product_attention",
        "cdist",
        "inverse",
        "svd",
        "tensordot",
    ] {
        assert_eq!(cost(name), Cost::Product, "{name}");
    }
}
