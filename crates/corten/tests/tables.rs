//! The tables of docs/rust.md name what there is.
#![allow(clippy::unwrap_used)] // tests may

use corten::nn::optim::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Asgd, AveragedParameters, GradScaler, Lbfgs,
    Muon, NAdam, RAdam, RmsProp, Rprop, Sgd, lr_scheduler as schedules,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rust.md");

/// The names in the last column of the table below a heading, without the rows that give a reason.
fn listed(heading: &str) -> Vec<String> {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let section = text.split(&format!("### {heading}\n")).nth(1).unwrap().to_owned();
    let section = section.split("\n#").next().unwrap().to_owned();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|row| row.trim_matches('|').rsplit('|').next().unwrap().trim().to_owned());
    let cells = cells.filter(|cell| !cell.starts_with('–'));
    cells
        .flat_map(|cell| cell.replace('`', "").split(", ").map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The last part of a type's name, without its parameters.
fn names(types: &[&str]) -> Vec<String> {
    let last =
        |name: &&str| name.split('<').next().unwrap().rsplit("::").next().unwrap().to_owned();
    types.iter().map(last).collect()
}

/// The names of types as they are written; a type that does not exist does not compile.
macro_rules! written {
    ($($type:ty),+ $(,)?) => {{
        let _: &[usize] = &[$(size_of::<$type>()),+];
        names(&[$(stringify!($type)),+])
    }};
}

#[test]
fn optimizers_exist() {
    let known = written![
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
    assert_eq!(listed("Optimizers"), known);
}

#[test]
fn schedules_exist() {
    let mut known = written![
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
    known.iter_mut().for_each(|name| *name = name.trim().to_owned());
    assert_eq!(listed("Schedules"), known);
}

#[test]
fn formats_exist() {
    // What does not exist cannot be imported.
    #[allow(unused_imports)]
    use corten::io::{
        gguf::{self, Opened},
        npy::{self, load_npz, save_npz},
        safetensors::{load, save},
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
    ];
    assert_eq!(listed("File formats"), known);
}
