//! `ops`: how far the registry reaches, per family.

use crate::{Outcome, root};
use corten_codegen::registry::{Body, Grad, Missing, Op, Registry, missing};
use std::collections::BTreeMap;

const COLUMNS: [&str; 12] = [
    "operators",
    "overloads",
    "pointwise",
    "iterator",
    "kernel",
    "any",
    "composite",
    "in-place",
    "out",
    "formula",
    "no grad",
    "cpu",
];

/// Prints a table of all families, or every operator of one.
pub(crate) fn run(family: Option<&str>) -> Outcome {
    let (registry, mistakes) = Registry::read_sound(&root().join("ops"));
    for mistake in &mistakes {
        eprintln!("{mistake}");
    }
    let missing = missing(&root().join("crates/corten-cpu/missing.toml"));
    let missing = missing.map_err(|mistakes| format!("{}", mistakes[0]))?;
    match family {
        Some(family) => one(&registry, family, &missing),
        None => {
            table(&registry, &missing);
            Ok(())
        }
    }
}

/// Whether a backend needs something of its own for the operator.
fn needs_backend(op: &Op) -> bool {
    op.is_iterator() || matches!(op.body, Body::Kernel { .. })
}

fn counts(op: &Op, missing: &Missing) -> [usize; 12] {
    let backend = needs_backend(op) && !missing.missing.contains_key(&op.schema.full_name());
    [
        true,
        false,
        matches!(op.body, Body::Pointwise { .. }),
        matches!(op.body, Body::Iterator { .. }),
        matches!(op.body, Body::Kernel { .. }),
        matches!(op.body, Body::Any(_)),
        matches!(op.body, Body::Composite(_) | Body::WrapScalar | Body::CopyOf(_)),
        op.inplace.is_some(),
        op.out.is_some(),
        matches!(op.grad, Grad::Formulas { .. } | Grad::Multi { .. } | Grad::Manual),
        matches!(op.grad, Grad::None),
        backend,
    ]
    .map(usize::from)
}

fn table(registry: &Registry, missing: &Missing) {
    let mut families: BTreeMap<&str, [usize; 12]> = BTreeMap::new();
    let mut total = [0; 12];
    for op in &registry.ops {
        let row = families.entry(&op.family).or_default();
        let mut counted = counts(op, missing);
        counted[1] = op.forms().count();
        for i in 0..12 {
            row[i] += counted[i];
            total[i] += counted[i];
        }
    }
    let width = families.keys().map(|name| name.len()).max().unwrap_or(0).max(6);
    println!("{:width$}  {}", "family", COLUMNS.map(|name| format!("{name:>9}")).join(" "));
    for (family, row) in families {
        println!("{family:width$}  {}", row.map(|count| format!("{count:>9}")).join(" "));
    }
    println!("{:width$}  {}", "total", total.map(|count| format!("{count:>9}")).join(" "));
    println!(
        "cpu: operators that need a kernel of the backend and have one; the others are built from these."
    );
}

fn one(registry: &Registry, family: &str, missing: &Missing) -> Outcome {
    let ops: Vec<&Op> = registry.ops.iter().filter(|op| op.family == family).collect();
    if ops.is_empty() {
        return Err(format!("no family is called `{family}`"));
    }
    for op in ops {
        let grad = match &op.grad {
            Grad::None => "none",
            Grad::Composite => "composite",
            Grad::Manual => "manual",
            Grad::Formulas { .. } => "formulas",
            Grad::Multi { .. } => "multi",
        };
        let forms: Vec<String> = op.forms().map(|(_, schema)| schema.full_name()).collect();
        let cpu = match (needs_backend(op), missing.missing.contains_key(&op.schema.full_name())) {
            (true, true) => "  missing on cpu",
            _ => "",
        };
        println!("{:44} {:40} grad {grad}{cpu}", forms.join(" "), op.implementation());
    }
    Ok(())
}
