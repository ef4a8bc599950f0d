//! The rule that memory is asked for fallibly where a length can be chosen: by the sizes of tensors, by
//! their elements, by arguments. `corten_core` has the functions (`try_vec`, `unwinding::vec` …).
//!
//! What is left must be short. A literal length is, and one that is said to be a rank; others have a
//! comment on their line or above it: `// Bounded: a pair for each argument.`

/// Where the rule holds. `corten-gemm` allocates blocks of bounded sizes; for `corten-linalg`
/// and other libraries the memory is asked for by those who call them (`check_memory`).
const CHECKED: [&str; 8] = [
    "crates/corten-autograd/src",
    "crates/corten-core/src",
    "crates/corten-cpu/src",
    "crates/corten-data/src",
    "crates/corten-io/src",
    "crates/corten-nn/src",
    "crates/corten-ops/src",
    "python/binding/src",
];

/// What ends the process when memory cannot be had, up to the length.
const CALLS: [&str; 6] =
    ["vec![", "Vec::with_capacity(", ".repeat(", ".reserve(", "from_elem(", "resize_with("];

/// Lengths that are ranks of tensors and numbers of arguments.
const SHORT: [&str; 10] = [
    "rank",
    ".dim()",
    "sizes.len()",
    "shape.len()",
    "dims.len()",
    "tensors.len()",
    "inputs.len()",
    "outputs.len()",
    "parameters.len()",
    "self_.len()",
];

const MARK: &str = "ounded: ";

/// The lines of a file that ask for memory without saying that it is little.
pub(crate) fn complaints(shown: &str, text: &str) -> Vec<String> {
    let checked = CHECKED.iter().any(|folder| shown.starts_with(folder));
    let tests = shown.contains("/tests/") || shown.ends_with("tests.rs");
    if !checked || tests || shown.ends_with("allocator/vectors.rs") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut before = "";
    for (i, line) in text.lines().enumerate() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        let code = line.split("//").next().unwrap_or(line);
        let marked = line.contains(MARK) || before.contains(MARK);
        if !marked && (CALLS.iter().any(|call| is_long(code, call)) || collects(shown, code)) {
            found.push(format!(
                "{shown}:{}: memory of a length that may be chosen: use try_vec, try_collect … of \
                 corten_core, or say `// Bounded: …`",
                i + 1
            ));
        }
        before = line;
    }
    found
}

/// Whether a line has such a call with a length that may be long.
fn is_long(code: &str, call: &str) -> bool {
    let Some(at) = code.find(call) else { return false };
    if call == "vec![" && code[..at].ends_with("small") {
        return false;
    }
    let arguments = inside(&code[at + call.len()..]);
    let separator = match call {
        "vec![" => ';',
        "from_elem(" => ',',
        _ => '\0',
    };
    let length = match arguments.split_once(separator) {
        Some((_, length)) => length,
        None if separator == '\0' => arguments,
        None => return false,
    };
    let literal = length.trim_start().starts_with(|letter: char| letter.is_ascii_digit());
    !literal && !SHORT.iter().any(|short| length.contains(short))
}

/// What stands before the bracket that closes a call, or before the end of the line.
fn inside(arguments: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in arguments.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return &arguments[..at],
            ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    arguments
}

/// Whether a kernel collects into a vector what is not one item for each dimension or tensor.
fn collects(shown: &str, code: &str) -> bool {
    let vector =
        code.contains("collect::<Vec") || code.contains("Vec<") && code.contains(".collect(");
    let short = ["dim", "rank", "sizes", "shape", "tensor", "list", "Result<Vec"];
    shown.starts_with("crates/corten-cpu/")
        && vector
        && !short.iter().any(|word| code.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        complaints("crates/corten-cpu/src/kernels/sum.rs", text).len()
    }

    #[test]
    fn lengths_that_may_be_chosen_are_found() {
        for line in [
            "let room = vec![0.0; count];",
            "let room: Vec<f64> = values.iter().map(|x| x + 1.0).collect();",
            "let rows = Vec::with_capacity(values.len() + 1);",
            "buffer.reserve(count);",
            "let text = \" \".repeat(width);",
            "let counts = SmallVec::from_elem(0, mask.len());",
        ] {
            assert_eq!(count(line), 1, "{line}");
            assert_eq!(count(&format!("// Bounded: a block.\n{line}")), 0, "{line}");
        }
    }

    #[test]
    fn short_lengths_are_not() {
        for line in [
            "let shape = vec![1; self_.dim()];",
            "let out = vec![Tensor::undefined(); 3];",
            "let both = vec![first, last];",
            "let kept = if train { vec![count] } else { vec![0] }; done();",
            "let strides: Dims = smallvec![0; count];",
            "// Not vec![0; count].",
            "#[cfg(test)]\nlet room = vec![0; count];",
        ] {
            assert_eq!(count(line), 0, "{line}");
        }
    }
}
