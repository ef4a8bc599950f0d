//! Results that are the same but for rounding: sums may be formed in another order.

/// Refusals that PyTorch words otherwise or does not make, as a part of what is found and of what
/// it gives; which of its own texts it gives depends on the library that it hands the call to.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("should be the same or input should be a MKLDNN tensor", "expected scalar type"),
    ("Output size is too small", "could not construct a memory descriptor"),
    ("Output size is too small", "numel: integer multiplication overflow"),
    ("!Index index out of range in self", "INDICES element is out of DATA bounds"),
    ("expand(torch.BFloat16Tensor{", "expand(CPUBFloat16Type{"),
    // Running statistics that overlap themselves: PyTorch overwrites them in some order.
    ("more than one element of the written-to tensor refers to a single memory location", "t"),
];

/// Whether two results have the same types and shapes, the same strides where a dimension has more
/// than one element, and numbers that differ by no more than a few roundings of the least exact
/// dtype among them. An undefined tensor is `None` in PyTorch.
pub(crate) fn same(found: &str, expected: &str) -> bool {
    let found = found.replace("undefined", "n");
    if found == expected {
        return true;
    }
    if found.starts_with('!') || expected.starts_with('!') {
        return OTHER_WORDS.iter().any(|(a, b)| found.contains(a) && expected.contains(b));
    }
    let (found, expected): (Vec<&str>, Vec<&str>) =
        (found.split(' ').collect(), expected.split(' ').collect());
    let tolerance =
        expected.iter().filter_map(|item| dtype(item)).map(rounding).fold(0.0, f64::max);
    found.len() == expected.len()
        && found.iter().zip(&expected).all(|(a, b)| a == b || same_item(a, b, tolerance))
}

fn same_item(found: &str, expected: &str, tolerance: f64) -> bool {
    let (Some((found, a)), Some((expected, b))) = (found.split_once(':'), expected.split_once(':'))
    else {
        return false;
    };
    let numbers = |text: &str| -> Vec<f64> {
        text.split([',', '_']).filter_map(|number| number.parse().ok()).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    same_geometry(found, expected)
        && a.len() == b.len()
        && a.iter().zip(&b).all(|(&a, &b)| close(a, b, tolerance))
}

/// `t6[2,1][1,7]+0`: strides of dimensions without a second element mean nothing.
fn same_geometry(found: &str, expected: &str) -> bool {
    let parts = |text: &str| -> Vec<Vec<String>> {
        text.split(['[', ']']).map(|part| part.split(',').map(str::to_owned).collect()).collect()
    };
    let (mut found, expected) = (parts(found), parts(expected));
    if found.len() != expected.len() || found.len() < 5 || found[..3] != expected[..3] {
        return false;
    }
    let sizes = &expected[1];
    for (dim, stride) in found[3].iter_mut().enumerate() {
        let free =
            sizes.contains(&"0".to_owned()) || sizes.get(dim).is_some_and(|size| size == "1");
        if let (true, Some(other)) = (free, expected[3].get(dim)) {
            stride.clone_from(other);
        }
    }
    found == expected
}

/// The dtype's number at the start of a tensor, `t6[2` or `at6[2`.
fn dtype(item: &str) -> Option<u32> {
    let (start, _) = item.split_once('[')?;
    start.trim_start_matches('a').strip_prefix('t')?.parse().ok()
}

/// What a few roundings may change in a number of about one.
fn rounding(dtype: u32) -> f64 {
    match dtype {
        5 => 4e-3,
        15 => 3e-2,
        6 | 9 => 4e-5,
        7 | 10 => 1e-9,
        _ => 0.0,
    }
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= tolerance * b.abs().max(1.0)
}
