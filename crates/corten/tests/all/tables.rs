//! The tables of docs/modules.md name what there is.
#![allow(clippy::unwrap_used)] // tests may

use corten::nn::optim::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Asgd, AveragedParameters, GradScaler, Lbfgs,
    Muon, NAdam, Optimizer, RAdam, RmsProp, Rprop, Sgd, SparseAdam, lr_scheduler as schedules,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/modules.md");

/// The names in the last column of the table below a heading, without the rows that give a reason.
fn listed(heading: &str) -> Vec<String> {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let section = text.split(&format!("## {heading}\n")).nth(1).unwrap().to_owned();
    let section = section.split("\n#").next().unwrap().to_owned();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|row| row.trim_matches('|').rsplit('|').next().unwrap().trim().to_owned());
    let cells = cells.filter(|cell| !cell.starts_with('–'));
    cells
        .flat_map(|cell| cell.replace('`', "").split(", ").map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Whether a table names these and nothing else, in any order.
fn check(heading: &str, mut known: Vec<String>) {
    let mut found = listed(heading);
    found.sort();
    known.sort();
    assert_eq!(found, known, "{heading}");
}

/// The last part of a type's name, without its parameters.
fn names(types: &[&str]) -> Vec<String> {
    let last = |name: &&str| {
        let name = name.trim_start_matches("dyn ");
        name.split('<').next().unwrap().rsplit("::").next().unwrap().trim().to_owned()
    };
    types.iter().map(last).collect()
}

/// The names of types as they are written; a type that does not exist does not compile.
macro_rules! written {
    ($($type:ty),+ $(,)?) => {{
        let _: &[usize] = &[$(size_of::<&$type>()),+];
        names(&[$(stringify!($type)),+])
    }};
}

#[test]
fn optimizers_exist() {
    let known = written![
        dyn Optimizer,
        Adadelta,
        Adafactor,
        Adagrad,
        Adam,
        AdamW,
        Adamax,
        Asgd,
        Lbfgs,
        Muon,
        NAdam,
        RAdam,
        RmsProp,
        Rprop,
        Sgd,
        SparseAdam,
        AveragedParameters,
        GradScaler,
    ];
    check("Optimizers", known);
}

#[test]
fn schedules_exist() {
    let known = written![
        dyn schedules::LrScheduler,
        schedules::ChainedScheduler,
        schedules::ConstantLR,
        schedules::CosineAnnealingLR,
        schedules::CosineAnnealingWarmRestarts,
        schedules::CyclicLR,
        schedules::ExponentialLR,
        schedules::LambdaLR,
        schedules::LinearLR,
        schedules::MultiStepLR,
        schedules::MultiplicativeLR,
        schedules::OneCycleLR,
        schedules::PolynomialLR,
        schedules::ReduceLROnPlateau,
        schedules::SequentialLR,
        schedules::StepLR,
        schedules::SWALR,
    ];
    check("Schedules", known);
}

#[test]
fn formats_exist() {
    // What does not exist cannot be imported.
    #[allow(unused_imports)]
    use corten::io::{
        gguf::{self, Opened},
        npy::{self, load_npz, save_npz},
        safetensors::{load, save},
        tensorboard::{SummaryWriter, read_events},
        torch::{self, save_legacy},
    };
    let known = [
        "io::torch::load",
        "io::torch::save",
        "io::torch::load",
        "io::torch::save_legacy",
        "io::safetensors::load",
        "io::safetensors::save",
        "io::npy::load",
        "io::npy::save",
        "io::npy::load_npz",
        "io::npy::save_npz",
        "io::gguf::Opened",
        "io::gguf::save",
        "io::tensorboard::read_events",
        "io::tensorboard::SummaryWriter",
    ];
    check("File formats", known.map(str::to_owned).to_vec());
}
