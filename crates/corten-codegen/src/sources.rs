//! What the generators read: declarations and the parts of hand-written code they refer to.

use crate::emit::CudaParts;
use crate::formula::Functions;
use crate::formula::pointwise::{CudaVocabulary, Vocabulary};
use crate::registry::{Location, Mistake, Registry};
use quote::ToTokens;
use std::path::Path;

/// The registry with what its expressions and formulas can call.
#[derive(Debug, Default)]
pub struct Sources {
    /// The operators.
    pub registry: Registry,
    /// The functions of pointwise expressions.
    pub vocabulary: Vocabulary,
    /// The functions of gradient formulas.
    pub functions: Functions,
}

/// The directory of the declarations, below the root of the repository.
pub(crate) const OPS: &str = "ops";
/// The source of the vocabulary of pointwise expressions.
pub(crate) const EXPR: &str = "crates/corten-cpu/src/vec/expr.rs";
/// The operators that the CPU declares not to have.
pub(crate) const CPU_MISSING: &str = "crates/corten-cpu/missing.toml";
/// The texts that define primitives of CUDA kernels: the first is part of every kernel, the others of those
/// that need them.
pub(crate) const CUDA_TEXT: &str = "crates/corten-cuda/kernels";
const PRIMITIVES: &[&str] = &["math", "special", "incomplete", "polynomials"];
/// The sources of the coefficients of special functions, which CUDA's text has as tables.
pub(crate) const TABLES: [&str; 3] = [
    "crates/corten-cpu/src/special/gamma.rs",
    "crates/corten-cpu/src/special/incomplete.rs",
    "crates/corten-cpu/src/vec/bessel.rs",
];
/// The functions that launch CUDA kernels, one file per family.
pub(crate) const CUDA_KERNELS: &str = "crates/corten-cuda/src/kernels";
/// The crate of the functions of gradient formulas.
const AUTOGRAD: &str = "crates/corten-autograd/src";
/// The sources of the functions of gradient formulas.
pub(crate) const FORMULAS: &str = "crates/corten-autograd/src/formulas";

impl Sources {
    /// Reads everything below the root of the repository; declarations with mistakes are left
    /// out.
    ///
    /// # Errors
    /// A source that is not Rust.
    pub fn read_sound(root: &Path) -> Result<Self, Vec<Mistake>> {
        let registry = Registry::read_sound(&root.join(OPS)).0;
        Ok(Self { registry, vocabulary: vocabulary(root)?, functions: functions(root)? })
    }
}

/// The vocabulary of pointwise expressions.
pub(crate) fn vocabulary(root: &Path) -> Result<Vocabulary, Vec<Mistake>> {
    let text = std::fs::read_to_string(root.join(EXPR)).unwrap_or_default();
    Vocabulary::read(&text).map_err(|message| vec![trouble(EXPR, message)])
}

/// The functions of gradient formulas.
pub(crate) fn functions(root: &Path) -> Result<Functions, Vec<Mistake>> {
    Functions::read(&root.join(AUTOGRAD)).map_err(|message| vec![trouble(FORMULAS, message)])
}

/// What corten-cuda has: an operator whose kernel has a function of the same name there, or one that a macro
/// defines, runs on CUDA.
pub(crate) fn cuda_parts(root: &Path) -> Result<CudaParts, Vec<Mistake>> {
    let mut kernels = std::collections::BTreeSet::new();
    add_kernels(&root.join(CUDA_KERNELS), "", &mut kernels)?;
    let mut primitives = CudaVocabulary::default();
    for name in PRIMITIVES {
        let path = root.join(CUDA_TEXT).join(format!("{name}.cuh"));
        primitives.add(name, &std::fs::read_to_string(path).unwrap_or_default());
    }
    Ok(CudaParts { primitives, kernels, tables: tables(root)? })
}

/// Adds the public functions of a folder's files as `family::name`; a folder in it is a family of families.
fn add_kernels(
    folder: &Path,
    above: &str,
    kernels: &mut std::collections::BTreeSet<String>,
) -> Result<(), Vec<Mistake>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let family = format!("{above}{stem}");
        if path.is_dir() {
            add_kernels(&path, &format!("{family}::"), kernels)?;
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let file = syn::parse_file(&text)
            .map_err(|error| vec![trouble(CUDA_KERNELS, format!("{family}: {error}"))])?;
        for item in file.items {
            match item {
                syn::Item::Fn(item) if matches!(item.vis, syn::Visibility::Public(_)) => {
                    kernels.insert(format!("{family}::{}", item.sig.ident));
                }
                // An invocation: a definition has a name.
                syn::Item::Macro(item) if item.ident.is_none() => {
                    let names = public_functions(item.mac.tokens);
                    kernels.extend(names.into_iter().map(|name| format!("{family}::{name}")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The constant arrays of numbers in the sources of special functions, as C++.
fn tables(root: &Path) -> Result<String, Vec<Mistake>> {
    let mut tables = String::new();
    for path in TABLES {
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let file =
            syn::parse_file(&text).map_err(|error| vec![trouble(path, error.to_string())])?;
        for item in file.items {
            let syn::Item::Const(item) = item else { continue };
            if let (syn::Type::Array(_), syn::Expr::Array(_)) = (&*item.ty, &*item.expr) {
                tables.push_str(&table(&item));
            }
        }
    }
    Ok(tables)
}

/// One of them. Brackets become sizes and braces; C++ has no underscores in numbers.
fn table(item: &syn::ItemConst) -> String {
    let (mut sizes, mut ty) = (String::new(), &*item.ty);
    while let syn::Type::Array(array) = ty {
        sizes.push_str(&format!("[{}]", array.len.to_token_stream()));
        ty = &array.elem;
    }
    let values = item.expr.to_token_stream().to_string();
    let values = values.replace('[', "{").replace(']', "}").replace('_', "");
    format!("__device__ const double {}{sizes} = {values};\n", item.ident)
}

/// The functions that the invocation of a macro names as `pub fn name`.
fn public_functions(tokens: proc_macro2::TokenStream) -> Vec<String> {
    let words: Vec<String> = tokens.into_iter().map(|token| token.to_string()).collect();
    let named = words.windows(3).filter(|words| words[0] == "pub" && words[1] == "fn");
    named.map(|words| words[2].clone()).collect()
}

fn trouble(file: &str, message: String) -> Mistake {
    Mistake {
        location: Location { file: file.to_owned(), line: 1 },
        schema: String::new(),
        message,
    }
}
