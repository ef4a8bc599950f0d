//! `#[derive(Module)]`: a struct of layers, parameters and buffers becomes a module.
//!
//! The generated code shows every field under its own name, in the order of the fields, and copies
//! them one by one. Attributes change that:
//!
//! | attribute | on | meaning |
//! |---|---|---|
//! | `#[module(name = "…")]` | the type | what is printed instead of the type's name |
//! | `#[module(repr)]` | the type | its method `repr(&self) -> String` writes what is printed between parentheses |
//! | `#[module(no_debug)]` | the type | `Display` and `Debug` are left to the author |
//! | `#[module(skip)]` | a field | a setting: not shown, copied by `Clone` |
//! | `#[module(rename = "…")]` | a field | the name in paths |
//! | `#[module(flatten)]` | a field | the parts of this module appear as the outer module's own |
//!
//! An enum whose variants hold one module each is a module too: it is the one it holds.

mod attributes;
mod expand;
mod expression;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, Expr, parse_macro_input};

/// Implements `corten_nn::Module`, `Display` and `Debug`.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::module(&input, &quote!(::corten_nn)).unwrap_or_else(|e| e.into_compile_error()).into()
}

/// The same for programs that know these crates through the facade `corten`.
#[proc_macro_derive(FacadeModule, attributes(module))]
pub fn facade_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::module(&input, &quote!(::corten::nn)).unwrap_or_else(|e| e.into_compile_error()).into()
}

/// Arithmetic of tensors, numbers and results with one `?` at the end.
///
/// `expr!(a * b - 2.0 * c.exp() + 1.0)?` is the tensor: operands that have a name are borrowed, and results of
/// operators need no `?` of their own. Gives a `Result<Tensor>`, whose error is that of the first operand or operator
/// that failed.
#[proc_macro]
pub fn expr(input: TokenStream) -> TokenStream {
    let expression = parse_macro_input!(input as Expr);
    expression::result(&expression, &quote!(::corten::ops)).into()
}
