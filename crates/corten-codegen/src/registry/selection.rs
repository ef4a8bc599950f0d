//! A selective build: a program that names the operators it calls is linked without the others.

use super::{Form, Location, Mistake, Op, Registry};
use crate::schema::Schema;
use std::collections::BTreeSet;
use std::path::Path;

/// The file of names, one per line: `add.Tensor`, with or without `aten::` before it.
///
/// # Errors
/// When it cannot be read.
fn selection(file: &Path) -> Result<BTreeSet<String>, Vec<Mistake>> {
    let text = std::fs::read_to_string(file).map_err(|error| vec![mistake(file, error)])?;
    let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(names.map(|name| name.trim_start_matches("aten::").to_owned()).collect())
}

fn mistake(file: &Path, message: impl ToString) -> Mistake {
    let location = Location { file: file.display().to_string(), line: 1 };
    Mistake { location, schema: String::new(), message: message.to_string() }
}

impl Registry {
    /// Leaves every overload out that is not among the names.
    ///
    /// # Errors
    /// Names that do not exist.
    pub fn select(&mut self, file: &Path) -> Result<(), Vec<Mistake>> {
        let mut names = selection(file)?;
        for op in &mut self.ops {
            let forms: Vec<(Form, String)> =
                op.forms().map(|(form, schema)| (form, schema.full_name())).collect();
            let left_out = forms.into_iter().filter(|(_, name)| !names.remove(name));
            op.left_out = left_out.map(|(form, _)| form).collect();
        }
        let unknown: Vec<Mistake> =
            names.iter().map(|name| mistake(file, format!("no operator `{name}`"))).collect();
        if unknown.is_empty() { Ok(()) } else { Err(unknown) }
    }
}

impl Op {
    /// The schemas that a selective build keeps; otherwise all of [`Op::forms`].
    pub fn selected_forms(&self) -> impl Iterator<Item = (Form, &Schema)> {
        self.forms().filter(|(form, _)| !self.left_out.contains(form))
    }

    /// Whether a selective build keeps any form.
    pub fn is_selected(&self) -> bool {
        self.selected_forms().next().is_some()
    }
}
