//! Results that are the same but for rounding: sums may be formed in another order.

/// Whether two results have the same types, shapes and strides, and numbers that differ by no more
/// than a few roundings of their dtype. An undefined tensor is `None` in PyTorch.
pub(crate) fn same(found: &str, expected: &str) -> bool {
    let found = found.replace("undefined", "n");
    if found == expected {
        return true;
    }
    if found.starts_with('!') || expected.starts_with('!') {
        return false;
    }
    let (found, expected) = (tokens(&found), tokens(expected));
    let mut tolerance = 0.0;
    found.len() == expected.len()
        && found.iter().zip(&expected).all(|(a, b)| {
            if let Some(dtype) = tensor_dtype(b) {
                tolerance = rounding(dtype);
            }
            a == b || matches!((a.parse(), b.parse()), (Ok(a), Ok(b)) if close(a, b, tolerance))
        })
}

fn tokens(text: &str) -> Vec<&str> {
    text.split([' ', ',', ':', '_']).collect()
}

/// The dtype's number at the start of a tensor, `t6[2` or `at6[2`.
fn tensor_dtype(token: &str) -> Option<u32> {
    let (start, _) = token.split_once('[')?;
    start.trim_start_matches('a').strip_prefix('t')?.parse().ok()
}

/// What a few roundings may change in a number of about one.
fn rounding(dtype: u32) -> f64 {
    match dtype {
        5 => 4e-3,
        15 => 3e-2,
        6 | 9 => 3e-5,
        7 | 10 => 1e-9,
        _ => 0.0,
    }
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= tolerance * b.abs().max(1.0)
}
