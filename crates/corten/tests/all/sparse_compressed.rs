//! Compressed tensors beside PyTorch's: every line of a golden file is one operator on one tensor.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may
#![allow(clippy::too_many_lines)] // a table of cases

use corten::Layout;
use corten::ops::sparse::{Compressed, Coo};
use corten::prelude::*;

const GOLDENS: &str = include_str!("../../../../tests/goldens/sparse_compressed.txt");
const BLOCK: &[i64] = &[2, 3];

/// Numbers of which more than half are 0, as the script that made the goldens computes them.
fn sample(shape: &[i64], seed: i64) -> Result<Tensor> {
    let inner: i64 = shape[shape.len() - 2..].iter().product();
    let count: i64 = shape.iter().product();
    let number = |i: i64| {
        let k = ((i + i / inner) % inner * 37 + seed * 11 + 5) % 23;
        if k < 9 { k as f32 - 3.5 } else { 0.0 }
    };
    Tensor::from_vec((0..count).map(number).collect(), shape)
}

/// Numbers that are not 0.
fn full(shape: &[i64], seed: i64) -> Result<Tensor> {
    let count: i64 = shape.iter().product();
    let number = |i: i64| ((i * 13 + seed * 7) % 17) as f32 / 2.0 - 3.75;
    Tensor::from_vec((0..count).map(number).collect(), shape)
}

fn to_layout(dense: &Tensor, layout: &str, dense_dim: Option<i64>) -> Result<Tensor> {
    match layout {
        "csr" => op::to_sparse_csr(dense, dense_dim),
        "csc" => op::to_sparse_csc(dense, dense_dim),
        "bsr" => op::to_sparse_bsr(dense, BLOCK, dense_dim),
        _ => op::to_sparse_bsc(dense, BLOCK, dense_dim),
    }
}

fn compressed(layout: &str, shape: &str, seed: i64) -> Result<Tensor> {
    let (sizes, dense_dim): (&[i64], _) = match shape {
        "matrix" => (&[4, 6], None),
        "batch" => (&[2, 4, 6], None),
        _ => (&[4, 6, 2], Some(1)),
    };
    to_layout(&sample(sizes, seed)?, layout, dense_dim)
}

fn part(tensor: &Tensor) -> Result<String> {
    let sizes: Vec<String> = tensor.sizes().iter().map(ToString::to_string).collect();
    let numbers = op::to_dtype(tensor, DType::Float64, false, false, None)?.to_vec::<f64>()?;
    let numbers: Vec<String> =
        numbers.iter().map(|x| ((x * 10000.0).round() as i64).to_string()).collect();
    Ok(format!("{}:{}", sizes.join("x"), numbers.join(",")))
}

fn described(result: &Tensor) -> Result<String> {
    let sizes: Vec<String> = result.sizes().iter().map(ToString::to_string).collect();
    let mut parts = vec![result.layout().name().to_owned(), sizes.join("x")];
    let result = result.detach()?;
    if let Some(held) = Compressed::of(&result) {
        for tensor in [&held.compressed_indices, &held.plain_indices, &held.values] {
            parts.push(part(tensor)?);
        }
    } else if result.layout() == Layout::Sparse {
        let coalesced = op::coalesce(&result)?;
        let held = Coo::of(&coalesced).unwrap();
        parts.extend([part(&held.indices)?, part(&held.values)?]);
    } else {
        parts.push(part(&result)?);
    }
    Ok(parts.join(";"))
}

/// The gradients of a weighted sum of a result's elements.
fn gradients(
    leaves: &[Tensor],
    function: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let leaf = |leaf: &Tensor| leaf.detach()?.requires_grad_(true);
    let leaves: Vec<Tensor> = leaves.iter().map(leaf).collect::<Result<_>>()?;
    let dense = op::to_dense(&function(&leaves)?, None, None)?;
    let weighted = (&dense * full(&dense.sizes(), 3)?)?;
    op::sum(&weighted, None)?.backward()?;
    Ok(leaves.iter().map(|leaf| leaf.grad().unwrap()).collect())
}

fn rebuilt(x: &Tensor) -> Result<Tensor> {
    let held = Compressed::of(x).unwrap();
    let int = |part: &Tensor| op::to_dtype(part, DType::Int32, false, false, None);
    let (first, second) = (int(&held.compressed_indices)?, int(&held.plain_indices)?);
    let values = op::values(x)?;
    let layout = Some(x.layout());
    op::sparse_compressed_tensor_comp_plain_value_size(
        &first,
        &second,
        &values,
        &x.sizes(),
        None,
        layout,
        None,
        None,
    )
}

fn reduced(x: &Tensor, reduce: &str) -> Result<Tensor> {
    op::_sparse_mm_reduce(x, &full(&[6, 3], 1)?, reduce)
}

fn case(name: &str, layout: &str, shape: &str) -> Result<Vec<Tensor>> {
    let x = compressed(layout, shape, 0)?;
    let (sizes, one) = (x.sizes(), Scalar::Int(1));
    let batch = &sizes[..sizes.len() - 2];
    let joined = |rest: [i64; 2]| [batch, &rest].concat();
    let half = Scalar::Float(0.5);
    let dense = |seed| full(&[6, 3], seed);
    let other = || compressed(layout, shape, 4);
    Ok(vec![match name {
        "parts" => x,
        "rebuilt" => rebuilt(&x)?,
        "to_dense" => op::to_dense(&x, None, None)?,
        "to_coo" => op::to_sparse(&x, None, None, None)?,
        "to_csr" | "to_csc" | "to_bsr" | "to_bsc" => to_layout(&x, &name[3..], None)?,
        "transpose" => op::transpose_int(&x, -2, -1)?,
        "select_first" => op::select_int(&x, 0, 1)?,
        "select_second" => op::select_int(&x, 1, 2)?,
        "select_last" => op::select_int(&x, -1, 1)?,
        "abs" => op::abs(&x)?,
        "neg" => op::neg(&x)?,
        "sin" => op::sin(&x)?,
        "relu" => op::relu(&x)?,
        "sgn" => op::sgn(&x)?,
        "signbit" => op::signbit(&x)?,
        "double" => op::to_dtype(&x, DType::Float64, false, false, None)?,
        "times_two" => (&x * 2)?,
        "times_dense" => (&x * full(&sizes, 2)?)?,
        "times_itself" => (&x * &x)?,
        "times_other" => (&x * other()?)?,
        "plus_itself" => op::add_tensor(&x, &x, Scalar::Int(3))?,
        "plus_other" => op::add_tensor(&x, &other()?, half)?,
        "plus_dense" => op::add_tensor(&full(&sizes, 2)?, &x, half)?,
        "sum" => op::sum(&x, None)?,
        "sum_rows" => op::sum_dim_intlist(&x, Some(&[0]), true, None)?,
        "sum_columns" => op::sum_dim_intlist(&x, Some(&[1]), true, None)?,
        "prod_columns" => op::_sparse_csr_prod_dim_dtype(&x, &[1], true, None)?,
        "clone" => op::clone(&x, None)?,
        "zeros_like" => op::zeros_like(&x, None, None, None, None, None)?,
        "sparse_mask" => op::sparse_mask(&full(&sizes, 2)?, &x)?,
        "mm" => op::mm(&x, &dense(1)?)?,
        "mm_from_left" => op::mm(&full(&[3, 4], 1)?, &x)?,
        "mm_of_two" => {
            let product = op::mm(&x, &op::transpose_int(&other()?, 0, 1)?)?;
            op::to_dense(&product, None, None)?
        }
        "mv" => op::mv(&x, &full(&[6], 1)?)?,
        "addmm" => op::addmm(&full(&[4, 3], 2)?, &x, &dense(1)?, Scalar::Int(2), half)?,
        "linear" => op::linear(&full(&[5, 6], 1)?, &x, None)?,
        "sampled_addmm" => {
            let (a, b) = (full(&joined([4, 3]), 1)?, full(&joined([3, 6]), 2)?);
            op::sparse_sampled_addmm(&x, &a, &b, half, Scalar::Int(2))?
        }
        "mm_sum" | "mm_mean" | "mm_amax" | "mm_amin" => reduced(&x, &name[3..])?,
        "resize" => op::resize_(&op::clone(&x, None)?, &[6, 8], None)?,
        "rows_of_coo" => op::_convert_indices_from_csr_to_coo(
            &op::crow_indices(&x)?,
            &op::col_indices(&x)?,
            false,
            false,
        )?,
        "grad_mm" => return gradients(&[x, dense(1)?], |x| op::mm(&x[0], &x[1])),
        "grad_mv" => return gradients(&[x, full(&[6], 1)?], |x| op::mv(&x[0], &x[1])),
        "grad_values" => return gradients(&[x], |x| op::values(&x[0])),
        "grad_dense" => return gradients(&[x], |x| op::to_dense(&x[0], None, None)),
        "grad_unmasked" => return gradients(&[x], |x| op::to_dense(&x[0], None, Some(false))),
        "grad_to_sparse" => {
            let dense_dim = op::dense_dim(&x)?;
            let x = op::to_dense(&x, None, None)?;
            return gradients(&[x], |x| to_layout(&x[0], layout, Some(dense_dim)));
        }
        "grad_sampled" => {
            return gradients(&[full(&[4, 3], 1)?, full(&[3, 6], 2)?], |f| {
                op::sparse_sampled_addmm(&x, &f[0], &f[1], one, Scalar::Int(2))
            });
        }
        "grad_amax" | "grad_mean" => {
            let reduce = &name[5..];
            return gradients(&[x, dense(1)?], |x| op::_sparse_mm_reduce(&x[0], &x[1], reduce));
        }
        other => panic!("no case {other}"),
    }])
}

/// Whether two descriptions are equal but for the last digit of their numbers.
fn is_near(found: &str, expected: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split_inclusive([',', ';', ':', '&']).map(str::to_owned).collect()
    };
    let (found, expected) = (parts(found), parts(expected));
    let near = |a: &str, b: &str| {
        let number = |text: &str| text.trim_end_matches([',', ';', ':', '&']).parse::<i64>();
        a == b
            || matches!((number(a), number(b)), (Ok(a), Ok(b)) if (a - b).abs() <= 1 && b.abs() > 100)
    };
    found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| near(a, b))
}

#[test]
fn results_are_those_of_pytorch() {
    let mut wrong = Vec::new();
    for line in GOLDENS.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [name, layout, shape, expected] = fields[..] else { panic!("a line of four fields") };
        let found = case(name, layout, shape)
            .and_then(|results| results.iter().map(described).collect::<Result<Vec<_>>>());
        match found {
            Ok(found) if is_near(&found.join("&"), expected) => {}
            Ok(found) => {
                wrong.push(format!("{name} {layout} {shape}\n  {}\n  {expected}", found.join("&")))
            }
            Err(error) => wrong.push(format!("{name} {layout} {shape}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn tensors_are_printed_as_by_pytorch() -> Result<()> {
    let goldens = include_str!("../../../../tests/goldens/sparse_printed.txt").split("\n---\n");
    let leaf = |tensor: Tensor| tensor.requires_grad_(true);
    let row = op::reshape(&Tensor::arange(1.0, 41.0)?, &[1, 40])?;
    let tensors = [
        compressed("csr", "matrix", 0)?,
        op::to_dtype(&compressed("csc", "batch", 0)?, DType::Float64, false, false, None)?,
        compressed("bsr", "matrix", 0)?,
        op::to_dtype(&compressed("bsc", "matrix", 0)?, DType::Int32, false, false, None)?,
        leaf(compressed("csr", "hybrid", 0)?)?,
        op::to_sparse_csr(&Tensor::zeros([2, 3])?, None)?,
        op::to_sparse_csr(&row, None)?,
        op::clone(&leaf(compressed("csr", "matrix", 0)?)?, None)?,
    ];
    for (tensor, golden) in tensors.iter().zip(goldens) {
        assert_eq!(tensor.to_string(), golden);
    }
    Ok(())
}

#[test]
fn in_place_and_out_forms_write_entries() -> Result<()> {
    let x = compressed("csr", "matrix", 0)?;
    let (before, values) = (op::to_dense(&x, None, None)?, op::values(&x)?);
    op::neg_(&x)?;
    assert!(op::equal(&op::to_dense(&x, None, None)?, &op::neg(&before)?)?);
    assert!(op::equal(&values, &op::values(&x)?)?, "values are seen through the view");
    op::mul__tensor(&x, &Tensor::full([0i64; 0], 2.0)?)?;
    op::add__tensor(&x, &x, Scalar::Int(1))?;
    let expected = op::mul_scalar(&before, Scalar::Int(-4))?;
    assert!(op::equal(&op::to_dense(&x, None, None)?, &expected)?);
    let out = op::zeros_like(&x, None, None, None, None, None)?;
    op::abs_out(&x, &out)?;
    assert!(op::equal(&op::to_dense(&out, None, None)?, &op::abs(&expected)?)?);
    op::fill__scalar(&out, Scalar::Int(7))?;
    assert_eq!(op::values(&out)?.to_vec::<f32>()?, vec![7.0; op::_nnz(&out)? as usize]);
    let kept = op::clone(&out, None)?;
    op::zero_(&out)?;
    assert_eq!((op::_nnz(&out)?, op::_nnz(&kept)?), (0, op::_nnz(&x)?));
    op::copy_(&kept, &x, false)?;
    assert!(op::equal(&op::values(&kept)?, &op::values(&x)?)?);
    assert!(op::copy_(&out, &x, false).is_err());
    Ok(())
}

#[test]
fn what_is_wrong_is_said() -> Result<()> {
    let x = compressed("csr", "matrix", 0)?;
    let message = |result: Result<Tensor>| result.unwrap_err().message().to_owned();
    assert!(message(op::cos(&x)).starts_with("Could not run 'aten::cos'"));
    assert!(
        message(op::ccol_indices(&x))
            .contains("sparse column compressed tensor layout but got SparseCsr")
    );
    let (ends, columns, values) = (tensor![0, 2, 1]?, tensor![0, 1]?, tensor![1., 2.]?);
    let made = |ends: &Tensor, columns: &Tensor| Tensor::sparse_csr(ends, columns, &values, [2, 2]);
    assert_eq!(message(made(&ends, &columns)), "`crow_indices[..., -1] == nnz` is not satisfied.");
    assert_eq!(
        message(made(&tensor![0, 1, 2]?, &tensor![0, 2]?)),
        "`0 <= col_indices < ncols` is not satisfied."
    );
    assert!(message(made(&tensor![0, 2, 2]?, &tensor![1, 0]?)).contains("sorted and distinct"));
    assert!(message(made(&tensor![1, 2, 2]?, &columns)).contains("[..., 0] == 0"));
    assert!(
        message(op::mm(&x, &Tensor::ones([4, 2])?)).contains("cannot be multiplied (4x6 and 4x2)")
    );
    assert!(message(op::transpose_int(&compressed("csr", "batch", 0)?, 0, 1)).contains("Batch"));
    Ok(())
}

#[test]
fn every_float_is_multiplied() -> Result<()> {
    let (x, dense) = (compressed("csr", "matrix", 0)?, full(&[6, 70], 1)?);
    let expected = op::mm(&op::to_dense(&x, None, None)?, &dense)?;
    for dtype in [DType::Float16, DType::BFloat16, DType::Float64, DType::Int64, DType::Complex64] {
        let cast = |tensor: &Tensor| op::to_dtype(tensor, dtype, false, false, None);
        let (wide, dense) = (cast(&op::mul_scalar(&x, Scalar::Int(2))?)?, cast(&dense)?);
        let whole = dtype == DType::Int64;
        let dense = if whole { cast(&Tensor::ones([6, 70])?)? } else { dense };
        let found = op::mm(&wide, &dense)?;
        let against = op::mm(&op::to_dense(&wide, None, None)?, &dense)?;
        assert!(op::allclose(&found, &against, 1e-2, 1e-2, false)?, "{dtype}");
        if dtype == DType::Float64 {
            let doubled = op::mul_scalar(&cast(&expected)?, Scalar::Int(2))?;
            assert!(op::allclose(&found, &doubled, 1e-6, 1e-6, false)?);
        }
    }
    Ok(())
}

#[test]
fn semi_structured_matrices_are_those_of_pytorch() -> Result<()> {
    for line in include_str!("../../../../tests/goldens/semi_structured.txt").lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let (rows, columns): (i64, i64) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let numbers =
            |text: &str| text.split(',').map(|x| x.parse().unwrap()).collect::<Vec<i64>>();
        let group = if fields[0] == "float32" { 2 } else { 4 };
        let dtype = DType::from_name(fields[0]).unwrap();
        let dense = op::to_dtype(&half_full(rows, columns, group)?, dtype, false, false, None)?;
        let sparse = corten::nn::SemiStructured::from_dense(&dense)?;
        assert_eq!(sparse.packed().to_vec::<i64>()?, numbers(fields[3]), "{}", fields[0]);
        assert_eq!(sparse.meta().to_vec::<i64>()?, numbers(fields[4]), "{}", fields[0]);
        assert!(op::equal(&sparse.to_dense()?, &dense)?);
        let other = op::to_dtype(&full(&[columns, 5], 1)?, dtype, false, false, None)?;
        let found = sparse.mm(&other, (dtype == DType::Int8).then_some(DType::Int32))?;
        let wide = |x: &Tensor| op::to_dtype(x, DType::Float64, false, false, None);
        let expected = op::mm(&wide(&dense)?, &wide(&other)?)?;
        assert!(op::allclose(&wide(&found)?, &expected, 1e-2, 1e-2, false)?, "{}", fields[0]);
        if dtype != DType::Float32 {
            let one = op::_cslt_compress(&dense)?;
            let again = op::_cslt_sparse_mm(&one, &other, None, None, None, true, 0, 1, -1)?;
            assert_eq!(again.sizes().as_slice(), [5, rows]);
        }
    }
    let message = op::_to_sparse_semi_structured(&Tensor::ones([32, 32])?).unwrap_err();
    assert!(message.message().contains("no 1:2 sparsity"), "{}", message.message());
    Ok(())
}

/// Whole numbers, in each group at most as many other than 0 as are kept.
fn half_full(rows: i64, columns: i64, group: i64) -> Result<Tensor> {
    let number = |at: i64| {
        let (i, place) = (at / group, at % group);
        let places = match group {
            2 => [(i * 5) % 7 % 2; 2],
            _ => [(i * 5) % 7 % 4, (i * 3) % 11 % 4],
        };
        if i % 6 != 0 && places.contains(&place) { ((i + place) % 9 - 4) as f32 } else { 0.0 }
    };
    Tensor::from_vec((0..rows * columns).map(number).collect(), &[rows, columns])
}

#[test]
fn files_hold_compressed_tensors() -> Result<()> {
    use corten::io::{Value, torch};
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens");
    let saved = torch::load(format!("{goldens}/compressed_saved_by_torch.pt"))?;
    let dense = [0.0, 2.0, 0.0, 1.0, 1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 5.0];
    for name in ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"] {
        let tensor = saved.get(name).and_then(Value::tensor).unwrap();
        assert_eq!(tensor.layout().name(), name);
        assert_eq!(op::to_dense(tensor, None, None)?.to_vec::<f32>()?, dense);
        for is_legacy in [false, true] {
            let path = std::env::temp_dir().join(format!("corten-{}-{name}", std::process::id()));
            let value = Value::Tensor(tensor.clone());
            if is_legacy {
                torch::save_legacy(&path, &value)?
            } else {
                torch::save(&path, &value)?
            }
            let read = torch::load(&path)?;
            std::fs::remove_file(&path).unwrap();
            assert_eq!(described(read.tensor().unwrap())?, described(tensor)?);
        }
    }
    Ok(())
}
