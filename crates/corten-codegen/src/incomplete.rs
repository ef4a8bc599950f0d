//! Leaving out operators of which a part is not written yet, while a family is being built.
//!
//! A finished tree does not need this: a function that is named and does not exist is an error of
//! the compiler. `CORTEN_INCOMPLETE=1` turns that into a warning.

#![allow(clippy::print_stdout, reason = "cargo reads what build scripts print")]

use crate::registry::{Body, Grad, MetaRule, Mistake, Op, Paths, Registry};
use crate::rust::function_name;
use std::path::Path;

/// Whether operators may be left out.
#[allow(clippy::disallowed_methods, reason = "build scripts are configured by variables")]
pub(crate) fn allowed(root: &Path) -> bool {
    println!("cargo::rerun-if-env-changed=CORTEN_INCOMPLETE");
    let allowed = std::env::var("CORTEN_INCOMPLETE").is_ok_and(|value| value == "1");
    if allowed {
        for watched in ["corten-ops/src", "corten-cpu/src/kernels", "corten-autograd/src"] {
            println!("cargo::rerun-if-changed={}", root.join("crates").join(watched).display());
        }
    }
    allowed
}

/// Drops operators whose functions in corten-ops do not exist.
pub(crate) fn without_missing_functions(registry: &mut Registry, root: &Path) -> Vec<Mistake> {
    let source = root.join("crates/corten-ops/src");
    let mut left_out = drop_missing(registry, &source, |op| {
        let paths = |module: &str, paths: &Paths| {
            let all = [Some(&paths.main), paths.inplace.as_ref(), paths.out.as_ref()];
            all.into_iter().flatten().map(|path| format!("{module}::{path}")).collect()
        };
        match &op.body {
            Body::Any(found) => paths("any", found),
            Body::Composite(found) => paths("composite", found),
            Body::Pointwise { meta: MetaRule::Function(path), .. }
            | Body::Iterator { meta: MetaRule::Function(path), .. } => {
                vec![format!("meta::{path}")]
            }
            _ => Vec::new(),
        }
    });
    let orphan = |op: &Op| {
        matches!(op.body, Body::WrapScalar)
            && registry.tensor_overload(op).is_none_or(|(base, _)| {
                op.forms().any(|(form, _)| base.forms().all(|(other, _)| other != form))
            })
    };
    let orphans: Vec<bool> = registry.ops.iter().map(orphan).collect();
    let mut orphans = orphans.into_iter();
    registry.ops.retain(|op| {
        let orphan = orphans.next().unwrap_or(false);
        if orphan {
            left_out.push(op.mistake("wrap_scalar: no overload has tensors in place of numbers"));
        }
        !orphan
    });
    left_out
}

/// Drops operators whose kernels in corten-cpu do not exist.
pub(crate) fn without_missing_kernels(registry: &mut Registry, root: &Path) -> Vec<Mistake> {
    drop_missing(registry, &root.join("crates/corten-cpu/src"), |op| match &op.body {
        Body::Iterator { kernel, .. } => vec![format!("kernels::{kernel}")],
        Body::Kernel { kernel, inplace, out, .. } => {
            let all = [Some(kernel), inplace.as_ref(), out.as_ref()];
            all.into_iter().flatten().map(|path| format!("kernels::{path}")).collect()
        }
        _ => Vec::new(),
    })
}

/// Makes operators without their hand-written autograd kernel operators without gradient.
pub(crate) fn without_missing_manual(registry: &mut Registry, root: &Path) -> Vec<Mistake> {
    let source = root.join("crates/corten-autograd/src");
    let mut left_out = Vec::new();
    for op in &mut registry.ops {
        let manual = matches!(op.grad, Grad::Manual);
        let missing = |name: &String| !exists(&source, &format!("manual::{name}"));
        let names: Vec<String> = op.forms().map(|(_, schema)| function_name(schema)).collect();
        if manual && names.iter().any(missing) {
            left_out.push(op.mistake("grad: no such function in corten_autograd::manual"));
            op.grad = Grad::None;
        }
    }
    left_out
}

fn drop_missing(
    registry: &mut Registry,
    source: &Path,
    paths: impl Fn(&Op) -> Vec<String>,
) -> Vec<Mistake> {
    let mut left_out = Vec::new();
    registry.ops.retain(|op| {
        let missing: Vec<String> =
            paths(op).into_iter().filter(|path| !exists(source, path)).collect();
        if !missing.is_empty() {
            left_out.push(op.mistake(format!("there is no {}", missing.join(", "))));
        }
        missing.is_empty()
    });
    left_out
}

/// Whether the last name of a path occurs in the module before it: by its words alone, because
/// functions may come from macros and from modules that are re-exported.
fn exists(source: &Path, path: &str) -> bool {
    // Other names of operators, which the registry itself checks.
    if path.starts_with("composite::alias::") {
        return true;
    }
    let Some((modules, name)) = path.rsplit_once("::") else { return false };
    // The operators themselves, under the name of a module.
    if modules == "composite::alias" {
        return true;
    }
    let mut directory = source.to_path_buf();
    for module in modules.split("::") {
        let parent = [directory.join("mod.rs"), directory.join("lib.rs")];
        let file = directory.with_extension("rs");
        let declared = parent.iter().chain([&file]).any(|file| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.contains(&format!("mod {module};"))
        });
        if !declared {
            return false;
        }
        directory.push(module);
    }
    mentions(&directory.with_extension("rs"), name) || mentions_below(&directory, name)
}

fn mentions_below(directory: &Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => mentions_below(&path, name),
        false => mentions(&path, name),
    })
}

fn mentions(file: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
}
