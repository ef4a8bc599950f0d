//! Kernels at the sizes from which they work in blocks, by digits or on whole rows, against what
//! the results have to satisfy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use corten_core::{DType, Scalar};
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
