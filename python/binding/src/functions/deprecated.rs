//! Argument orders that PyTorch still accepts, with a warning: numbers before the tensors they
//! scale.

/// Operators and the parameters of their deprecated signatures, in Python's names.
const ORDERS: [(&str, &[&str]); 9] = [
    ("add", &["Tensor input, Scalar alpha, Tensor other"]),
    ("sub", &["Tensor input, Scalar alpha, Tensor other"]),
    ("addcmul", &["Tensor input, Scalar value, Tensor tensor1, Tensor tensor2"]),
    ("addcdiv", &["Tensor input, Scalar value, Tensor tensor1, Tensor tensor2"]),
    (
        "addmm",
        &[
            "Scalar beta, Tensor input, Scalar alpha, Tensor mat1, Tensor mat2",
            "Scalar beta, Tensor input, Tensor mat1, Tensor mat2",
        ],
    ),
    (
        "addmv",
        &[
            "Scalar beta, Tensor input, Scalar alpha, Tensor mat, Tensor vec",
            "Scalar beta, Tensor input, Tensor mat, Tensor vec",
        ],
    ),
    (
        "addr",
        &[
            "Scalar beta, Tensor input, Scalar alpha, Tensor vec1, Tensor vec2",
            "Scalar beta, Tensor input, Tensor vec1, Tensor vec2",
        ],
    ),
    (
        "addbmm",
        &[
            "Scalar beta, Tensor input, Scalar alpha, Tensor batch1, Tensor batch2",
            "Scalar beta, Tensor input, Tensor batch1, Tensor batch2",
        ],
    ),
    (
        "baddbmm",
        &[
            "Scalar beta, Tensor input, Scalar alpha, Tensor batch1, Tensor batch2",
            "Scalar beta, Tensor input, Tensor batch1, Tensor batch2",
        ],
    ),
];

/// The deprecated parameter lists of a function, in-place ones included.
pub(crate) fn orders(function: &str) -> &'static [&'static str] {
    let base = function.strip_suffix('_').unwrap_or(function);
    ORDERS.iter().find(|(name, _)| *name == base).map_or(&[], |(_, orders)| orders)
}
