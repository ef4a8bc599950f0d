//! `size`: the bytes of the release library by crate, and whether they stay within their budget.

use crate::{Outcome, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most bytes of the whole library, and of the library as a wheel compresses it.
const MOST: u64 = 35_500_000;
const MOST_COMPRESSED: u64 = 12_000_000;

/// The most bytes of a crate's code and data; all that stands in no row may have the last one together.
const BUDGET: &[(&str, u64)] = &[
    ("corten_cpu", 16_600_000),
    ("corten_ops", 5_450_000),
    ("corten_gemm", 2_250_000),
    ("corten_autograd", 2_270_000),
    ("corten_linalg", 2_250_000),
    ("corten_cuda", 1_900_000),
    (MODULE, 1_400_000),
    ("corten_core", 300_000),
    (OTHERS, 4_300_000),
];

/// The row of the extension module's own functions.
const MODULE: &str = "the extension module";

/// The row of what stands in no other.
const OTHERS: &str = "others";

/// Prints the sizes, and fails where one is beyond its budget.
pub(crate) fn run() -> Outcome {
    let library = root().join("target/release/lib_C.so");
    if !library.exists() {
        println!(
            "size: there is no release library; `cargo build --release -p corten-python` makes it"
        );
        return Ok(());
    }
    let bytes = fs::read(&library).map_err(|error| format!("{}: {error}", library.display()))?;
    let compressed = miniz_oxide::deflate::compress_to_vec(&bytes, 6).len() as u64;
    let mut over = Vec::new();
    print("library", bytes.len() as u64, MOST, &mut over);
    print("compressed", compressed, MOST_COMPRESSED, &mut over);
    match newest_map().map(fs::read).transpose() {
        Ok(Some(map)) => {
            let crates = by_crate(&String::from_utf8_lossy(&map));
            for &(name, budget) in BUDGET {
                print(name, crates.get(name).copied().unwrap_or(0), budget, &mut over);
            }
        }
        Ok(None) => println!("size: the linker wrote no map, so that sizes by crate are not known"),
        Err(error) => return Err(format!("the linker's map: {error}")),
    }
    match over.is_empty() {
        true => Ok(()),
        false => Err(format!("over the budget of xtask/src/size.rs: {}", over.join(", "))),
    }
}

fn print(name: &str, bytes: u64, budget: u64, over: &mut Vec<String>) {
    println!("{name:22}{bytes:>12} of {budget:>12}");
    if bytes > budget {
        over.push(name.to_owned());
    }
}

/// The map of the last release build, which the build script of the extension module asks for.
fn newest_map() -> Option<PathBuf> {
    let builds = fs::read_dir(root().join("target/release/build")).ok()?;
    let maps = builds.flatten().map(|build| build.path().join("out/link.map"));
    let written = |map: &PathBuf| fs::metadata(map).and_then(|data| data.modified()).ok();
    let dated = maps.filter_map(|map| Some((written(&map)?, map)));
    dated.max_by_key(|&(time, _): &(SystemTime, _)| time).map(|(_, map)| map)
}

/// Where names stand in the lines of a map of LLD, behind address, load address, size and alignment.
const NAMES: usize = 49;

/// The indent of the sections of files; those of the library have none, symbols twice as much.
const OF_FILES: usize = 8;

/// Sums the sections of every crate in a map of LLD that are loaded to memory.
fn by_crate(map: &str) -> BTreeMap<&'static str, u64> {
    let mut sizes = BTreeMap::new();
    let mut loaded = false;
    for line in map.lines() {
        let (Some(numbers), Some(name)) = (line.get(..NAMES), line.get(NAMES..)) else { continue };
        let mut numbers = numbers.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        let (Some(Some(address)), Some(Some(size))) = (numbers.next(), numbers.nth(1)) else {
            continue;
        };
        match name.len() - name.trim_start().len() {
            0 => loaded = address > 0,
            OF_FILES if loaded && name.contains(":(") => {
                *sizes.entry(row_of(name.trim_start())).or_insert(0) += size;
            }
            _ => {}
        }
    }
    sizes
}

/// The row of [`BUDGET`] that a section counts for, from the file that it comes from.
fn row_of(section: &str) -> &'static str {
    let file = section.split(":(").next().unwrap_or("");
    let name = Path::new(file.split('(').next().unwrap_or("")).file_name();
    let name = name.and_then(|name| name.to_str()).unwrap_or("");
    let of_crate = |name: &str, file: &str| {
        let rest = file.strip_prefix("lib").and_then(|file| file.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    if name.starts_with("_C.") {
        return MODULE;
    }
    let row = BUDGET.iter().find(|(row, _)| of_crate(row, name));
    row.map_or(OTHERS, |&(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_count_for_their_crates() {
        let map = "\
             VMA              LMA     Size Align Out     In      Symbol
              10               10       a0    64 .text
              10               10       20    64         /deps/libcorten_cpu-1a.rlib(x.rcgu.o):(.text.f)
              10               10       20     1                 f
              30               30       30    64         /deps/_C._C.1a-cgu.0.rcgu.o:(.text.g)
              60               60       50    64         /deps/libpng-1a.rlib(x.rcgu.o):(.text.h)
               0                0     1000     1 .debug_info
               0                0     1000     1         /deps/libpng-1a.rlib(x.rcgu.o):(.debug_info)
";
        let sizes = by_crate(map);
        assert_eq!(sizes, BTreeMap::from([("corten_cpu", 32), (MODULE, 48), (OTHERS, 80)]));
    }
}
