//! `names`: docs/names.md, the rules for names of dimensions and the operators that follow each.

use crate::{Outcome, root};
use corten_codegen::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/names.md";
/// Where the rules are, each with its documentation.
const RULES: [&str; 2] =
    ["crates/corten-ops/src/names/rules.rs", "crates/corten-ops/src/names/rules/product.rs"];

const HEAD: &str = r#"# Names of dimensions

A dimension may have a name. Operators check the names of their arguments and give names to their results, and take
names in the place of positions. PyTorch had this up to version 2.12; what follows is as it was there.

```python
import corten

images = corten.zeros(2, 3, 4, 5, names=("N", "C", "H", "W"))
assert images.mean(["H", "W"]).names == ("N", "C")
scale = corten.ones(3, names=("C",))
assert (images * scale.align_as(images)).names == ("N", "C", "H", "W")
assert images.align_to("N", ..., "C").shape == (2, 4, 5, 3)
assert images.flatten(["C", "H", "W"], "features").shape == (2, 60)
```

- **Giving names**: `names=` of `empty`, `zeros`, `ones`, `full`, `rand`, `randn` and `tensor`; the attribute `names`;
  `rename` (`x.rename("N", ...)`, `x.rename(N="batch")`, `x.rename(None)`) and `rename_`; `refine_names`, which names
  unnamed dimensions and checks the others. A name is an identifier; no two dimensions of a tensor have the same.
- **Using names**: wherever an operator takes a dimension, it takes its name, and names in a list of dimensions; `size`
  and `stride` do. `align_to` and `align_as` order dimensions by name and add those that are missing, with size 1.
  `flatten(dims, out_dim)` and `unflatten(dim, namedshape)` join and split dimensions.
- **Two names match** if they are equal or one is `None`; the result has the one that is not. Tensors are still
  broadcast by position from the right.
- **Writing**: an operator in place or with `out=` gives its names to a tensor without names; one with names must have
  the same.
- **Gradients have no names**, and a backward pass does not look at names.
- **Views, `detach`, `data`, copies** keep names; files and other processes do not take named tensors.
- **Rust**: the methods `rename`, `rename_pairs`, `refine_names`, `align_to`, `align_as`, `flatten_names`,
  `unflatten_names`, `with_names`, `names` of the builders of factories; `dim_of` and `dims_of` give positions to operators
  that take these.

A call with a named tensor stops at the dispatch key `Named`, the highest of all (see Note [Place of the key `Named`] in
`crates/corten-core/src/tensor/names.rs`). Its kernel asks the rule of the operator, which its block names with
`names = "…"`, and calls the operator again without the key: autograd, `vmap` and kernels know nothing of names, and
calls without names are as they were. An operator without a rule refuses named tensors: drop the names by
`x.rename(None)`, and name the result.

## Rules

`cargo xtask names` writes this table from the rules and the registry. In-place and `out=` forms follow the rule of
their operator.

| rule | names of the results | operators |
|---|---|---|
"#;

/// Writes the page.
pub(crate) fn run() -> Outcome {
    std::fs::write(root().join(PAGE), page()?).map_err(|error| format!("{PAGE}: {error}"))
}

/// What is wrong with the page that is there.
pub(crate) fn complaint() -> Option<String> {
    let found = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    match page() {
        Ok(page) if page == found => None,
        Ok(_) => Some(format!("{PAGE}: not what `cargo xtask names` writes")),
        Err(message) => Some(message),
    }
}

fn page() -> Result<String, String> {
    let registry = Registry::read(&root().join("ops"))
        .map_err(|mistakes| format!("{} mistakes in ops/*.toml", mistakes.len()))?;
    let mut operators: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for op in &registry.ops {
        if let Some(rule) = op.names_rule() {
            operators.entry(rule).or_default().insert(&op.schema.name);
        }
    }
    let mut page = HEAD.to_owned();
    for (rule, meaning) in rules()? {
        let followers = operators.remove(rule.as_str()).unwrap_or_default();
        let list: Vec<String> = followers.iter().map(|name| format!("`{name}`")).collect();
        page.push_str(&format!("| `{rule}` | {meaning} | {} |\n", list.join(" ")));
    }
    match operators.keys().next() {
        Some(unknown) => Err(format!("names = \"{unknown}\" is no rule")),
        None => Ok(page),
    }
}

/// The rules with their documentation, in the order of their sources.
fn rules() -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for source in RULES {
        let text = std::fs::read_to_string(root().join(source))
            .map_err(|error| format!("{source}: {error}"))?;
        let mut doc = Vec::new();
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("/// ") {
                doc.push(words.to_owned());
            } else if let Some(rest) = line.strip_prefix("pub(crate) fn ") {
                let name = rest.split('(').next().unwrap_or_default().to_owned();
                found.push((name, doc.join(" ")));
                doc.clear();
            } else {
                doc.clear();
            }
        }
    }
    Ok(found)
}
