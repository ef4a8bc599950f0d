//! Operators that are split over threads give what one thread gives, and what is right.

use corten_core::{Complex, DType, Element, Result};
use corten_ops::{Tensor, op, parallel};
use std::sync::{Mutex, PoisonError};

/// More than one thread's share.
const ELEMENTS: i64 = 200_000;

/// Numbers of threads, most of them more than there are processors.
const THREADS: [usize; 5] = [1, 2, 3, 5, 16];

/// The elements of what a function gives with one thread, which it must give with any number of them.
fn with_any_number<T: Element>(function: impl Fn() -> Result<Tensor>) -> Result<Vec<T>> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    corten_cpu::init()?;
    let mut wanted: Option<Vec<T>> = None;
    for threads in THREADS {
        parallel::set_num_threads(threads);
        let found = function()?.to_vec::<T>()?;
        match &wanted {
            Some(wanted) => assert!(*wanted == found, "with {threads} threads"),
            None => wanted = Some(found),
        }
    }
    Ok(wanted.unwrap_or_default())
}

/// Numbers between -1 and 1 in no order.
fn scattered(count: usize) -> Vec<f64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn reductions_to_one_element() -> Result<()> {
    corten_cpu::init()?;
    let x = op::arange(ELEMENTS.into(), Some(DType::Float32), None, None, None)?;
    let x = op::remainder_scalar(&x, 7.into())?;
    let functions: [fn(&Tensor) -> Result<Tensor>; 6] = [
        |x| op::sum(x, None),
        |x| op::mean(x, None),
        |x| op::nansum(x, None, false, None),
        |x| op::prod(x, None),
        op::max,
        op::min,
    ];
    for function in functions {
        with_any_number::<f32>(|| function(&x))?;
    }
    Ok(())
}

#[test]
fn triangles() -> Result<()> {
    corten_cpu::init()?;
    for [batch, rows, cols] in [[1, 1, 1], [2, 3, 5], [3, 300, 257], [1, 4, 40_000], [40_000, 2, 3]]
    {
        let values: Vec<i16> = (0..batch * rows * cols).map(|i| (i % 9973 + 1) as i16).collect();
        let x = Tensor::from_vec(values.clone(), &[batch, rows, cols])?;
        for diagonal in [-2, 0, 1, i64::MAX, i64::MIN] {
            let expected = |keep: fn(i64, i64) -> bool| -> Vec<i16> {
                let at = |i: i64| (i / cols % rows, i % cols);
                let kept = |i: i64| {
                    let (row, col) = at(i);
                    keep(col, row.saturating_add(diagonal))
                };
                (0..).zip(&values).map(|(i, &x)| if kept(i) { x } else { 0 }).collect()
            };
            let found = with_any_number::<i16>(|| op::tril(&x, diagonal))?;
            assert!(found == expected(|col, last| col <= last), "tril {rows} {cols} {diagonal}");
            let found = with_any_number::<i16>(|| op::triu(&x, diagonal))?;
            assert!(found == expected(|col, first| col >= first), "triu {rows} {cols} {diagonal}");
        }
    }
    Ok(())
}

#[test]
fn places_and_elements_of_masks() -> Result<()> {
    corten_cpu::init()?;
    let shapes: [&[i64]; 9] = [
        &[],
        &[0],
        &[7],
        &[16_384],
        &[16_385],
        &[100_003],
        &[317, 321],
        &[50_000, 2],
        &[3, 1, 41, 701],
    ];
    for shape in shapes {
        let count = shape.iter().product::<i64>() as usize;
        for rare in [0.0, 0.99, 2.0] {
            let chosen: Vec<bool> = scattered(count).iter().map(|&x| x >= rare).collect();
            let mask = Tensor::from_vec(chosen.clone(), shape)?;
            let places: Vec<usize> = (0..count).filter(|&place| chosen[place]).collect();
            let position = |place: usize| {
                let mut position = vec![0; shape.len()];
                shape.iter().enumerate().rev().fold(place, |rest, (dim, &size)| {
                    position[dim] = (rest % size as usize) as i64;
                    rest / size as usize
                });
                position
            };
            let expected: Vec<i64> = places.iter().flat_map(|&place| position(place)).collect();
            assert!(with_any_number::<i64>(|| op::nonzero(&mask))? == expected, "{shape:?} {rare}");
            let values: Vec<i32> = (0..count as i32).map(|i| i * 3 - 1).collect();
            let x = Tensor::from_vec(values.clone(), shape)?;
            let expected: Vec<i32> = places.iter().map(|&place| values[place]).collect();
            let found = with_any_number::<i32>(|| op::masked_select(&x, &mask))?;
            assert!(found == expected, "{shape:?} {rare}");
        }
    }
    Ok(())
}

#[test]
fn rows_that_are_written_by_index() -> Result<()> {
    corten_cpu::init()?;
    for [rows, cols, picks] in
        [[5, 9, 4], [3000, 64, 3000], [40, 16, 9000], [4, 20_000, 9], [1, 8, 5]]
    {
        let (size, count) = (rows * cols, picks * cols);
        let index: Vec<i64> = (0..picks).map(|i| (i * i * 7 + i) % rows - i % 2 * rows).collect();
        let values: Vec<i64> = (0..count).map(|i| i * 5 % 4093).collect();
        let before: Vec<i64> = (0..size).map(|i| -i).collect();
        for accumulate in [false, true] {
            for single in [false, true] {
                let mut expected = before.clone();
                for (pick, &row) in index.iter().enumerate() {
                    for col in 0..cols as usize {
                        let slot =
                            &mut expected[row.rem_euclid(rows) as usize * cols as usize + col];
                        let value = if single { 9 } else { values[pick * cols as usize + col] };
                        *slot = if accumulate { *slot + value } else { value };
                    }
                }
                let x = Tensor::from_vec(before.clone(), &[rows, cols])?;
                let indices = [Some(Tensor::from_vec(index.clone(), &[picks])?)];
                let values = match single {
                    true => Tensor::from_vec(vec![9_i64], &[1])?,
                    false => Tensor::from_vec(values.clone(), &[picks, cols])?,
                };
                let found =
                    with_any_number::<i64>(|| op::index_put(&x, &indices, &values, accumulate))?;
                assert!(found == expected, "{rows} {cols} {picks} {accumulate} {single}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_first_index_outside_is_named() -> Result<()> {
    corten_cpu::init()?;
    let x = Tensor::from_vec(vec![0_i64; 80], &[10, 8])?;
    let mut index = vec![-10_i64; ELEMENTS as usize];
    (index[77_777], index[150_000]) = (10, -11);
    let values = Tensor::from_vec(vec![1_i64], &[1])?;
    let indices = [Some(Tensor::from_vec(index, &[ELEMENTS])?)];
    let expected = "index 10 is out of bounds for dimension 0 with size 10";
    for threads in THREADS {
        parallel::set_num_threads(threads);
        assert_eq!(op::index_put(&x, &indices, &values, false).unwrap_err().message(), expected);
        assert_eq!(op::index_tensor(&x, &indices).unwrap_err().message(), expected);
    }
    Ok(())
}

/// `A X` for matrices by rows.
fn product(a: &[f64], x: &[f64], [rows, depth, cols]: [usize; 3]) -> Vec<f64> {
    let mut out = vec![0.0; rows * cols];
    for (row, out) in out.chunks_exact_mut(cols).enumerate() {
        for (k, x) in x.chunks_exact(cols).enumerate() {
            let factor = a[row * depth + k];
            out.iter_mut().zip(x).for_each(|(out, x)| *out += factor * x);
        }
    }
    out
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (place, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= tolerance, "{x} instead of {y} at {place}");
    }
}

#[test]
fn systems() -> Result<()> {
    corten_cpu::init()?;
    for [n, cols] in [[1, 1], [33, 17], [100, 49], [100, 3], [257, 200], [160, 65]] {
        let (size, right) = ([n as i64, n as i64], [n as i64, cols as i64]);
        let values = scattered(n * n);
        let a = Tensor::from_vec(values.clone(), &size)?;
        let wanted = scattered(n * cols);
        let b = Tensor::from_vec(wanted.clone(), &right)?;
        let x = with_any_number::<f64>(|| op::linalg_solve(&a, &b, true))?;
        assert_near(&product(&values, &x, [n, n, cols]), &wanted, 1e-8);
        let turned = op::transpose_int(&b, 0, 1)?;
        let x = with_any_number::<f64>(|| op::linalg_solve(&a, &turned, false))?;
        let wanted_turned = turned.to_vec::<f64>()?;
        assert_near(&product(&x, &values, [cols, n, n]), &wanted_turned, 1e-8);
        let inverse = with_any_number::<f64>(|| op::linalg_inv(&a))?;
        let one: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
        assert_near(&product(&values, &inverse, [n, n, n]), &one, 1e-8);
        let triangle = (op::triu(&a, 0)?
            + &op::mul_scalar(
                &op::eye(n as i64, Some(DType::Float64), None, None, None)?,
                20.into(),
            )?)?;
        let x = with_any_number::<f64>(|| {
            op::linalg_solve_triangular(&triangle, &b, true, true, false)
        })?;
        assert_near(&product(&triangle.to_vec::<f64>()?, &x, [n, n, cols]), &wanted, 1e-9);
    }
    Ok(())
}

#[test]
fn complex_systems_and_batches() -> Result<()> {
    corten_cpu::init()?;
    for sizes in [[1, 150, 150], [3, 90, 90]] {
        let count = sizes.iter().product::<i64>() as usize;
        let values = scattered(2 * count);
        let values: Vec<_> =
            values.as_chunks().0.iter().map(|&[re, im]| Complex::new(re, im)).collect();
        let a = Tensor::from_vec(values, &sizes)?;
        let inverse = || op::linalg_inv(&a);
        with_any_number::<Complex<f64>>(inverse)?;
        let found = op::matmul(&a, &inverse()?)?.to_vec::<Complex<f64>>()?;
        let n = sizes[1] as usize;
        for (place, value) in found.iter().enumerate() {
            let one = f64::from(u8::from(place / n % n == place % n));
            assert!((value - one).norm() < 1e-8, "{value} at {place}");
        }
    }
    Ok(())
}

#[test]
fn factors_of_symmetric_matrices() -> Result<()> {
    corten_cpu::init()?;
    for n in [1, 15, 17, 63, 65, 100, 200, 330] {
        // The factor is known: small numbers, so that all products are exact.
        let numbers = scattered(n * n);
        let factor = |row: usize, col: usize| match row.cmp(&col) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 2.0 + (row % 5) as f64,
            std::cmp::Ordering::Greater => (numbers[row * n + col] * 3.0).round() / 4.0,
        };
        let lower: Vec<f64> = (0..n * n).map(|i| factor(i / n, i % n)).collect();
        let upper: Vec<f64> = (0..n * n).map(|i| factor(i % n, i / n)).collect();
        let mut values = product(&lower, &upper, [n, n, n]);
        // What lies above the diagonal is not read.
        (0..n).for_each(|row| values[row * n + row + 1..(row + 1) * n].fill(f64::NAN));
        let a = Tensor::from_vec(values.clone(), &[n as i64, n as i64])?;
        let found = with_any_number::<f64>(|| op::linalg_cholesky(&a, false))?;
        assert_near(&found, &lower, 1e-6);
        let failing = n * 2 / 3;
        values[failing * n + failing] = -1.0;
        let a = Tensor::from_vec(values, &[n as i64, n as i64])?;
        let info = with_any_number::<i32>(|| Ok(op::linalg_cholesky_ex(&a, false, false)?.1))?;
        assert_eq!(info, [failing as i32 + 1]);
    }
    Ok(())
}

/// Point `k` of the spectrum of a line, by its definition.
fn point(line: &[Complex<f64>], k: usize, sign: f64) -> Complex<f64> {
    let turn = |i: usize| (i as u128 * k as u128 % line.len() as u128) as f64 / line.len() as f64;
    let term = |(i, &x): (usize, &Complex<f64>)| {
        x * Complex::from_polar(1.0, sign * std::f64::consts::TAU * turn(i))
    };
    line.iter().enumerate().map(term).sum()
}

#[test]
fn spectra_of_long_lines() -> Result<()> {
    corten_cpu::init()?;
    let n = 300_000;
    let numbers = scattered(2 * n);
    let line: Vec<_> = numbers.as_chunks().0.iter().map(|&[re, im]| Complex::new(re, im)).collect();
    let x = Tensor::from_vec(line.clone(), &[n as i64])?;
    for (forward, sign) in [(true, -1.0), (false, 1.0)] {
        let found = with_any_number::<Complex<f64>>(|| op::_fft_c2c(&x, &[0], 2, forward))?;
        for k in [0, 1, n / 3] {
            assert!((found[k] - point(&line, k, sign) / n as f64).norm() < 1e-13, "{k}");
        }
    }
    Ok(())
}

#[test]
fn spectra_of_long_lines_of_real_numbers() -> Result<()> {
    corten_cpu::init()?;
    for n in [1 << 16, 2 * 181 * 191, 30_001] {
        let numbers = scattered(n);
        let line: Vec<_> = numbers.iter().map(|&x| Complex::new(x, 0.0)).collect();
        let x = Tensor::from_vec(numbers.clone(), &[n as i64])?;
        let whole = with_any_number::<Complex<f64>>(|| op::_fft_r2c(&x, &[0], 2, false))?;
        let half = with_any_number::<Complex<f64>>(|| op::_fft_r2c(&x, &[0], 2, true))?;
        assert_eq!((whole.len(), half.len()), (n, n / 2 + 1));
        assert!(whole[..half.len()] == half);
        for k in [0, 5, n / 2 + 1] {
            assert!((whole[k] - point(&line, k, -1.0) / n as f64).norm() < 1e-13, "{n} {k}");
        }
        assert!((1..n).all(|k| whole[k] == whole[n - k].conj()));
        let spectrum = Tensor::from_vec(half, &[n as i64 / 2 + 1])?;
        let again = with_any_number::<f64>(|| op::_fft_c2r(&spectrum, &[0], 0, n as i64))?;
        assert_near(&again, &numbers, 1e-12);
    }
    Ok(())
}

/// The outputs of long short-term memory, step by step and unit by unit.
fn outputs(gates: &[f64], weight: &[f64], [length, batch, hidden]: [usize; 3]) -> Vec<f64> {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut all = Vec::new();
    let (mut state, mut cell) = (vec![0.25; batch * hidden], vec![-0.5; batch * hidden]);
    for step in 0..length {
        let before = state.clone();
        for place in 0..batch * hidden {
            let (row, unit) = (place / hidden, place % hidden);
            let gate = |gate: usize| {
                let line = &weight[(gate * hidden + unit) * hidden..][..hidden];
                let state = &before[row * hidden..][..hidden];
                let sum: f64 = line.iter().zip(state).map(|(w, h)| w * h).sum();
                gates[((step * batch + row) * 4 + gate) * hidden + unit] + sum
            };
            cell[place] = sigmoid(gate(1)) * cell[place] + sigmoid(gate(0)) * gate(2).tanh();
            state[place] = sigmoid(gate(3)) * cell[place].tanh();
        }
        all.extend_from_slice(&state);
    }
    all
}

#[test]
fn sequences_of_recurrent_cells() -> Result<()> {
    corten_cpu::init()?;
    let joined = |parts: &[&Tensor]| -> Result<Tensor> {
        let parts: Result<Vec<Tensor>> = parts.iter().map(|x| op::reshape(x, &[-1])).collect();
        op::cat(&parts?, 0)
    };
    for (batch, hidden) in [(1, 5), (25, 20), (40, 16), (70, 33)] {
        let length = 3;
        let [state, all] = [batch * hidden, length * batch * hidden];
        let tensor = |count: usize, sizes: &[i64]| Tensor::from_vec(scattered(count), sizes);
        let [l, b, h] = [length, batch, hidden].map(|size| size as i64);
        let weight = tensor(4 * hidden * hidden, &[4 * h, h])?;
        let gates = tensor(4 * all, &[l, b, 4 * h])?;
        let hx = Tensor::from_vec(vec![0.25; state], &[b, h])?;
        let cx = Tensor::from_vec(vec![-0.5; state], &[b, h])?;
        let grad = tensor(all, &[l, b, h])?;
        for reverse in [false, true] {
            let forward = || op::lstm_sequence(&gates, &hx, &cx, &weight, reverse, true);
            let found = with_any_number::<f64>(|| {
                let (output, cell, kept) = forward()?;
                let (g, x, c, w) =
                    op::lstm_sequence_backward(&grad, &hx, &hx, &cx, &weight, &kept, reverse)?;
                joined(&[&output, &cell, &kept, &g, &x, &c, &w])
            })?;
            if !reverse {
                let sizes = [length, batch, hidden];
                let expected = outputs(&gates.to_vec()?, &weight.to_vec()?, sizes);
                assert_near(&found[..all], &expected, 1e-12);
            }
            let [gates, weight] =
                [op::narrow(&gates, 2, 0, 3 * h)?, op::narrow(&weight, 0, 0, 3 * h)?];
            with_any_number::<f64>(|| {
                let (output, kept) = op::gru_sequence(&gates, &hx, &weight, None, reverse, true)?;
                let (g, x, s, n) = op::gru_sequence_backward(&grad, &hx, &weight, &kept, reverse)?;
                joined(&[&output, &kept, &g, &x, &s, &n])
            })?;
        }
    }
    Ok(())
}
