//! Tensors in coordinate format: what they are, operators and gradients beside PyTorch's, and kernels of
//! programs at their keys.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::core::{DispatchKey, Layout, Scalar};
use corten::nn::optim::{Optimizer, Sgd, SgdOptions, SparseAdam, SparseAdamOptions};
use corten::ops::sparse::Coo;
use corten::ops::{Library, op};
use corten::prelude::*;
use std::collections::BTreeMap;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/sparse_coo.txt");

fn indices(rows: &[&[i64]]) -> Tensor {
    let flat: Vec<i64> = rows.iter().flat_map(|row| row.iter().copied()).collect();
    let count = rows.first().map_or(0, |row| row.len()) as i64;
    Tensor::from_vec(flat, &[rows.len() as i64, count]).unwrap()
}

fn coo(rows: &[&[i64]], values: &Tensor, size: &[i64]) -> Tensor {
    let indices = indices(rows);
    let made =
        op::sparse_coo_tensor_indices_size(&indices, values, size, None, None, None, None, None);
    made.unwrap()
}

fn range(first: f32, shape: &[i64]) -> Tensor {
    let count: i64 = shape.iter().product();
    Tensor::from_vec((0..count).map(|i| first + i as f32).collect::<Vec<_>>(), shape).unwrap()
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len() as i64]).unwrap()
}

fn s() -> Tensor {
    let made = coo(&[&[0, 1, 1], &[2, 0, 2]], &vector(&[3.0, 4.0, 5.0]), &[2, 3]);
    op::coalesce(&made).unwrap()
}

fn u() -> Tensor {
    coo(&[&[0, 0, 1], &[2, 2, 0]], &vector(&[1.0, 2.0, 3.0]), &[2, 3])
}

fn h() -> Tensor {
    coo(&[&[0, 2, 2]], &range(1.0, &[3, 2]), &[3, 2])
}

fn z() -> Tensor {
    let real = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, -1.0], &[2, 2]).unwrap();
    let values = op::view_as_complex(&real).unwrap();
    op::coalesce(&coo(&[&[0, 1], &[1, 2]], &values, &[2, 3])).unwrap()
}

fn b() -> Tensor {
    let values = vector(&[1.0, 2.0, 3.0]);
    let made = coo(&[&[0, 0, 1], &[0, 1, 1], &[2, 0, 1]], &values, &[2, 2, 3]);
    op::coalesce(&made).unwrap()
}

fn d() -> Tensor {
    range(1.0, &[2, 3])
}

fn m() -> Tensor {
    range(1.0, &[3, 2])
}

fn one() -> Scalar {
    Scalar::Int(1)
}

fn pointwise(name: &str) -> Option<Result<Tensor>> {
    Some(match name {
        "add" => op::add_tensor(&s(), &u(), one()),
        "add_same" => {
            let s = s();
            op::add_tensor(&s, &s, one())
        }
        "add_dense" => op::add_tensor(&d(), &u(), one()),
        "sub" => op::sub_tensor(&s(), &u(), one()),
        "sub_alpha" => op::sub_tensor(&s(), &u(), Scalar::Int(2)),
        "mul" => op::mul_tensor(&s(), &u()),
        "mul_dense" => op::mul_tensor(&s(), &d()),
        "mul_dense_left" => op::mul_tensor(&d(), &u()),
        "mul_number" => op::mul_scalar(&u(), Scalar::Float(2.5)),
        "mul_row" => op::mul_tensor(&s(), &vector(&[1.0, 2.0, 3.0])),
        "div" => op::div_scalar(&u(), Scalar::Int(4)),
        "div_floor" => op::div_scalar_mode(&u(), Scalar::Int(2), Some("floor")),
        "neg" => op::neg(&u()),
        "abs" => op::abs(&op::neg(&u()).unwrap()),
        "sin" => op::sin(&u()),
        "sqrt" => op::sqrt(&s()),
        "relu" => op::relu(&op::neg(&s()).unwrap()),
        "isnan" => op::isnan(&u()),
        "sign" => op::sign(&op::neg(&s()).unwrap()),
        "expm1" => op::expm1(&s()),
        "square" => op::pow_tensor_scalar(&u(), Scalar::Int(2)),
        "pow" => op::pow_tensor_scalar(&s(), Scalar::Int(-1)),
        "conj" => op::conj(&z()),
        "real" => op::real(&z()),
        "imag" => op::imag(&z()),
        _ => return None,
    })
}

fn reductions_and_products(name: &str) -> Option<Result<Tensor>> {
    Some(match name {
        "sum" => op::sum(&u(), None),
        "sum0" => op::sum_dim_intlist(&s(), Some(&[0]), false, None),
        "sum1" => op::sum_dim_intlist(&u(), Some(&[1]), false, None),
        "sum_all" => op::sum_dim_intlist(&s(), Some(&[0, 1]), false, None),
        "sum_hybrid" => op::sum_dim_intlist(&h(), Some(&[0]), false, None),
        "sum_hybrid_dense" => op::sum_dim_intlist(&h(), Some(&[1]), false, None),
        "sum_keep" => op::sum_dim_intlist(&s(), Some(&[1]), true, None),
        "any" => op::any(&s()),
        "norm" => op::norm_scalar(&u(), Scalar::Int(2)),
        "vector_norm" => op::linalg_vector_norm(&s(), Scalar::Int(2), None, false, None),
        "mm" => op::mm(&s(), &m()),
        "mm_left" => op::mm(&m(), &s()),
        "mm_sparse" => op::mm(&s(), &op::t(&u()).unwrap()),
        "mv" => op::mv(&s(), &vector(&[1.0, 2.0, 3.0])),
        "matmul" => op::matmul(&u(), &m()),
        "addmm" => {
            let ones = op::ones(&[2, 2], None, None, None, None).unwrap();
            op::addmm(&ones, &s(), &m(), Scalar::Int(2), Scalar::Int(3))
        }
        "bmm" => op::bmm(&b(), &range(1.0, &[2, 3, 2])),
        "hspmm" => op::hspmm(&s(), &m()),
        "smm" => op::smm(&s(), &m()),
        "sspaddmm" => {
            let first = op::mm(&s(), &op::t(&u()).unwrap()).unwrap();
            op::sspaddmm(&first, &s(), &m(), Scalar::Int(2), Scalar::Int(3))
        }
        "sparse_mm" => op::_sparse_mm(&s(), &m()),
        _ => return None,
    })
}

fn shapes(name: &str) -> Option<Result<Tensor>> {
    let index = || Tensor::from_vec(vec![2_i64, 0, 2], &[3]).unwrap();
    Some(match name {
        "transpose" => op::t(&u()),
        "permute" => op::permute(&u(), &[1, 0]),
        "unsqueeze" => op::unsqueeze(&s(), 1),
        "unsqueeze_hybrid" => op::unsqueeze(&h(), 2),
        "select" => op::select_int(&s(), 0, 1),
        "select_hybrid" => op::select_int(&h(), 0, 2),
        "select_dense" => op::select_int(&h(), 1, 1),
        "narrow" => op::narrow_copy(&s(), 1, 1, 2),
        "index_select" => op::index_select(&s(), 1, &index()),
        "cat" => op::cat(&[s(), u()], 0),
        "cat_hybrid" => op::cat(&[h(), h()], 1),
        "stack" => op::stack(&[s(), u()], 0),
        "zeros_like" => op::zeros_like(&s(), None, None, None, None, None),
        "clone" => op::clone(&u(), None),
        "to_double" => op::to_dtype(&u(), DType::Float64, false, false, None),
        "to_dense" => op::to_dense(&u(), None, None),
        "to_dense_hybrid" => op::to_dense(&h(), None, None),
        "to_sparse" => op::to_sparse(&d(), None, None, None),
        "to_sparse1" => op::to_sparse_sparse_dim(&d(), 1),
        "sparse_mask" => op::sparse_mask(&d(), &s()),
        "sparse_mask_sparse" => op::sparse_mask(&u(), &s()),
        "softmax" => op::_sparse_softmax_int(&s(), 1, None),
        "log_softmax" => op::_sparse_log_softmax_int(&s(), 0, None),
        "coalesce" => op::coalesce(&u()),
        _ => return None,
    })
}

fn dense(tensor: &Tensor) -> Tensor {
    op::to_dense(tensor, None, None).unwrap()
}

fn weighed(tensor: &Tensor, weights: &Tensor) -> Tensor {
    op::sum(&(&dense(tensor) * weights).unwrap(), None).unwrap()
}

fn gradient(name: &str) -> Result<Tensor> {
    let x = op::detach(&s())?.requires_grad_(true)?;
    let loss = match name {
        "to_dense" => weighed(&x, &d()),
        "sum" => op::sum(&x, None)?,
        "mm" => weighed(&op::mm(&x, &m())?, &range(1.0, &[2, 2])),
        "sparse_mm" => weighed(&op::_sparse_mm(&x, &m())?, &range(1.0, &[2, 2])),
        "add" => weighed(&op::add_tensor(&x, &x, one())?, &d()),
        "mul" => op::sum(&dense(&op::mul_tensor(&x, &x)?), None)?,
        "mul_dense" => op::sum(&dense(&op::mul_tensor(&x, &d())?), None)?,
        "neg" => weighed(&op::neg(&x)?, &d()),
        "softmax" => weighed(&op::_sparse_softmax_int(&x, 1, None)?, &d()),
        "transpose" => weighed(&op::t(&x)?, &m()),
        "sparse_sum" => weighed(&op::_sparse_sum_dim(&x, &[0])?, &range(1.0, &[3])),
        "values" => return values_gradient(),
        "embedding" | "embedding_bag" => return lookup(name == "embedding_bag"),
        "gather" => return gather(),
        other => panic!("no gradient {other}"),
    };
    loss.backward()?;
    Ok(x.grad().unwrap())
}

fn values_gradient() -> Result<Tensor> {
    let values = vector(&[1.0, 2.0, 3.0]).requires_grad_(true)?;
    weighed(&coo(&[&[0, 0, 1], &[2, 2, 0]], &values, &[2, 3]), &d()).backward()?;
    Ok(values.grad().unwrap())
}

fn lookup(bag: bool) -> Result<Tensor> {
    let weight = range(1.0, &[4, 2]).requires_grad_(true)?;
    let indices = Tensor::from_vec(vec![1_i64, 3, 1, 0], &[4])?;
    let out = if bag {
        let offsets = Tensor::from_vec(vec![0_i64, 3], &[2])?;
        op::embedding_bag(&weight, &indices, &offsets, false, 1, true, None, false)?.0
    } else {
        op::embedding(&weight, &indices, 0, false, true)?
    };
    weighed(&out, &range(1.0, &out.sizes())).backward()?;
    Ok(weight.grad().unwrap())
}

fn gather() -> Result<Tensor> {
    let x = d().requires_grad_(true)?;
    let index = Tensor::from_vec(vec![0_i64, 2, 1, 1], &[2, 2])?;
    weighed(&op::gather(&x, 1, &index, true)?, &range(1.0, &[2, 2])).backward()?;
    Ok(x.grad().unwrap())
}

fn step(name: &str) -> Result<Tensor> {
    let weight = range(1.0, &[4, 2]).requires_grad_(true)?;
    let params = [weight.clone()];
    let sgd = SgdOptions { lr: 0.01, ..SgdOptions::default() };
    let mut optimizer: Box<dyn Optimizer> = match name {
        "sparse_adam" => {
            let options = SparseAdamOptions { lr: 0.1, ..SparseAdamOptions::default() };
            Box::new(SparseAdam::new(params, options)?)
        }
        "sgd" => Box::new(Sgd::new(params, sgd)?),
        "sgd_momentum" => Box::new(Sgd::new(params, SgdOptions { momentum: 0.9, ..sgd })?),
        "sgd_maximize" => Box::new(Sgd::new(params, SgdOptions { maximize: true, ..sgd })?),
        other => panic!("no optimizer {other}"),
    };
    for step in 0..3 {
        optimizer.zero_grad()?;
        let indices = Tensor::from_vec(vec![1_i64, 3, 1, step], &[4])?;
        let rows = op::embedding(&weight, &indices, -1, false, true)?;
        op::sum(&(&rows * &rows)?, None)?.backward()?;
        optimizer.step()?;
    }
    op::detach(&weight)
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let tensor = match tensor.dtype().is_complex() {
        true => op::view_as_real(&op::resolve_conj(tensor).unwrap()).unwrap(),
        false => tensor.clone(),
    };
    let flat =
        op::reshape(&op::to_dtype(&tensor, DType::Float64, false, false, None).unwrap(), &[-1]);
    flat.unwrap().to_vec::<f64>().unwrap()
}

fn joined(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// Size and layout as the golden file has them, and the numbers.
fn shown(tensor: &Tensor) -> (String, Vec<f64>) {
    let size = joined(&tensor.sizes());
    if !tensor.is_sparse() {
        return (format!("{size}|dense"), numbers(tensor));
    }
    let parts = Coo::of(&op::coalesce(tensor).unwrap()).unwrap();
    let places = op::reshape(&parts.indices, &[-1]).unwrap().to_vec::<i64>().unwrap();
    (format!("{size}|sparse{} {}", parts.sparse_dim(), joined(&places)), numbers(&parts.values))
}

#[test]
fn operators_gradients_and_optimizers_as_pytorch() -> Result<()> {
    let text = std::fs::read_to_string(GOLDEN).unwrap();
    let cases: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once('|').unwrap()).collect();
    assert!(cases.len() > 70);
    for (name, expected) in cases {
        let found = if let Some(name) = name.strip_prefix("grad ") {
            gradient(name)
        } else if let Some(name) = name.strip_prefix("step ") {
            step(name)
        } else {
            let all = [pointwise(name), reductions_and_products(name), shapes(name)];
            all.into_iter().flatten().next().unwrap_or_else(|| panic!("no case {name}"))
        };
        let found = found.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let (head, values) = expected.rsplit_once('|').unwrap();
        let (found_head, found_values) = shown(&found);
        assert_eq!(found_head, head, "{name}");
        let values: Vec<f64> = values.split_whitespace().map(|v| v.parse().unwrap()).collect();
        assert_eq!(found_values.len(), values.len(), "{name}");
        for (found, expected) in found_values.iter().zip(&values) {
            let near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
            assert!(near, "{name}: {found} instead of {expected}");
        }
    }
    Ok(())
}

#[test]
fn a_layout_without_storage() -> Result<()> {
    let s = s();
    assert_eq!((s.layout(), s.dtype(), s.numel()), (Layout::Sparse, DType::Float32, 6));
    assert!(s.key_set().has(DispatchKey::SparseCPU) && s.key_set().has(DispatchKey::AutogradCPU));
    assert!(!s.has_storage() && !s.is_contiguous());
    assert_eq!(s.storage().unwrap_err().message(), "Cannot access storage of SparseTensorImpl");
    assert_eq!((op::_nnz(&s)?, op::sparse_dim(&s)?, op::dense_dim(&s)?), (3, 2, 0));
    assert!(op::is_coalesced(&s)? && !op::is_coalesced(&u())?);
    let error = op::values(&u()).unwrap_err();
    assert!(error.message().contains("please call .coalesce() first"), "{error}");
    let error = op::cos(&s).unwrap_err();
    assert!(
        error.message().contains("'aten::cos' with arguments from the 'SparseCPU' backend"),
        "{error}"
    );
    Ok(())
}

#[test]
fn copies_share_values_and_not_the_slot() -> Result<()> {
    let s = s();
    let copy = op::detach(&s)?;
    op::mul__scalar(&op::_values(&s)?, Scalar::Int(2))?;
    assert_eq!(numbers(&dense(&copy)), [0.0, 0.0, 6.0, 8.0, 0.0, 10.0]);
    op::zero_(&s)?;
    assert_eq!((op::_nnz(&s)?, op::_nnz(&copy)?), (0, 3));
    let before = s.version()?;
    op::add__tensor(&s, &u(), one())?;
    assert_eq!(numbers(&dense(&s)), numbers(&dense(&u())));
    assert_eq!(s.version()?, before + 1);
    Ok(())
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let values = vector(&[1.0, 2.0]);
    let made = |rows: &[&[i64]], size: &[i64]| {
        op::sparse_coo_tensor_indices_size(
            &indices(rows),
            &values,
            size,
            None,
            None,
            None,
            None,
            None,
        )
        .unwrap_err()
    };
    let error = made(&[&[0, 5], &[0, 0]], &[2, 3]);
    assert!(error.message().contains("for dim 0, size is 2 but found index 5"), "{error}");
    let error = made(&[&[0, -1], &[0, 0]], &[2, 3]);
    assert!(error.message().contains("found negative index -1 for dim 0"), "{error}");
    let error = made(&[&[0, 1, 1]], &[2]);
    assert!(error.message().contains("indices and values must have same nnz"), "{error}");
}

#[test]
fn gradients_add_up_in_either_layout() -> Result<()> {
    let weight = range(1.0, &[3, 2]).requires_grad_(true)?;
    let index = Tensor::from_vec(vec![2_i64, 0], &[2])?;
    let look = || -> Result<()> {
        let rows = op::embedding(&weight, &index, -1, false, true)?;
        op::sum(&rows, None)?.backward()
    };
    look()?;
    assert_eq!(weight.grad().unwrap().layout(), Layout::Sparse);
    look()?;
    let grad = weight.grad().unwrap();
    assert_eq!(numbers(&dense(&grad)), [2.0, 2.0, 0.0, 0.0, 2.0, 2.0]);
    // A dense gradient makes the sum dense.
    op::sum(&weight, None)?.backward()?;
    let grad = weight.grad().unwrap();
    assert_eq!(grad.layout(), Layout::Strided);
    assert_eq!(numbers(&grad), [3.0, 3.0, 1.0, 1.0, 3.0, 3.0]);
    look()?;
    assert_eq!(numbers(&weight.grad().unwrap()), [4.0, 4.0, 1.0, 1.0, 4.0, 4.0]);
    Ok(())
}

#[test]
fn kernels_of_programs_at_the_sparse_key() -> Result<()> {
    let library = Library::new("sparse_test");
    library.define("entries(Tensor self) -> Tensor")?;
    let kept = library.implement("entries", DispatchKey::SparseCPU, |_call, stack| {
        let input: &Tensor = stack[0].get()?;
        let count = op::_nnz(input)?;
        stack.replace(op::full(&[], Scalar::Int(count), Some(DType::Int64), None, None, None)?);
        Ok(())
    })?;
    let mut stack = corten::ops::Stack::new();
    stack.push(corten::ops::IValue::Tensor(s()));
    corten::ops::call("sparse_test::entries", &mut stack)?;
    let found: &Tensor = stack[0].get()?;
    assert_eq!(op::item(found)?.to_i64(), 3);
    kept.keep();

    // An operator of the library that has no kernel for this layout.
    let aten = Library::new("aten");
    let kept = aten.implement("cos", DispatchKey::SparseCPU, |_call, stack| {
        let input: &Tensor = stack[0].get()?;
        let cosine = op::cos(&op::to_dense(input, None, None)?)?;
        stack.replace(cosine);
        Ok(())
    })?;
    assert_eq!(numbers(&op::cos(&s())?)[0], 1.0);
    drop(kept);
    Ok(())
}

#[test]
fn files_hold_coordinate_tensors() -> Result<()> {
    use corten::io::Value;
    use corten::io::torch::{load, save};
    let file = std::env::temp_dir().join(format!("corten-sparse-{}.pt", std::process::id()));
    let named = |name: &str, tensor: Tensor| (Value::Text(name.to_owned()), Value::Tensor(tensor));
    save(&file, &Value::Dict(vec![named("s", s()), named("u", u()), named("h", h())]))?;
    let value = load(&file)?;
    for (name, written) in [("s", s()), ("u", u()), ("h", h())] {
        let read = value.get(name).and_then(Value::tensor).unwrap();
        let (read, written) = (Coo::of(read).unwrap(), Coo::of(&written).unwrap());
        assert_eq!(read.coalesced, written.coalesced, "{name}");
        assert!(op::equal(&read.indices, &written.indices)?, "{name}");
        assert!(op::equal(&read.values, &written.values)?, "{name}");
    }
    std::fs::remove_file(file).unwrap();
    Ok(())
}
