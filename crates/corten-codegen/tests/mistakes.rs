//! What the registry and the formula languages refuse, and how they say it.

#![cfg(feature = "generate")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use corten_codegen::emit;
use corten_codegen::formula::Formula;
use corten_codegen::registry::{Mistake, Registry};

const HEAD: &str = "[[op]]\nschema = \"f(Tensor self, Tensor other, int n) -> Tensor\"\n\
    variants = \"function\"\ndoc = \"It is.\"\n";

fn refused(block: &str) -> String {
    let mistakes = Registry::from_text("ops/x.toml", block).map(|_| ()).unwrap_err();
    mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn declarations_are_checked() {
    let with = |rest: &str| refused(&format!("{HEAD}{rest}"));
    for (rest, message) in [
        ("any = \"m::f\"\ngrad = \"none\"\nkernal = \"x\"", "unknown field `kernal`"),
        ("grad = \"none\"", "needs exactly one of"),
        ("any = \"m::f\"\ncomposite = \"m::f\"", "needs exactly one of"),
        ("any = \"m::f\"", "needs `grad`"),
        ("composite = \"m::f\"\ngrad = \"none\"", "no `grad`"),
        ("any = \"m::f\"\ngrad = \"nothing\"", "neither \"none\" nor \"manual\""),
        ("any = \"m::f\"\ngrad.third = \"grad\"", "there is no such argument"),
        ("any = \"m::f\"\ngrad.self = \"grad; 1\"", "grad.self"),
        ("pointwise = \"self + other\"\npromote = \"up\"\ngrad = \"none\"", "`up` is none of"),
        ("pointwise = \"self + \"\ngrad = \"none\"", "pointwise"),
        ("composite = \"wrap_scalar\"", "no overload has tensors"),
    ] {
        let found = with(rest);
        assert!(found.contains(message), "{rest}\ngave {found}\nnot {message}");
        assert!(found.starts_with("ops/x.toml:"), "{found}");
    }
    assert!(with("any = \"m::f\"\ngrad = \"none\"\nkernal = 1").starts_with("ops/x.toml:7"));
}

#[test]
fn schema_rules_are_checked() {
    let block = |schema: &str, variants: &str| {
        refused(&format!(
            "[[op]]\nschema = \"{schema}\"\nvariants = \"{variants}\"\nany = \"m::f\"\n\
             grad = \"none\"\ndoc = \"It is.\"\n"
        ))
    };
    for (schema, variants, message) in [
        ("f(Tensor self", "function", "schema: expected"),
        ("f(Tensor self) -> Tensor", "function twice", "unknown word `twice`"),
        ("f(Tensor a) -> Tensor", "function inplace", "no argument `Tensor self`"),
        ("f(Tensor self) -> Tensor[]", "function out", "must return tensors"),
        ("f(Dict(int, str) self) -> Tensor", "function", "no Rust type"),
        ("f(Tensor(a) self) -> Tensor(a)", "function out", "a view has no out form"),
    ] {
        let found = block(schema, variants);
        assert!(found.contains(message), "{schema}\ngave {found}\nnot {message}");
    }
    let undocumented = "[[op]]\nschema = \"f(Tensor self) -> Tensor\"\nany = \"m::f\"\ngrad = \"none\"\ndoc = \"No end\"";
    assert!(refused(undocumented).contains("full stop"));
    let once = "[[op]]\nschema = \"f(Tensor self) -> Tensor\"\nany = \"m::f\"\ngrad = \"none\"\ndoc = \"It is.\"\n";
    assert!(refused(&once.repeat(2)).contains("f is also at ops/x.toml:2"));
}

#[test]
fn the_formula_language_is_closed() {
    for text in [
        "a.b",
        "a::b(c)",
        "a as f64",
        "{ a }",
        "a?",
        "&a",
        "|a| a",
        "a = b",
        "a % b",
        "1u8",
        "'c'",
        "if a { b }",
        "match a { _ => b }",
        "a[b]",
        "a..b",
        "f!(a)",
        "*a",
        "(a, b)",
    ] {
        assert!(Formula::parse(text).is_err(), "{text}");
    }
    for text in [
        "self + -1.5e-3 * (other / 2)",
        "f(a, b).g()",
        "if a < b && !c { d } else if e { f } else { g }",
        "where(self, 1, grads[0])",
        "f([1, 2], \"x\", None, true)",
        "result(1)",
    ] {
        Formula::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// The gradient of `self` in an operator with arguments of many types.
fn gradient(formula: &str) -> Result<String, String> {
    let mut sources = common::fixtures();
    let block = format!(
        "[[op]]\nschema = \"probe(Tensor self, Tensor? weight, Tensor[] list, Scalar s, int n, float p, bool b, int[]? dims) -> (Tensor, Tensor other_name)\"\n\
         any = \"m::probe\"\ngrad.self = \"{}\"\ndoc = \"It is.\"\n",
        formula.replace('"', "\\\"")
    );
    let found = Registry::from_text("ops/x.toml", &block);
    let mut found = found.map_err(|mistakes| common::listed(&mistakes))?;
    sources.registry.ops.append(&mut found.ops);
    let text = emit::show(&sources, "probe").map_err(|mistakes| common::listed(&mistakes))?;
    let start = text.find("out.set(").ok_or("no gradient")?;
    let end = start + text[start..].find(";\n    }").ok_or("no end")?;
    Ok(text[start..end].split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn gradients_are_lowered_by_type() {
    for (formula, expected) in [
        ("grad * self", "out.set(0, (grad * &self_)?)"),
        ("grad * s / 2", "out.set(0, (&(grad * s)? / 2_i64)?)"),
        ("-grad * (n - 1)", "out.set(0, (&(-grad)? * (n - 1))?)"),
        ("grad * (p * 2)", "out.set(0, (grad * (p * 2.0))?)"),
        (
            "if b && n > 1 { grad } else { grads[1] }",
            "out.set(0, if (b && (n > 1)) { grad.clone() } else { grads[1].clone() })",
        ),
        ("grad.mul(result).exp()", "out.set(0, op::exp(&op::mul_tensor(grad, &result0)?)?)"),
        ("grad * other_name", "out.set(0, (grad * &result1)?)"),
        ("grad.add(self, s)", "out.set(0, op::add_tensor(grad, &self_, s)?)"),
        ("add(grad, 2)", "out.set(0, op::add_scalar(grad, Scalar::Int(2), Scalar::Int(1))?)"),
        (
            "power_grad(grad, n)",
            "out.set(0, crate::formulas::all::power_grad(grad, Scalar::from(n))?)",
        ),
        (
            "sum_grad(grad, self.sizes(), dims, b)",
            "out.set(0, crate::formulas::all::sum_grad(grad, self_sizes, dims, b)?)",
        ),
        (
            "sum_grad(grad, grad.sizes(), [n, 1], self.dim() > 2)",
            "out.set( 0, crate::formulas::all::sum_grad( grad, &grad.sizes(), Some(&[n, 1]), (self_dim > 2), )?, )",
        ),
        ("cat(list, 1)", "out.set(0, op::cat(&list, 1)?)"),
        ("cat([grad, self])", "out.set(0, op::cat(&[grad.clone(), self_.clone()], 0)?)"),
        ("zeros(self.sizes())", "out.set(0, op::zeros(self_sizes, None, None, None, None)?)"),
    ] {
        assert_eq!(gradient(formula).as_deref(), Ok(expected), "{formula}");
    }
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    for (formula, message) in [
        ("grad * weight", "no `*` for `Option<&Tensor>`"),
        ("n + 1", "must give a tensor, not `i64`"),
        ("missing(grad)", "`missing` is neither a formula function nor an operator"),
        ("private(grad)", "`private` is neither"),
        ("unknown(grad)", "has the type `& mut Tensor`"),
        ("exp(grad, 1)", "`exp` cannot be called with (`&Tensor`, a number)"),
        ("grad * stranger", "`stranger` is not in scope"),
        ("if self { grad } else { grad }", "a condition must be true or false"),
        ("result2", "there is no output 2"),
        ("max(grad, 1)", "must give a tensor, not 2 results"),
        ("cat_grad(grad, list.sizes(), list.dtypes(), 0)", "must give a tensor, not `&[Tensor]`"),
    ] {
        let found = gradient(formula).unwrap_err();
        assert!(found.contains(message), "{formula}\ngave {found}\nnot {message}");
        assert!(found.contains("ops/x.toml:2: grad.self:"), "{found}");
    }
}

/// The loop of a pointwise operator.
fn pointwise(expression: &str, promote: &str) -> Result<String, String> {
    let mut sources = common::fixtures();
    let block = format!(
        "[[op]]\nschema = \"probe(Tensor self, Tensor other, Scalar s, int n, str mode) -> Tensor\"\n\
         pointwise = \"{expression}\"\npromote = \"{promote}\"\ngrad = \"none\"\ndoc = \"It is.\"\n"
    );
    let found = Registry::from_text("ops/x.toml", &block);
    let mut found = found.map_err(|mistakes| common::listed(&mistakes))?;
    sources.registry.ops.append(&mut found.ops);
    let text = emit::show(&sources, "probe").map_err(|mistakes| common::listed(&mistakes))?;
    let start = text.find("fn eval").ok_or("no loop")?;
    let body = text[start..].split_once("{\n").ok_or("no body")?.1;
    Ok(body
        .split_once("\n    }")
        .ok_or("no end")?
        .0
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" "))
}

#[test]
fn expressions_are_lowered() {
    for (expression, promote, expected) in [
        ("self + n * other", "binary", "(self_ + (s[1] * other))"),
        ("pow(self, 2) - -1", "binary", "(self_.pow(E::lit(2.0)) - E::lit(-1.0))"),
        (
            "if self < s { 1 } else { inf }",
            "binary",
            "E::select(self_.lt(s[0]), E::lit(1.0), E::lit(f64::INFINITY))",
        ),
        (
            "if self < s { exp(self) } else { exp(other) }",
            "binary",
            "{ let chosen = self_.lt(s[0]); E::select( chosen, \
             if chosen.any() { self_.exp() } else { E::lit(0.0) }, \
             if (!chosen).any() { other.exp() } else { E::lit(0.0) }, ) }",
        ),
        (
            "if s < 0 { exp(self) } else { self }",
            "binary",
            "E::select(s[0].lt(E::lit(0.0)), self_.exp(), self_)",
        ),
        ("self < other || is_nan(self)", "comparison", "(self_.lt(other) | self_.is_nan())"),
        ("self", "comparison", "(self_).ne(E::lit(0.0))"),
        (
            "(self < other) * 2",
            "binary",
            "(E::select(self_.lt(other), E::lit(1.0), E::lit(0.0)) * E::lit(2.0))",
        ),
    ] {
        assert_eq!(pointwise(expression, promote).as_deref(), Ok(expected), "{expression}");
    }
    for (expression, message) in [
        ("self + mode", "`mode` is neither a tensor nor a number"),
        ("twist(self)", "`twist` is no function of pointwise expressions"),
        ("pow(self)", "`pow` takes 2 arguments, not 1"),
        ("lit(self)", "`lit` is no function"),
    ] {
        let found = pointwise(expression, "binary").unwrap_err();
        assert!(found.contains(message), "{expression}\ngave {found}\nnot {message}");
    }
}
