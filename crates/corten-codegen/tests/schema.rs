//! The schema language against every schema that PyTorch registers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use corten_codegen::schema::Schema;

#[test]
fn every_schema_prints_back() {
    let all = common::torch_schemas();
    assert!(all.len() > 3000, "{} schemas", all.len());
    for text in &all {
        let schema = Schema::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert_eq!(schema.to_string(), *text);
    }
}

#[test]
fn registered_schemas_are_in_normal_form() {
    // Spellings of the original declarations that PyTorch keeps in registered text.
    for text in common::torch_schemas() {
        let schema = Schema::parse(&text).unwrap();
        let normal = schema.clone().normalized();
        assert_eq!(normal, normal.clone().normalized(), "{text}");
    }
}

#[test]
fn spellings_of_one_schema_are_equal() {
    let normal = |text: &str| Schema::parse(text).unwrap().normalized();
    for (a, b) in [
        ("f(int reduction=Mean) -> Tensor", "f(int reduction=1) -> Tensor"),
        ("f(MemoryFormat m=contiguous_format) -> Tensor", "f(MemoryFormat m=0) -> Tensor"),
        ("f(SymInt[2] stride=1) -> Tensor", "f(SymInt[2] stride=[1, 1]) -> Tensor"),
        ("f(float eps=1e-5) -> Tensor", "f(float eps=1.0000000000000001e-05) -> Tensor"),
        ("f(str mode='none') -> Tensor", "f(str mode=\"none\") -> Tensor"),
    ] {
        assert_eq!(normal(a), normal(b));
    }
}

#[test]
fn what_is_no_schema_is_refused() {
    for text in [
        "",
        "f",
        "f(Tensor self)",
        "f(Tensor self) -> Tensor Tensor Tensor",
        "f(Tensor) -> Tensor",
        "f(Tensor self,) -> Tensor",
        "f(int a=) -> ()",
        "f(str a=\"x) -> ()",
        "f(int[2 a) -> ()",
        "f(Tensor(a self) -> ()",
    ] {
        assert!(Schema::parse(text).is_err(), "{text}");
    }
}

#[test]
fn questions_about_aliases() {
    let schema = |text: &str| Schema::parse(text).unwrap();
    let view = schema("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)");
    assert_eq!(view.viewed().map(|a| a.name.as_str()), Some("self"));
    let views = schema("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]");
    assert_eq!(views.viewed().map(|a| a.name.as_str()), Some("self"));
    let inplace = schema("add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)");
    assert!(inplace.is_inplace_name() && inplace.viewed().is_none());
    assert_eq!(inplace.written().count(), 1);
    let out = schema("add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)");
    assert_eq!(out.outs().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["out"]);
}
