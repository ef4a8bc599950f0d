//! Kernels at the sizes from which they work in blocks, by digits or on whole rows, against what
//! the results have to satisfy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use corten_core::{DType, MemoryFormat, Scalar};
use corten_ops::{Tensor, op};

/// Numbers without a pattern, from -1 to 1.
fn noise(sizes: &[i64]) -> Tensor {
    let count: i64 = sizes.iter().product();
    let mut state = 1u64;
    let values: Vec<f64> = (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect();
    Tensor::from_vec(values, sizes).unwrap()
}

fn assert_near(a: &Tensor, b: &Tensor, most: f64) {
    assert_eq!(a.sizes(), b.sizes());
    let distance = op::abs(&op::sub_tensor(a, b, Scalar::Int(1)).unwrap()).unwrap();
    let distance = op::max(&distance).unwrap().to_element::<f64>().unwrap();
    assert!(distance <= most, "{distance}");
}

#[test]
fn reflections_in_blocks_make_an_orthogonal_factor() {
    corten_cpu::init().unwrap();
    for (rows, cols) in [(100, 70), (70, 100), (64, 64), (33, 5)] {
        let real = noise(&[rows, cols]);
        let complex = op::complex(&real, &noise(&[rows, cols])).unwrap();
        for a in [real, complex] {
            let (q, r) = op::linalg_qr(&a, "reduced").unwrap();
            assert_near(&op::matmul(&q, &r).unwrap(), &a, 1e-12);
            let steps = rows.min(cols);
            let unit = op::eye(steps, Some(a.dtype()), None, None, None).unwrap();
            let adjoint = op::conj_physical(&op::t(&q).unwrap()).unwrap();
            assert_near(&op::matmul(&adjoint, &q).unwrap(), &unit, 1e-13);
        }
    }
}

/// The identity of a size and dtype.
fn one(n: i64, dtype: DType) -> Tensor {
    op::eye(n, Some(dtype), None, None, None).unwrap()
}

/// Sizes around those of panels, substitutions and their columns.
const SIZES: [i64; 18] = [1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 81, 127, 130, 257];

#[test]
fn inverses_and_solutions_in_blocks() {
    corten_cpu::init().unwrap();
    for n in SIZES {
        let real = noise(&[n, n]);
        let complex = op::complex(&real, &op::t(&real).unwrap()).unwrap();
        for a in [op::t(&real).unwrap(), complex, real] {
            let a = op::add_tensor(&a, &one(n, a.dtype()), Scalar::Float(2.0)).unwrap();
            let inverse = op::linalg_inv(&a).unwrap();
            assert_near(&op::matmul(&a, &inverse).unwrap(), &one(n, a.dtype()), 1e-10);
            for cols in [1, 3, 4, 5, 16, 17, 40] {
                let b = op::to_dtype(&noise(&[n, cols]), a.dtype(), false, false, None).unwrap();
                let x = op::linalg_solve(&a, &b, true).unwrap();
                assert_near(&op::matmul(&a, &x).unwrap(), &b, 1e-10);
                let b = op::t(&b).unwrap();
                let x = op::linalg_solve(&a, &b, false).unwrap();
                assert_near(&op::matmul(&x, &a).unwrap(), &b, 1e-10);
            }
        }
    }
}

#[test]
fn factors_of_all_shapes_in_blocks() {
    corten_cpu::init().unwrap();
    for (rows, cols) in [(100, 31), (31, 100), (64, 65), (65, 33), (257, 40), (3, 40), (40, 3)] {
        let real = noise(&[2, rows, cols]);
        let complex = op::complex(&real, &noise(&[2, rows, cols])).unwrap();
        for a in [real, complex] {
            let (factors, pivots, _) = op::linalg_lu_factor_ex(&a, true, false).unwrap();
            let (p, l, u) = op::lu_unpack(&factors, &pivots, true, true).unwrap();
            let product = op::matmul(&p, &op::matmul(&l, &u).unwrap()).unwrap();
            assert_near(&product, &a, 1e-12);
            // Exact but for complex numbers, whose largest parts are compared.
            let most = op::max(&op::abs(&l).unwrap()).unwrap().to_element::<f64>().unwrap();
            assert!(most <= if a.dtype() == DType::Float64 { 1.0 } else { 1.5 }, "{most}");
        }
    }
}

#[test]
fn triangles_are_solved_whatever_lies_beside_them() {
    corten_cpu::init().unwrap();
    for n in SIZES {
        let one = one(n, DType::Float64);
        let small = op::mul_scalar(&noise(&[n, n]), Scalar::Float(0.25)).unwrap();
        let nan =
            op::full_like(&one, Scalar::Float(f64::NAN), None, None, None, None, None).unwrap();
        for (cols, upper) in [(1, true), (1, false), (4, false), (5, true), (70, false), (70, true)]
        {
            let triangle = |x: &Tensor| match upper {
                true => op::triu(x, 1).unwrap(),
                false => op::tril(x, -1).unwrap(),
            };
            // The diagonal is taken as ones.
            let given = op::where_self(&op::isnan(&triangle(&nan)).unwrap(), &small, &nan).unwrap();
            let whole = op::add_tensor(&triangle(&small), &one, Scalar::Int(1)).unwrap();
            // By rows, and by columns.
            let turned = op::contiguous(&op::t(&given).unwrap(), MemoryFormat::Contiguous).unwrap();
            for given in [given, op::t(&turned).unwrap()] {
                let b = noise(&[n, cols]);
                let x = op::linalg_solve_triangular(&given, &b, upper, true, true).unwrap();
                assert_near(&op::matmul(&whole, &x).unwrap(), &b, 1e-9);
                let b = op::t(&b).unwrap();
                let x = op::linalg_solve_triangular(&given, &b, upper, false, true).unwrap();
                assert_near(&op::matmul(&x, &whole).unwrap(), &b, 1e-9);
            }
        }
    }
}

#[test]
fn products_of_reflections_are_those_with_their_matrix() {
    corten_cpu::init().unwrap();
    let (vectors, tau) = op::geqrf(&noise(&[50, 50])).unwrap();
    let q = op::linalg_householder_product(&vectors, &tau).unwrap();
    let other = noise(&[50, 20]);
    let turned = op::t(&q).unwrap();
    for (transpose, factor) in [(false, &q), (true, &turned)] {
        let product = op::ormqr(&vectors, &tau, &other, true, transpose).unwrap();
        assert_near(&product, &op::matmul(factor, &other).unwrap(), 1e-13);
        let row = op::t(&other).unwrap();
        let product = op::ormqr(&vectors, &tau, &row, false, transpose).unwrap();
        assert_near(&product, &op::matmul(&row, factor).unwrap(), 1e-13);
    }
}

#[test]
fn wide_and_narrow_borders_come_from_where_they_should() {
    corten_cpu::init().unwrap();
    let a = noise(&[2, 3, 12, 11]);
    for [left, right, top, bottom] in [[1, 2, 0, 3], [10, 9, 8, 11], [0, 0, 0, 0], [-2, 3, 1, -4]] {
        let out = op::reflection_pad2d(&a, &[left, right, top, bottom]).unwrap();
        let source = |size: i64, before: i64, after: i64| -> Tensor {
            let mirrored = |place: i64| (size - 1) - ((size - 1) - place.abs()).abs();
            let places: Vec<i64> =
                (0..size + before + after).map(|i| mirrored(i - before)).collect();
            Tensor::from_slice(&places, &[places.len() as i64]).unwrap()
        };
        let rows = op::index_select(&a, 2, &source(12, top, bottom)).unwrap();
        let all = op::index_select(&rows, 3, &source(11, left, right)).unwrap();
        assert!(op::equal(&out, &all).unwrap());
    }
}

#[test]
fn sums_pass_over_nan_but_not_over_what_infinities_make() {
    corten_cpu::init().unwrap();
    let mut values = vec![0.5f32; 5000];
    values.iter_mut().step_by(3).for_each(|x| *x = f32::NAN);
    let count = values.iter().filter(|x| !x.is_nan()).count() as f64;
    let of = |values: &[f32]| {
        let tensor = Tensor::from_slice(values, &[5000]).unwrap();
        op::nansum(&tensor, None, false, None).unwrap().to_element::<f64>().unwrap()
    };
    assert_eq!(of(&values), 0.5 * count);
    (values[1], values[4999]) = (f32::INFINITY, f32::NEG_INFINITY);
    assert!(of(&values).is_nan());
}

#[test]
fn runs_of_equal_elements_are_counted() {
    corten_cpu::init().unwrap();
    let items: Vec<i64> = (0..3000).map(|i| i / 7 % 2).collect();
    let tensor = Tensor::from_slice(&items, &[3000]).unwrap();
    let (found, inverse, counts) = op::unique_consecutive(&tensor, true, true, None).unwrap();
    assert_eq!(found.numel(), 429);
    let rebuilt = op::index_select(&found, 0, &inverse).unwrap();
    assert!(op::equal(&rebuilt, &tensor).unwrap());
    let counts = counts.to_vec::<i64>().unwrap();
    assert!(counts[..428].iter().all(|&count| count == 7));
    assert_eq!((counts[428], found.dtype()), (4, DType::Int64));
}

#[test]
fn the_first_of_a_windows_largest_elements_is_found_wherever_windows_are_cut_off() {
    corten_cpu::init().unwrap();
    let a =
        Tensor::from_slice(&[f64::NEG_INFINITY, 1.0, 1.0, f64::NAN, 0.0, 2.0, 2.0], &[1, 1, 1, 7])
            .unwrap();
    let (values, places) =
        op::max_pool2d_with_indices(&a, &[1, 3], &[1, 2], &[0, 1], &[1, 1], false).unwrap();
    assert_eq!(places.to_vec::<i64>().unwrap(), [1, 3, 3, 5]);
    let values = values.to_vec::<f64>().unwrap();
    assert!((values[0], values[3]) == (1.0, 2.0) && values[1].is_nan() && values[2].is_nan());
}
