//! Writes the C headers of `corten-c`: `corten.h` by cbindgen from the Rust source, and `corten_library.h` with the
//! same functions as members of a table.

use crate::{Outcome, root, typed};
use cbindgen::{Builder, Config};
use corten_codegen::Sources;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The source files in the order of the header.
const SOURCES: [&str; 13] = [
    "status.rs",
    "tensor.rs",
    "value.rs",
    "random.rs",
    "call.rs",
    "autograd.rs",
    "function.rs",
    "kernels.rs",
    "library.rs",
    "files.rs",
    "load.rs",
    "allocator.rs",
    "table.rs",
];

const COMMENT: &str = include_str!("header/comment.txt");
const VALUES: &str = include_str!("header/values.h");
const LIBRARY_TOP: &str = include_str!("header/library_top.h");
const LIBRARY_END: &str = include_str!("header/library_end.h");

fn home() -> PathBuf {
    root().join("crates/corten-c")
}

/// Writes both headers.
pub(crate) fn run() -> Outcome {
    let folder = home().join("include");
    headers()?.iter().try_for_each(|(name, text)| write(&folder, name, text))
}

/// Writes all headers to a folder, with the typed functions of the registry.
pub(crate) fn export(folder: &Path) -> Outcome {
    let lines = |mistakes: Vec<corten_codegen::registry::Mistake>| {
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let sources = Sources::read_sound(&root()).map_err(lines)?;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write(folder, "corten_ops.h", &typed::header(&sources.registry))?;
    headers()?.iter().try_for_each(|(name, text)| write(folder, name, text))
}

fn write(folder: &Path, name: &str, text: &str) -> Outcome {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The headers by name.
fn headers() -> Result<[(&'static str, String); 2], String> {
    let main = main_header()?;
    let table = table_header(&main)?;
    Ok([("corten.h", main), ("corten_library.h", table)])
}

fn main_header() -> Result<String, String> {
    let mut config = Config::from_file(home().join("cbindgen.toml"))?;
    config.header = Some(COMMENT.trim_end().to_owned());
    config.trailer = Some(VALUES.trim_end().to_owned());
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(home().join("src").join(source));
    }
    let bindings = builder.generate().map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    Ok(without_rust_sections(&text))
}

/// What rustdoc has under `# Safety` holds for all of C, and the comment at the top says it.
fn without_rust_sections(text: &str) -> String {
    let mut kept = Vec::<&str>::new();
    let mut skipping = false;
    for line in text.lines() {
        if line.trim() == "# Safety" {
            skipping = true;
            if kept.last().is_some_and(|line| line.trim().is_empty()) {
                kept.pop();
            }
        }
        skipping &= line.trim() != "*/";
        if !skipping {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

/// A function of the header: what it returns, its name and its parameters.
struct Prototype {
    returns: String,
    name: String,
    parameters: String,
}

fn table_header(main: &str) -> Result<String, String> {
    let source = std::fs::read_to_string(home().join("src/table.rs"));
    let source = source.map_err(|error| error.to_string())?;
    let names = names_in_order(&source)?;
    let known = prototypes(main);
    let mut text = LIBRARY_TOP.to_owned();
    for name in &names {
        let Some(found) = known.iter().find(|known| known.name == *name) else {
            return Err(format!("{name} of the table is no function of the header"));
        };
        let Prototype { returns, name, parameters } = found;
        let _ = writeln!(text, "    {returns} (*{name})({parameters});");
    }
    if let Some(left_out) = known.iter().find(|known| !names.contains(&known.name)) {
        return Err(format!("{} is missing in the table", left_out.name));
    }
    text.push_str("};\n");
    text.push_str(LIBRARY_END);
    for name in &names {
        let _ = writeln!(text, "#define {name} (corten_api->{name})");
    }
    text.push_str("\n#endif /* CORTEN_LIBRARY_H */\n");
    Ok(text)
}

/// The functions that the macro of the table lists.
fn names_in_order(source: &str) -> Result<Vec<String>, String> {
    let list = source.split_once("\nfunctions! {").and_then(|(_, rest)| rest.split_once('}'));
    let Some((list, _)) = list else { return Err("table.rs has no list of functions".to_owned()) };
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

fn prototypes(header: &str) -> Vec<Prototype> {
    let code = without_comments(header);
    let code: Vec<&str> = code.lines().filter(|line| !line.starts_with('#')).collect();
    let code = code.join(" ");
    let code = code.split_once("static inline").map_or(code.as_str(), |(before, _)| before);
    code.split(';').filter_map(prototype).collect()
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((code, comment)) = rest.split_once("/*") {
        kept.push_str(code);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

fn prototype(statement: &str) -> Option<Prototype> {
    let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let statement = statement.trim_start_matches("extern \"C\" {").trim();
    let (head, rest) = statement.split_once('(')?;
    let parameters = rest.strip_suffix(')')?;
    let begin = head.rfind("corten_")?;
    let is_function = !head.starts_with("typedef") && !head.contains('{');
    is_function.then(|| Prototype {
        returns: head[..begin].trim().to_owned(),
        name: head[begin..].to_owned(),
        parameters: parameters.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{headers, home};

    #[test]
    fn headers_are_current() {
        for (name, text) in headers().unwrap() {
            let path = home().join("include").join(name);
            let present = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(present == text, "{} is not current: cargo xtask header", path.display());
        }
    }
}
