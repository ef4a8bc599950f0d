//! The TOML of one family, as written.

use super::{Autocast, Cost};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) feature: Option<String>,
    /// The class of its operators, where their blocks name no other.
    pub(super) cost: Option<Cost>,
    #[serde(default)]
    pub(super) op: Vec<OpBlock>,
}

/// One `[[op]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpBlock {
    pub(super) schema: Spanned<String>,
    #[serde(default)]
    pub(super) variants: String,
    #[serde(default)]
    pub(super) python: Words,
    pub(super) inplace: Option<String>,
    pub(super) out: Option<String>,

    pub(super) pointwise: Option<Spanned<String>>,
    pub(super) promote: Option<String>,
    pub(super) domain: Option<String>,
    pub(super) meta: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) kernel_inplace: Option<String>,
    pub(super) kernel_out: Option<String>,
    pub(super) meta_kernel: Option<String>,
    pub(super) any: Option<String>,
    pub(super) any_inplace: Option<String>,
    pub(super) any_out: Option<String>,
    pub(super) composite: Option<String>,
    pub(super) composite_inplace: Option<String>,
    pub(super) composite_out: Option<String>,

    pub(super) grad: Option<Grad>,
    pub(super) grad_inplace: Option<BTreeMap<String, Formula>>,
    pub(super) grad_outputs: Option<Vec<usize>>,
    pub(super) node: Option<String>,
    pub(super) node_inplace: Option<String>,
    #[serde(default)]
    pub(super) exact_out: bool,
    pub(super) out_error: Option<String>,
    #[serde(default)]
    pub(super) out_history: bool,
    pub(super) batch: Option<String>,
    pub(super) cost: Option<Cost>,
    pub(super) autocast: Option<Autocast>,
    #[serde(default)]
    pub(super) nondiff: Words,
    #[serde(default)]
    pub(super) kernel_at: BTreeMap<String, String>,
    pub(super) rust: Option<String>,
    #[serde(default)]
    pub(super) doc: String,
}

/// `grad = "none"`, or a formula per argument.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Grad {
    Word(String),
    Formulas(BTreeMap<String, Formula>),
}

/// A formula, or the list of names that `grad.args` is.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Formula {
    Text(String),
    Names(Vec<String>),
}

/// One word or several, as a list or between blanks.
#[derive(Deserialize, Default)]
#[serde(untagged)]
pub(super) enum Words {
    #[default]
    None,
    Text(String),
    List(Vec<String>),
}

impl Words {
    pub(super) fn to_list(&self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Self::List(list) => list.clone(),
        }
    }
}
