//! Matching of Python arguments to signatures, by tables: see Note [Overload parser].
//!
//! Note [Overload parser]: a function has one or more signatures in PyTorch's schema language. They
//! are tried in order and the first that accepts all arguments wins, by the rules and in the words
//! of PyTorch's own parser. Registry operators and hand-written functions share it: the former get
//! their signatures from the registry, the latter write them down as text (`parser!`).

mod bound;
mod check;
mod mismatch;
mod operand;
mod parse;
mod scalar;
mod signature;

pub(crate) use bound::Bound;
pub(crate) use check::{NumberKind, Overloaded, is_int, is_tensor_like, number_kind, stand_ins};
pub(crate) use operand::{Operand, operand};
pub(crate) use parse::Parser;
pub(crate) use scalar::{dtype_arg, index_of, scalar_from, text_from};
pub(crate) use signature::{Interned, Param, ParamKind, Signature, default_value, split_arguments};

/// A parser for hand-written functions: `parser!("size(int? dim=None)", …).parse(args)?`.
macro_rules! parser {
    ($($text:expr),+ $(,)?) => {{
        static PARSER: std::sync::OnceLock<$crate::args::Parser> = std::sync::OnceLock::new();
        PARSER.get_or_init(|| $crate::args::Parser::from_texts(&[$($text),+]))
    }};
}
pub(crate) use parser;
