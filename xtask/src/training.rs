//! The parts of docs/modules.md beside modules: optimizers, schedules and file formats.

use crate::modules::{read, rust_name, words};
use crate::root;
use std::collections::{BTreeMap, BTreeSet};

/// PyTorch's names, one a line, as `optim.Adam`.
const NAMES: &str = "tests/goldens/optimizer_names.txt";
const RUST: &str = "crates/corten-nn/src/optim";
const PYTHON: [&str; 2] = ["python/corten/optim", "python/corten/amp"];
const FORMATS_IN_RUST: &str = "crates/corten-io/src";

/// Names that are other ones in Rust.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("AveragedModel", "AveragedParameters"),
    ("LRScheduler", "LrScheduler"),
    ("RMSprop", "RmsProp"),
    ("Optimizer", "Optimizer"),
];

/// Why Rust has no type or function of a name.
const REASONS: [(&str, &str); 6] = [
    ("get_ema_avg_fn", "`Averaging` says which average"),
    ("get_ema_multi_avg_fn", "`Averaging` says which average"),
    ("get_swa_avg_fn", "`Averaging` says which average"),
    ("get_swa_multi_avg_fn", "`Averaging` says which average"),
    (
        "swap_in_optimizer_params_and_state",
        "a context of Python; `load_state_dict` takes over parameters and state",
    ),
    ("update_bn", "`reset_running_stats` of the norms, then passes over the data in training"),
];

/// A format: its name; where in the Python package it is read and written; the module of `corten::io`, and what of it
/// reads and writes. A definition is a file below `python/corten` or a reason.
struct Format {
    name: &'static str,
    python: &'static [(&'static str, &'static str)],
    instead: &'static str,
    module: &'static str,
    rust: &'static [&'static str],
}

const FORMATS: [Format; 7] = [
    Format {
        name: "PyTorch's archives (`.pt`, `.pth`)",
        python: &[("serialization.py", "load"), ("serialization.py", "save")],
        instead: "",
        module: "torch",
        rust: &["load", "save"],
    },
    Format {
        name: "PyTorch's older streams",
        python: &[("serialization.py", "load"), ("serialization.py", "save")],
        instead: ", the latter with `_use_new_zipfile_serialization=False`",
        module: "torch",
        rust: &["load", "save_legacy"],
    },
    Format {
        name: "safetensors",
        python: &[("safetensors.py", "load_file"), ("safetensors.py", "save_file")],
        instead: "",
        module: "safetensors",
        rust: &["load", "save"],
    },
    Format {
        name: "NumPy's arrays (`.npy`)",
        python: &[],
        instead: "– (NumPy's own functions; the command `corten` reads them)",
        module: "npy",
        rust: &["load", "save"],
    },
    Format {
        name: "NumPy's archives (`.npz`)",
        python: &[],
        instead: "– (NumPy's own functions; the command `corten` reads them)",
        module: "npy",
        rust: &["load_npz", "save_npz"],
    },
    Format {
        name: "GGUF",
        python: &[("gguf.py", "load"), ("gguf.py", "save")],
        instead: "",
        module: "gguf",
        rust: &["Opened", "save"],
    },
    Format {
        name: "TensorBoard's events",
        python: &[("utils/tensorboard/writer.py", "SummaryWriter")],
        instead: "",
        module: "tensorboard",
        rust: &["read_events", "SummaryWriter"],
    },
];

/// Modules of `corten-io` that are no formats of files.
const NO_FORMATS: [&str; 2] = ["atomic", "pickle"];

/// The sections, as text.
pub(crate) fn sections() -> Result<String, String> {
    let names = read(&root().join(NAMES))?;
    let of = |is_wanted: fn(&str) -> bool| -> Result<String, String> {
        names.lines().filter(|name| is_wanted(name)).map(row).collect()
    };
    Ok(format!(
        "\n## Optimizers\n\nPython: `corten.optim` and `corten.amp`; Rust: `corten::nn::optim`, with options of the same \
         name and `Options` behind it.\n\n| PyTorch | Python | Rust |\n|---|---|---|\n{}\
         \n## Schedules\n\nRust: `corten::nn::optim::lr_scheduler`.\n\n| PyTorch | Python | Rust |\n|---|---|---|\n{}\
         \n## File formats\n\n| format | Python | Rust |\n|---|---|---|\n{}",
        of(|name| !is_schedule(name))?,
        of(is_schedule)?,
        formats()?
    ))
}

fn is_schedule(name: &str) -> bool {
    name.contains("lr_scheduler.") || name.ends_with("SWALR")
}

fn row(path: &str) -> Result<String, String> {
    let name = path.rsplit('.').next().unwrap_or(path);
    let python = PYTHON.iter().try_fold(BTreeSet::new(), |mut found, folder| {
        found.extend(python_definitions(folder)?);
        Ok::<_, String>(found)
    })?;
    if !python.contains(name) {
        return Err(format!("{path}: not in the Python package"));
    }
    let known = rust_definitions()?;
    let other = BTreeMap::from(OTHER_NAMES).get(name).map(|name| (*name).to_owned());
    let own = if is_schedule(path) { name.to_owned() } else { rust_name(name) };
    let own = other.unwrap_or(own);
    let of_rust = match (known.contains(&own), BTreeMap::from(REASONS).get(name)) {
        (true, None) => format!("`{own}`"),
        (false, Some(reason)) => format!("– ({reason})"),
        (true, Some(_)) => return Err(format!("{path}: there, and with a reason not to be")),
        (false, None) => return Err(format!("{path}: neither in {RUST} nor with a reason")),
    };
    Ok(format!("| `{path}` | `corten.{path}` | {of_rust} |\n"))
}

/// The classes and functions of the Python files of a folder.
fn python_definitions(folder: &str) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for file in crate::modules::files(&root().join(folder), "py")? {
        let text = read(&file)?;
        let defined = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("class ").or_else(|| line.strip_prefix("def "))?;
            words(rest).next()
        });
        found.extend(defined.map(str::to_owned));
    }
    Ok(found)
}

/// The types and traits of the optimizers in Rust.
fn rust_definitions() -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for file in crate::modules::files(&root().join(RUST), "rs")? {
        let text = read(&file)?;
        let starts = ["pub struct ", "pub type ", "pub trait ", "pub enum "];
        let defined = text.lines().filter_map(|line| {
            let rest = starts.iter().find_map(|start| line.strip_prefix(start))?;
            words(rest).next()
        });
        found.extend(defined.map(str::to_owned));
    }
    Ok(found)
}

fn formats() -> Result<String, String> {
    let home = read(&root().join(FORMATS_IN_RUST).join("lib.rs"))?;
    let modules = home.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    for module in modules.filter(|module| !NO_FORMATS.contains(module)) {
        if FORMATS.iter().all(|format| format.module != module) {
            return Err(format!("the format `{module}` of {FORMATS_IN_RUST} is in no row"));
        }
    }
    FORMATS.iter().map(format_row).collect()
}

fn format_row(format: &Format) -> Result<String, String> {
    let Format { name, python, instead, module, rust } = format;
    let mut of_python = Vec::new();
    for (file, definition) in *python {
        let text = read(&root().join("python/corten").join(file))?;
        let starts = ["class ", "def "].map(|start| format!("{start}{definition}"));
        if !text.lines().any(|line| starts.iter().any(|start| line.starts_with(start))) {
            return Err(format!("{name}: {definition} is not in python/corten/{file}"));
        }
        let place = file.trim_end_matches(".py").replace('/', ".").replace(".writer", "");
        let place = if place == "serialization" { String::new() } else { place + "." };
        of_python.push(format!("`corten.{place}{definition}`"));
    }
    let sources = format_sources(module)?;
    for definition in *rust {
        let starts = ["pub fn ", "pub struct "].map(|start| format!("{start}{definition}"));
        if !sources.lines().any(|line| starts.iter().any(|start| line.starts_with(start))) {
            return Err(format!("{name}: {definition} is not in {FORMATS_IN_RUST}/{module}"));
        }
    }
    let of_rust: Vec<String> = rust.iter().map(|one| format!("`io::{module}::{one}`")).collect();
    let (python, rust) = (of_python.join(", "), of_rust.join(", "));
    Ok(format!("| {name} | {python}{instead} | {rust} |\n"))
}

/// The text of a module that is a file or a folder.
fn format_sources(module: &str) -> Result<String, String> {
    let folder = root().join(FORMATS_IN_RUST).join(module);
    if !folder.is_dir() {
        return read(&folder.with_extension("rs"));
    }
    crate::modules::files(&folder, "rs")?.iter().map(|file| read(file)).collect()
}
