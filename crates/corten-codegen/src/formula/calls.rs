//! The functions that gradient formulas may call beside operators: those of
//! `corten_autograd::formulas`, read from their source.

use crate::rust::Ty;
use quote::ToTokens;
use std::path::Path;
use syn::{FnArg, GenericArgument, Item, PathArguments, ReturnType, Type, Visibility};

/// One function of a formulas module.
#[derive(Debug, Clone)]
pub struct FormulaFunction {
    /// The path below the crate: `formulas::reduce::sum_grad`.
    pub path: String,
    /// The family: the first module below `formulas`.
    pub family: String,
    /// The name.
    pub name: String,
    /// The types of the parameters, or the text of the first one that formulas cannot pass.
    pub parameters: Result<Vec<Ty>, String>,
    /// The results: one type, or several of a tuple; or the text of one that formulas cannot use.
    pub results: Result<Vec<Ty>, String>,
    /// Whether it returns a `Result`.
    pub fallible: bool,
}

/// All formula functions.
#[derive(Debug, Default)]
pub struct Functions(pub Vec<FormulaFunction>);

impl Functions {
    /// Reads the module `formulas` of a crate's `src` and every module declared in it.
    ///
    /// # Errors
    /// A file that is not Rust.
    pub fn read(source: &Path) -> Result<Self, String> {
        let mut functions = Self::default();
        functions.module(&source.join("formulas"), "formulas")?;
        Ok(functions)
    }

    /// Reads `path.rs` or `path/mod.rs`; a module that has neither is the compiler's to report.
    fn module(&mut self, path: &Path, module: &str) -> Result<(), String> {
        for file in [path.with_extension("rs"), path.join("mod.rs")] {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let inner = self.source(&text, module);
            for name in inner.map_err(|error| format!("{}: {error}", file.display()))? {
                self.module(&path.join(&name), &format!("{module}::{name}"))?;
            }
        }
        Ok(())
    }

    /// Adds the public functions of one module's text, and returns the modules it declares.
    ///
    /// # Errors
    /// When the text is not Rust.
    pub fn source(&mut self, text: &str, module: &str) -> Result<Vec<String>, String> {
        let file = syn::parse_file(text).map_err(|error| error.to_string())?;
        let mut inner = Vec::new();
        for item in file.items {
            match item {
                Item::Fn(function) if !matches!(function.vis, Visibility::Inherited) => {
                    self.0.push(signature(&function.sig, module));
                }
                Item::Mod(item) if item.content.is_none() => inner.push(item.ident.to_string()),
                _ => {}
            }
        }
        Ok(inner)
    }

    /// The function of that name, of the operator's own family if there is one.
    pub fn find(&self, name: &str, family: &str) -> Option<&FormulaFunction> {
        let named = || self.0.iter().filter(|function| function.name == name);
        named().find(|function| function.family == family).or_else(|| named().next())
    }
}

fn signature(signature: &syn::Signature, module: &str) -> FormulaFunction {
    let name = signature.ident.to_string();
    let family = module.split("::").nth(1).unwrap_or_default().to_owned();
    let parameter = |input: &FnArg| match input {
        FnArg::Receiver(_) => Err("self".to_owned()),
        FnArg::Typed(typed) => parameter_type(&typed.ty),
    };
    let parameters = signature.inputs.iter().map(parameter).collect();
    let (results, fallible) = match &signature.output {
        ReturnType::Default => (Err("()".to_owned()), false),
        ReturnType::Type(_, ty) => match argument_of(ty, "Result") {
            Some(inner) => (result_types(inner), true),
            None => (result_types(ty), false),
        },
    };
    let path = format!("{module}::{name}");
    FormulaFunction { path, family, name, parameters, results, fallible }
}

fn parameter_type(ty: &Type) -> Result<Ty, String> {
    let text = ty.to_token_stream().to_string();
    if text.replace(' ', "") == "implInto<Scalar>" {
        return Ok(Ty::one(crate::rust::Base::Scalar));
    }
    Ty::from_parameter(&text).ok_or(text)
}

/// `T` of `Name<T>`.
fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

fn result_types(ty: &Type) -> Result<Vec<Ty>, String> {
    match ty {
        Type::Tuple(tuple) => tuple.elems.iter().map(result_type).collect(),
        one => Ok(vec![result_type(one)?]),
    }
}

fn result_type(ty: &Type) -> Result<Ty, String> {
    let text = ty.to_token_stream().to_string();
    let listed = argument_of(ty, "Vec").map(|inner| inner.to_token_stream().to_string());
    let read = match listed {
        Some(element) => Ty::from_parameter(&format!("&[{element}]")),
        None => Ty::from_parameter(&text),
    };
    read.ok_or(text)
}
