//! The kernels beside products of dequantised weights.

use super::{Kernels, portable};
use crate::{Activations, Format};

/// Numbers between -1 and 1 of a fixed sequence.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn matrix(format: Format, rows: usize, columns: usize) -> Vec<u8> {
    let weights = numbers(rows * columns, 7);
    let mut bytes = vec![0; format.row_bytes(weights.len()).unwrap_or(0)];
    assert_eq!(format.quantize(&weights, &mut bytes), Ok(()));
    bytes
}

/// The products in double precision of what the integers stand for.
fn expected(format: Format, bytes: &[u8], x: &Activations, rows: usize) -> Vec<f64> {
    let mut weights = vec![0.0; rows * x.len()];
    assert_eq!(format.dequantize(bytes, &mut weights), Ok(()));
    let activation = |i: usize| f64::from(x.scales[i / 32]) * f64::from(x.integers()[i]);
    let row =
        |row: &[f32]| row.iter().enumerate().map(|(i, &w)| f64::from(w) * activation(i)).sum();
    weights.chunks_exact(x.len()).map(row).collect()
}

fn kernels() -> Vec<Kernels> {
    let mut found = vec![portable::KERNELS];
    #[cfg(target_arch = "x86_64")]
    found.extend(super::x86::all());
    found
}

#[test]
fn every_kernel_and_format() {
    for &format in Format::ALL {
        for (rows, columns) in [(1, 256), (5, 512), (3, 2048), (2, 32), (3, 96), (2, 640)] {
            if format.row_bytes(columns).is_none() {
                continue;
            }
            let bytes = matrix(format, rows, columns);
            let x = Activations::of(&numbers(columns, 11));
            let expected = expected(format, &bytes, &x, rows);
            for Kernels { name, gemv, .. } in kernels() {
                let mut out = vec![0.0; rows];
                gemv(format, &bytes, &x, &mut out);
                for (found, expected) in out.iter().zip(&expected) {
                    let error = (f64::from(*found) - expected).abs();
                    let bound = 2e-5 * (columns as f64).sqrt();
                    assert!(error < bound, "{name} {}: {found} for {expected}", format.name());
                }
            }
        }
    }
}

#[test]
fn extreme_integers() {
    for &format in Format::ALL {
        for byte in [0x00, 0x7f, 0x80, 0xff] {
            let mut bytes = vec![byte; format.row_bytes(512).unwrap_or(0)];
            // Scales of 1, where they are in half precision.
            let places: &[usize] = match format {
                Format::Q2K => &[80, 82],
                Format::Q3K => &[108],
                Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
                Format::Q6K => &[208],
                Format::MXFP4 => &[],
                _ => &[0],
            };
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                for &place in places {
                    block[place..place + 2].copy_from_slice(&[0, 0x3c]);
                }
                if format == Format::MXFP4 {
                    block[0] = 127;
                }
            }
            for sign in [1.0, -1.0] {
                let x = Activations::of(&vec![sign; 512]);
                let expected = expected(format, &bytes, &x, 1)[0];
                for Kernels { name, gemv, .. } in kernels() {
                    let mut out = [0.0];
                    gemv(format, &bytes, &x, &mut out);
                    let error = (f64::from(out[0]) - expected).abs();
                    assert!(
                        error <= 1e-4 * expected.abs().max(1.0),
                        "{name} {}: {} for {expected}",
                        format.name(),
                        out[0]
                    );
                }
            }
        }
    }
}

#[test]
fn several_rows_of_activations() {
    for &format in Format::ALL {
        for (rows, columns, count) in [(1, 256, 1), (37, 512, 7), (16, 2048, 6), (5, 256, 13)] {
            let bytes = matrix(format, rows, columns);
            let x: Vec<Activations> =
                (0..count).map(|i| Activations::of(&numbers(columns, i + 3))).collect();
            let stride = rows + 2;
            for (name, gemm) in
                kernels().iter().flat_map(|k| [(k.name, k.skinny), (k.name, k.gemm)])
            {
                let mut out = vec![7.0; x.len() * stride];
                gemm(format, &bytes, rows, &x, &mut out, stride);
                for (x, out) in x.iter().zip(out.chunks(stride)) {
                    let expected = expected(format, &bytes, x, rows);
                    for (found, expected) in out.iter().zip(&expected) {
                        let error = (f64::from(*found) - expected).abs();
                        let bound = 2e-5 * (columns as f64).sqrt();
                        assert!(error < bound, "{name} {}: {found} for {expected}", format.name());
                    }
                    assert_eq!(out[rows..], [7.0; 2]);
                }
            }
        }
    }
}

#[test]
fn lengths() {
    let x = Activations::of(&[1.0; 40]);
    assert_eq!(x.len(), 64);
    assert!(Format::Q8_0.gemv(&[0; 68], &x, &mut [0.0]).is_ok());
    assert!(Format::Q8_0.gemv(&[0; 68], &x, &mut [0.0; 2]).is_err());
    assert!(Format::Q4K.gemv(&[0; 144], &x, &mut [0.0]).is_err());
    assert!(Format::Q4K.gemv(&[], &Activations::default(), &mut [0.0]).is_ok());
    let two = [x.clone(), x.clone()];
    assert!(Format::Q8_0.gemm(&[0; 136], 2, &two, &mut [0.0; 4], 2).is_ok());
    assert!(Format::Q8_0.gemm(&[0; 136], 2, &two, &mut [0.0; 3], 2).is_err());
    assert!(Format::Q8_0.gemm(&[0; 136], 3, &two, &mut [0.0; 6], 3).is_err());
    assert!(
        Format::Q8_0.gemm(&[0; 136], 2, &[x, Activations::default()], &mut [0.0; 4], 2).is_err()
    );
    assert!(Format::Q8_0.gemm(&[0; 1], 2, &[], &mut [], 2).is_ok());
}

#[test]
fn infinities_and_nan_are_not_lost() {
    for &format in Format::ALL {
        let bytes = matrix(format, 2, 512);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut row = numbers(512, 5);
            row[300] = value;
            let x = Activations::of(&row);
            for Kernels { name, gemv, .. } in kernels() {
                let mut out = vec![0.0; 2];
                gemv(format, &bytes, &x, &mut out);
                assert!(out.iter().all(|found| found.is_nan()), "{name} {}", format.name());
            }
        }
    }
}

#[test]
fn activations_are_rounded_half_to_even() {
    let halves = (0..32).map(|i| i as f32 * 0.5 - 7.5);
    let mut row: Vec<f32> = halves.chain([127.0; 32]).chain([1e-40; 32]).collect();
    row[0] = 127.0;
    let x = Activations::of(&row);
    for (found, element) in x.integers().iter().zip(&row[..64]) {
        assert_eq!(f32::from(*found), element.round_ties_even());
    }
    assert!(x.integers()[64..].iter().all(|&integer| integer == 0));
    assert_eq!(&x.scales[..3], [1.0, 1.0, 0.0]);
}
