//! What a selective build of a program needs. Alone in its file: the list is of the whole process.

use corten::ops::registry::called;
use corten::prelude::*;

#[test]
fn called_operators_are_those_of_the_program_and_of_its_backward_pass() -> Result<()> {
    assert!(called().is_empty());
    let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2])?.requires_grad_(true)?;
    x.sin()?.sum()?.backward()?;
    let names = called();
    for name in ["aten::sin", "aten::sum", "aten::cos", "aten::mul.Tensor"] {
        assert!(names.iter().any(|other| other == name), "{name} is not in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("bessel")));
    Ok(())
}
