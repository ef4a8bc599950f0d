//! From text to [`Expr`], through syn.

use super::Expr;
use crate::rust::identifier;
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{BinOp, Lit, UnOp};

pub(super) fn expression(text: &str) -> Result<Expr, String> {
    let tokens: TokenStream = text.parse().map_err(|_| format!("`{text}` is no expression"))?;
    let parsed = syn::parse2(without_keywords(tokens)).map_err(|error| format!("{error}"))?;
    convert(&parsed)
}

/// Operators and arguments may have Rust keywords as names, `where` for one.
fn without_keywords(tokens: TokenStream) -> TokenStream {
    let kept = ["self", "if", "else", "true", "false", "as", "for", "let", "match", "move"];
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if !kept.iter().any(|word| ident == word) => {
                TokenTree::Ident(Ident::new(&identifier(&ident.to_string()), ident.span()))
            }
            TokenTree::Group(group) => {
                let inner = without_keywords(group.stream());
                TokenTree::Group(Group::new(group.delimiter(), inner))
            }
            other => other,
        })
        .collect()
}

fn convert(expr: &syn::Expr) -> Result<Expr, String> {
    let boxed = |expr: &syn::Expr| convert(expr).map(Box::new);
    Ok(match expr {
        syn::Expr::Paren(paren) => convert(&paren.expr)?,
        syn::Expr::Group(group) => convert(&group.expr)?,
        syn::Expr::Lit(lit) => literal(&lit.lit)?,
        syn::Expr::Path(path) => Expr::Name(plain_name(&path.path)?),
        syn::Expr::Index(index) => match convert(&index.index)? {
            Expr::Number(i) => {
                let i = i.parse().map_err(|_| format!("`{i}` is no index"))?;
                Expr::Index(boxed(&index.expr)?, i)
            }
            _ => return Err("an index must be a number".to_owned()),
        },
        syn::Expr::Unary(unary) => match unary.op {
            UnOp::Neg(_) => Expr::Negative(boxed(&unary.expr)?),
            UnOp::Not(_) => Expr::Not(boxed(&unary.expr)?),
            _ => return Err("`*` has no meaning in a formula".to_owned()),
        },
        syn::Expr::Binary(binary) => {
            Expr::Binary(boxed(&binary.left)?, operator(&binary.op)?, boxed(&binary.right)?)
        }
        syn::Expr::Call(call) => match convert(&call.func)? {
            Expr::Name(name) => Expr::Call(name, all(&call.args)?),
            _ => return Err("only named functions can be called".to_owned()),
        },
        syn::Expr::MethodCall(call) => {
            Expr::Method(boxed(&call.receiver)?, call.method.to_string(), all(&call.args)?)
        }
        syn::Expr::If(branch) => conditional(branch)?,
        syn::Expr::Array(array) => Expr::List(all(&array.elems)?),
        _ => return Err("this syntax is not part of the formula language".to_owned()),
    })
}

fn all<'a>(exprs: impl IntoIterator<Item = &'a syn::Expr>) -> Result<Vec<Expr>, String> {
    exprs.into_iter().map(convert).collect()
}

fn plain_name(path: &syn::Path) -> Result<String, String> {
    match path.get_ident() {
        Some(ident) => Ok(ident.to_string()),
        None => Err("names have no `::` in a formula".to_owned()),
    }
}

fn literal(lit: &Lit) -> Result<Expr, String> {
    Ok(match lit {
        Lit::Int(number) if number.suffix().is_empty() => {
            Expr::Number(number.base10_digits().to_owned())
        }
        Lit::Float(number) if number.suffix().is_empty() => {
            let digits = number.base10_digits();
            let whole = !digits.contains(['.', 'e', 'E']);
            Expr::Number(if whole { format!("{digits}.0") } else { digits.to_owned() })
        }
        Lit::Str(text) => Expr::Text(text.value()),
        Lit::Bool(value) => Expr::Bool(value.value),
        _ => return Err("numbers have no suffix in a formula".to_owned()),
    })
}

fn operator(op: &BinOp) -> Result<&'static str, String> {
    Ok(match op {
        BinOp::Add(_) => "+",
        BinOp::Sub(_) => "-",
        BinOp::Mul(_) => "*",
        BinOp::Div(_) => "/",
        BinOp::Lt(_) => "<",
        BinOp::Le(_) => "<=",
        BinOp::Gt(_) => ">",
        BinOp::Ge(_) => ">=",
        BinOp::Eq(_) => "==",
        BinOp::Ne(_) => "!=",
        BinOp::And(_) => "&&",
        BinOp::Or(_) => "||",
        _ => return Err("this operator is not part of the formula language".to_owned()),
    })
}

fn conditional(branch: &syn::ExprIf) -> Result<Expr, String> {
    let block = |block: &syn::Block| match &block.stmts[..] {
        [syn::Stmt::Expr(expr, None)] => convert(expr).map(Box::new),
        _ => Err("a branch is one expression".to_owned()),
    };
    let Some((_, otherwise)) = &branch.else_branch else {
        return Err("`if` needs an `else`".to_owned());
    };
    let otherwise = match &**otherwise {
        syn::Expr::Block(other) => block(&other.block)?,
        nested => Box::new(convert(nested)?),
    };
    Ok(Expr::If(Box::new(convert(&branch.cond)?), block(&branch.then_branch)?, otherwise))
}
