//! `expr!`: arithmetic of tensors, numbers and results with one `?`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{BinOp, Expr, ExprUnary, UnOp};

/// The result of an expression; `ops` is where the crate of operators is found.
pub(crate) fn result(expression: &Expr, ops: &TokenStream) -> TokenStream {
    let term = term(expression, ops);
    quote!(#ops::expression::Term::finish(#term))
}

/// The expression with every operand as a term.
fn term(expression: &Expr, ops: &TokenStream) -> TokenStream {
    match expression {
        Expr::Binary(binary) if is_arithmetic(&binary.op) => {
            let (left, right) = (term(&binary.left, ops), term(&binary.right, ops));
            let operator = &binary.op;
            quote!((#left #operator #right))
        }
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. })
            if !matches!(**expr, Expr::Lit(_)) =>
        {
            let inner = term(expr, ops);
            quote!((-#inner))
        }
        Expr::Paren(paren) => term(&paren.expr, ops),
        Expr::Group(group) => term(&group.expr, ops),
        // What has a name is borrowed, so that it can be used again.
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => {
            quote!(#ops::expression::Operand::term(&#expression))
        }
        _ => quote!(#ops::expression::Operand::term(#expression)),
    }
}

fn is_arithmetic(operator: &BinOp) -> bool {
    matches!(operator, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_))
}
