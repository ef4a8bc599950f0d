use super::*;
use corten_core::{Complex, bf16, cast, f16};

/// A small deterministic sequence of small integers.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % 7) as f64 - 3.0
        })
        .collect()
}

fn typed<T: MatElement>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| cast(value)).collect()
}

/// The naive twin of `gemm` on small integers, which every dtype holds exactly.
fn naive(
    c: &[f64],
    a: &[f64],
    b: &[f64],
    [m, n, k]: [usize; 3],
    alpha: f64,
    beta: f64,
) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for row in 0..m {
        for col in 0..n {
            let product: f64 = (0..k).map(|d| a[row * k + d] * b[d * n + col]).sum();
            let old = if beta == 0.0 { 0.0 } else { beta * c[row * n + col] };
            out[row * n + col] = old + alpha * product;
        }
    }
    out
}

fn transposed(values: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    (0..cols * rows).map(|i| values[(i % rows) * cols + i / rows]).collect()
}

fn check<T: MatElement>(shape: [usize; 3], alpha: i64, beta: i64) {
    let [m, n, k] = shape;
    let (a, b, c) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
    let wanted = typed::<T>(&naive(&c, &a, &b, shape, alpha as f64, beta as f64));
    let factors = Factors { alpha: alpha.into(), beta: beta.into() };
    let (ta, tb) = (typed::<T>(&transposed(&a, m, k)), typed::<T>(&transposed(&b, k, n)));
    let (na, nb) = (typed::<T>(&a), typed::<T>(&b));
    for (a_turned, b_turned) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut out = typed::<T>(&c);
        let c = MatMut::row_major(&mut out, m, n).unwrap();
        let a = if a_turned {
            Mat::row_major(&ta, k, m).unwrap().t()
        } else {
            Mat::row_major(&na, m, k).unwrap()
        };
        let b = if b_turned {
            Mat::row_major(&tb, n, k).unwrap().t()
        } else {
            Mat::row_major(&nb, k, n).unwrap()
        };
        gemm(c, a, b, factors).unwrap();
        assert_eq!(out, wanted, "{shape:?} {} {a_turned} {b_turned}", T::DTYPE.name());
    }
}

#[test]
fn parts_are_as_square_as_the_threads_allow() {
    assert_eq!(part_of([1024, 1024], 2, 1, 16), [512, 1024]);
    assert_eq!(part_of([1024, 1024], 2, 2, 16), [512, 512]);
    assert_eq!(part_of([1024, 1024], 16, 1, 16), [256, 256]);
    assert_eq!(part_of([1, 4096], 16, 1, 16), [16, 256]);
    assert_eq!(part_of([4096, 1], 3, 1, 16), [1376, 16]);
    assert_eq!(part_of([2048, 64], 2, 1, 16), [1024, 64]);
    for threads in [1, 2, 3, 7, 16, 61] {
        for each in [1, 2] {
            for [m, n] in [[1, 1], [17, 5], [49, 512], [300, 700], [4096, 33]] {
                let [height, width] = part_of([m, n], threads, each, 16);
                let parts = m.div_ceil(height) * n.div_ceil(width);
                assert!(parts <= each * threads, "{parts} parts of {m}x{n} for {threads}");
                assert!(height % 16 == 0 && width % 16 == 0);
            }
        }
    }
}

#[test]
fn equals_the_naive_product() {
    for shape in [
        [1, 1, 1],
        [1, 9, 5],
        [7, 1, 4],
        [3, 5, 0],
        [0, 3, 2],
        [17, 33, 9],
        [40, 40, 40],
        [8, 300, 20],
        [13, 70, 300],
        [29, 10, 513],
        [100, 65, 3],
        [2, 1100, 7],
    ] {
        for (alpha, beta) in [(1, 0), (2, 0), (1, 1), (-1, 2)] {
            check::<f32>(shape, alpha, beta);
            check::<f64>(shape, alpha, beta);
            check::<Complex<f32>>(shape, alpha, beta);
            check::<i64>(shape, alpha, beta);
            check::<i32>(shape, alpha, beta);
            check::<bf16>(shape, alpha, beta);
            check::<f16>(shape, alpha, beta);
        }
    }
}

#[test]
fn half_precisions_accumulate_in_f32() {
    let ones = vec![bf16::ONE; 3000];
    let mut out = [bf16::ZERO];
    let (a, b) = (Mat::row_major(&ones, 1, 3000).unwrap(), Mat::row_major(&ones, 3000, 1).unwrap());
    gemm(MatMut::row_major(&mut out, 1, 1).unwrap(), a, b, Factors::PRODUCT).unwrap();
    assert_eq!(out[0], bf16::from_f32(3000.0));
}

#[test]
fn a_beta_of_zero_ignores_nan() {
    let mut out = [f32::NAN; 4];
    let ones = [1.0f32; 4];
    let square = Mat::row_major(&ones, 2, 2).unwrap();
    gemm(MatMut::row_major(&mut out, 2, 2).unwrap(), square, square, Factors::PRODUCT).unwrap();
    assert_eq!(out, [2.0; 4]);
    let mut out = [bf16::NAN; 4];
    let ones = [bf16::ONE; 4];
    let square = Mat::row_major(&ones, 2, 2).unwrap();
    gemm(MatMut::row_major(&mut out, 2, 2).unwrap(), square, square, Factors::PRODUCT).unwrap();
    assert_eq!(out, [bf16::from_f32(2.0); 4]);
}

#[test]
fn results_do_not_depend_on_the_number_of_parts() {
    let fractions = |count: usize| (0..count).map(|i| 1.0 / (i % 977 + 1) as f32).collect();
    for [m, n, k] in [[1, 1000, 400], [3, 900, 300], [900, 2, 300], [40, 90, 300], [190, 330, 70]] {
        let (a, b): (Vec<f32>, Vec<f32>) = (fractions(m * k), fractions(k * n));
        for turned in [false, true] {
            let a = Mat::row_major(&a, m, k).unwrap();
            let b = match turned {
                true => Mat::row_major(&b, n, k).unwrap().t(),
                false => Mat::row_major(&b, k, n).unwrap(),
            };
            let mut whole = vec![0.0; m * n];
            let plan = Plan::of(a.view(), b.view());
            let c = MatMut::row_major(&mut whole, m, n).unwrap();
            serial(c, a, b, Factors::PRODUCT, plan);
            for threads in [2, 3, 16] {
                crate::parallel::set_num_threads(threads);
                let mut parts = vec![0.0; m * n];
                let c = MatMut::row_major(&mut parts, m, n).unwrap();
                gemm(c, a, b, Factors::PRODUCT).unwrap();
                assert_eq!(parts, whole, "{m}x{n}x{k} {turned} {threads}");
            }
        }
    }
}

#[test]
fn matrices_stay_within_their_memory() {
    let data = [0.0f32; 6];
    assert!(Mat::row_major(&data, 2, 3).is_ok());
    assert!(Mat::row_major(&data, 2, 4).is_err());
    let mut data = [0.0f32; 6];
    assert!(MatMut::strided(&mut data, [2, 3], [1, 1]).is_err());
    assert!(MatMut::strided(&mut data, [2, 3], [0, 1]).is_err());
    assert!(MatMut::strided(&mut data, [2, 3], [1, 2]).is_ok());
}

/// A product of numbers of any size, with the low bits of an exact one.
fn wraps<T: MatElement>(of: fn(i64) -> T, [m, n, k]: [usize; 3], alpha: i64, beta: i64) {
    let any = |count: usize, seed: i64| -> Vec<i64> {
        let spread = |i: i64| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        (0..count as i64).map(|i| spread(i) ^ spread(i) >> 29).collect()
    };
    let (a, b, old) = (any(m * k, 1), any(k * n, 2), any(m * n, 3));
    let sum = |row: usize, col: usize| {
        let terms = (0..k).map(|step| a[row * k + step].wrapping_mul(b[step * n + col]));
        terms.fold(0, i64::wrapping_add)
    };
    let wanted: Vec<T> = (0..m * n)
        .map(|i| {
            let product = alpha.wrapping_mul(sum(i / n, i % n));
            of(product.wrapping_add(beta.wrapping_mul(old[i])))
        })
        .collect();
    let typed = |values: &[i64]| -> Vec<T> { values.iter().map(|&value| of(value)).collect() };
    let b_turned: Vec<i64> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
    let (a, b, b_turned) = (typed(&a), typed(&b), typed(&b_turned));
    let factors = Factors { alpha: alpha.into(), beta: beta.into() };
    for is_turned in [false, true] {
        let mut out = typed(&old);
        let c = MatMut::row_major(&mut out, m, n).unwrap();
        let b = match is_turned {
            true => Mat::row_major(&b_turned, n, k).unwrap().t(),
            false => Mat::row_major(&b, k, n).unwrap(),
        };
        gemm(c, Mat::row_major(&a, m, k).unwrap(), b, factors).unwrap();
        assert_eq!(out, wanted, "{} {m} {n} {k} {is_turned}", T::DTYPE.name());
    }
}

#[test]
fn integers_wrap_around() {
    for shape in [[1, 1, 3], [1, 700, 45], [3, 600, 70], [20, 33, 65], [70, 90, 600], [65, 7, 9]] {
        for (alpha, beta) in [(1, 0), (3, 2), (1, 1)] {
            wraps(|x| x as u8, shape, alpha, beta);
            wraps(|x| x as i8, shape, alpha, beta);
            wraps(|x| x as i16, shape, alpha, beta);
            wraps(|x| x as i32, shape, alpha, beta);
            wraps(|x| x, shape, alpha, beta);
        }
    }
}
