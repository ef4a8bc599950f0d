//! The shim compiled once on this machine, into the user's cache.

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use corten_core::config;

/// The shim's source, which every program carries.
const SOURCE: &str = include_str!("../../gloo/shim.cpp");

/// What whoever lacks gloo is told.
const INSTALL: &str = "`apt-get install g++ libgloo-dev` (Debian, Ubuntu) installs what it is \
    compiled from; elsewhere build gloo from source and set CORTEN_GLOO_HOME to its prefix, or set \
    CORTEN_GLOO_LIBRARY to a libcorten_gloo.so";

/// A way to compile the shim.
struct Toolchain {
    compiler: String,
    /// The prefix of gloo.
    prefix: PathBuf,
}

impl Toolchain {
    fn find() -> Result<Self, String> {
        let compiler = compiler().ok_or("no C++ compiler (c++, g++, clang++) is in PATH")?;
        let prefix = prefixes()
            .into_iter()
            .find(|prefix| prefix.join("include/gloo/allreduce.h").is_file())
            .ok_or("gloo's headers are not installed")?;
        Ok(Self { compiler, prefix })
    }

    /// A number that changes with the shim, the compiler's name and gloo.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (SOURCE, &self.compiler, &self.prefix).hash(&mut hasher);
        fs::read(self.prefix.join("include/gloo/config.h")).unwrap_or_default().hash(&mut hasher);
        for name in ["libgloo.so", "libgloo.a"] {
            if let Ok(data) = fs::metadata(self.prefix.join("lib").join(name)) {
                (name, data.len(), data.modified().ok()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn compile(&self, folder: &Path, file: &str) -> Result<PathBuf, String> {
        let process = std::process::id();
        let source = folder.join(format!("shim-{process}.cpp"));
        let fresh = folder.join(format!("{file}.{process}"));
        fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
        let library = self.prefix.join("lib");
        let output = Command::new(&self.compiler)
            .args(["-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o"])
            .args([&fresh, &source])
            .arg(format!("-I{}", self.prefix.join("include").display()))
            .arg(format!("-L{}", library.display()))
            .args(["-lgloo", "-pthread"])
            .arg(format!("-Wl,-rpath,{}", library.display()))
            .output();
        let _ = fs::remove_file(&source);
        let output = output.map_err(|error| format!("{}: {error}", self.compiler))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let shown: Vec<&str> =
                text.lines().filter(|line| line.contains("error")).take(3).collect();
            return Err(format!("{} failed: {}", self.compiler, shown.join("; ")));
        }
        let path = folder.join(file);
        fs::rename(&fresh, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// Whether a compiler and gloo's headers are there.
pub(super) fn is_possible() -> bool {
    Toolchain::find().is_ok()
}

/// The compiled shim, compiled now if it has not been.
///
/// # Errors
/// Why it cannot be, and what to install.
pub(super) fn library(file: &str) -> Result<PathBuf, String> {
    make(file).map_err(|reason| {
        format!("The gloo back end needs {file}, which is not there and cannot be compiled: {reason}. {INSTALL}.")
    })
}

fn make(file: &str) -> Result<PathBuf, String> {
    let toolchain = Toolchain::find()?;
    let cache =
        cache().ok_or("there is no folder for it: neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = cache.join(format!("{:016x}", toolchain.fingerprint()));
    let path = folder.join(file);
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // All ranks of a host come here at once; one compiles, the others wait.
    let lock = File::create(folder.join("lock")).and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.map_err(|error| format!("{}: {error}", folder.display()))?;
    if path.is_file() { Ok(path) } else { toolchain.compile(&folder, file) }
}

/// `$XDG_CACHE_HOME/corten/gloo`.
fn cache() -> Option<PathBuf> {
    let set = |name| config::var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("corten/gloo"))
}

/// The C++ compiler: `CXX`, or the first of the usual names in `PATH`.
fn compiler() -> Option<String> {
    if let Some(chosen) = config::var("CXX").filter(|name| !name.is_empty()) {
        return Some(chosen);
    }
    let path = config::var("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let exists = |name: &&str| folders.iter().any(|folder| folder.join(name).is_file());
    ["c++", "g++", "clang++"].into_iter().find(exists).map(String::from)
}

/// Where gloo may be installed.
fn prefixes() -> Vec<PathBuf> {
    match config::var("CORTEN_GLOO_HOME").filter(|home| !home.is_empty()) {
        Some(home) => vec![PathBuf::from(home)],
        None => vec![PathBuf::from("/usr/local"), PathBuf::from("/usr")],
    }
}
