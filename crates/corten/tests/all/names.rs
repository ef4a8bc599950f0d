//! Names of dimensions in Rust programs.

use corten::autograd::BackwardOptions;
use corten::ops::without_names;
use corten::prelude::*;
use std::sync::Arc;

fn names(tensor: &Tensor) -> Vec<String> {
    let name = |name: Option<Arc<str>>| name.map_or("*".to_owned(), |name| name.to_string());
    tensor.dim_names().into_iter().map(name).collect()
}

fn words<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => String::new(),
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn names_are_given_and_taken_away() -> Result<()> {
    let x = Tensor::zeros([2, 3])?;
    assert!(!x.has_names() && x.names().is_none());
    let named = x.refine_names(["N", "C"])?;
    assert_eq!(names(&named), ["N", "C"]);
    assert!(!x.has_names(), "a view has the names");
    assert_eq!(names(&named.rename(["batch", "..."])?), ["batch", "C"]);
    assert_eq!(names(&named.rename_pairs(&[("C", "channels")])?), ["N", "channels"]);
    assert_eq!(names(&named.rename([Some("N"), None])?), ["N", "*"]);
    assert!(!named.rename([None])?.has_names());
    named.rename_(["A", "B"])?;
    assert_eq!(names(&named), ["A", "B"]);
    assert_eq!(names(&Tensor::ones([4])?.with_names(["L"])?), ["L"]);
    assert_eq!(names(&build::zeros(&[2, 3]).names(&["N", "C"]).call()?), ["N", "C"]);
    assert_eq!(
        words(x.rename(["N", "N"])),
        "Cannot construct a tensor with duplicate names. Got names: ['N', 'N']."
    );
    assert!(words(x.rename(["1", "C"])).starts_with("Invalid name"));
    assert!(words(named.refine_names(["A", "C"])).contains("'B' is different from 'C' at index 1"));
    Ok(())
}

#[test]
fn names_go_through_operators() -> Result<()> {
    let a = Tensor::ones([2, 3])?.with_names([Some("N"), None])?;
    let b = Tensor::ones([2, 3])?.with_names([None, Some("C")])?;
    let sum = a.add(&b)?;
    assert_eq!(names(&sum), ["N", "C"]);
    assert_eq!(names(&sum.transpose(0, 1)?), ["C", "N"]);
    assert_eq!(names(&sum.matmul(&b.t()?)?), ["N", "*"]);
    let total = sum.sum_dim_intlist(Some(&sum.dims_of(["C"])?))?;
    assert_eq!((names(&total), total.to_vec::<f32>()?), (vec!["N".to_owned()], vec![6.0, 6.0]));
    assert_eq!(names(&sum.softmax(sum.dim_of("C")?)?), ["N", "C"]);
    let other = Tensor::ones([3])?.with_names(["D"])?;
    assert_eq!(
        words(sum.add(&other)),
        "Error when attempting to broadcast dims ['N', 'C'] and dims ['D']: dim 'C' and dim 'D' are at \
         the same position from the right but do not match."
    );
    assert!(
        words(sum.view(&[6])).starts_with("aten::view is not yet supported with named tensors.")
    );
    assert_eq!(names(&without_names(|| sum.view(&[6]))?), ["*"]);
    assert_eq!(words(sum.dim_of("H")), "Name 'H' not found in Tensor['N', 'C'].");
    Ok(())
}

#[test]
fn dimensions_are_ordered_joined_and_split() -> Result<()> {
    let x = Tensor::arange(0, 120)?.view(&[2, 3, 4, 5])?.with_names(["N", "C", "H", "W"])?;
    let last = x.align_to(["N", "...", "C"])?;
    assert_eq!(
        (names(&last), last.sizes().to_vec()),
        (["N", "H", "W", "C"].map(str::to_owned).to_vec(), vec![2, 4, 5, 3],)
    );
    let scale = Tensor::ones([3])?.with_names(["C"])?;
    assert_eq!(scale.align_as(&x)?.sizes().as_slice(), [1, 3, 1, 1]);
    let flat = x.flatten_names(["C", "H", "W"], "features")?;
    assert_eq!((names(&flat), flat.size(1)?), (vec!["N".to_owned(), "features".to_owned()], 60));
    let back = flat.unflatten_names("features", &[("C", 3), ("H", 4), ("W", 5)])?;
    assert!(back.equal(&x)?);
    assert!(words(x.flatten_names(["C", "W"], "both")).contains("must be consecutive"));
    assert!(words(scale.align_to(["N"])).starts_with("align_to: Cannot find dim 'C'"));
    Ok(())
}

#[test]
fn gradients_have_no_names() -> Result<()> {
    let x = tensor![1., 2., 3.]?.with_names(["D"])?;
    x.requires_grad_(true)?;
    let y = x.mul(&x)?;
    assert_eq!(names(&y), ["D"]);
    let grad = tensor![1., 1., 2.]?.with_names(["E"])?;
    y.backward_with(Some(&grad), BackwardOptions::default())?;
    let grad = x.grad().unwrap_or_default();
    assert!(!grad.has_names());
    assert_eq!(grad.to_vec::<f32>()?, [2.0, 4.0, 12.0]);
    Ok(())
}

#[test]
fn writes_check_names() -> Result<()> {
    let named = Tensor::ones([2, 3])?.with_names(["N", "C"])?;
    let target = Tensor::zeros([2, 3])?;
    target.add_(&named)?;
    assert_eq!(names(&target), ["N", "C"]);
    let other = Tensor::zeros([2, 3])?.with_names([Some("N"), None])?;
    assert!(
        words(other.add_(&named)).starts_with("Name mismatch: specified out tensor with names")
    );
    assert!(words(target.resize_(&[6])).starts_with("Cannot resize named tensor"));
    assert_eq!(format!("{}", named.sum()?), "tensor(6.)");
    assert!(format!("{named}").ends_with(", names=('N', 'C'))"));
    Ok(())
}
