//! Fast algorithms against naive twins, on random input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use corten_core::geometry::*;
use corten_core::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Every index of a shape with the position it means, in row-major order.
fn positions(sizes: &[i64], strides: &[i64], offset: i64) -> Vec<i64> {
    sizes.iter().zip(strides).fold(vec![offset], |all, (&size, &stride)| {
        all.iter().flat_map(|&at| (0..size).map(move |index| at + index * stride)).collect()
    })
}

fn shape() -> impl Strategy<Value = Vec<i64>> {
    vec(prop_oneof![1 => Just(0_i64), 3 => Just(1), 8 => 2..5_i64], 0..6)
}

/// A shape and strides of either sign.
fn geometry_of() -> impl Strategy<Value = (Vec<i64>, Vec<i64>)> {
    shape().prop_flat_map(|sizes| {
        let dense = contiguous_strides(&sizes).unwrap().to_vec();
        let any = vec(prop_oneof![-6..25_i64, Just(0), Just(1)], sizes.len());
        let rank = sizes.len();
        let permuted = (Just(dense), Just((0..rank).collect::<Vec<_>>()).prop_shuffle())
            .prop_map(|(strides, order)| order.iter().map(|&d| strides[d]).collect::<Vec<_>>());
        (Just(sizes), prop_oneof![any, permuted])
    })
}

fn is_dense_twin(sizes: &[i64], strides: &[i64]) -> bool {
    let mut all = positions(sizes, strides, 0);
    all.sort_unstable();
    all.iter().copied().eq(0..all.len() as i64)
}

fn strided(sizes: &[i64], strides: &[i64], offset: i64) -> TensorBase {
    let storage = Storage::new(0, Device::CPU).unwrap();
    let keys = KeySet::of(&[DispatchKey::CPU]);
    TensorBase::new_with_storage(storage, DType::UInt8, keys, sizes, strides, offset).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn contiguous_means_positions_in_order((sizes, strides) in geometry_of()) {
        let all = positions(&sizes, &strides, 0);
        let in_order = all.iter().copied().eq(0..all.len() as i64);
        prop_assert_eq!(strided(&sizes, &strides, 0).is_contiguous(), in_order);
    }

    #[test]
    fn dense_means_a_block_without_sharing((sizes, strides) in geometry_of()) {
        let t = strided(&sizes, &strides, 0);
        // With no elements, or with negative strides, the flag is a statement about strides only.
        if !sizes.contains(&0) && strides.iter().zip(&sizes).all(|(&s, &n)| s >= 0 || n < 2) {
            prop_assert_eq!(t.is_non_overlapping_and_dense(), is_dense_twin(&sizes, &strides));
        }
    }

    #[test]
    fn contiguous_strides_are_contiguous(sizes in shape()) {
        let strides = contiguous_strides(&sizes).unwrap();
        let t = strided(&sizes, &strides, 0);
        prop_assert!(t.is_contiguous());
        prop_assert_eq!(t.sizes().to_vec(), sizes);
    }

    #[test]
    fn bytes_needed_reach_the_highest_element((sizes, strides) in geometry_of(), offset in 0..50_i64) {
        let highest = positions(&sizes, &strides, offset).into_iter().max();
        let expected = highest.map_or(0, |highest| highest.max(offset) as usize + 1);
        // Dimensions with negative strides reach down from the offset.
        prop_assert_eq!(storage_bytes_needed(&sizes, &strides, 1, offset).unwrap(), expected);
        let lowest = positions(&sizes, &strides, offset).into_iter().min().unwrap_or(0);
        let fits = check_in_bounds(&sizes, &strides, offset, 1, expected).is_ok();
        prop_assert_eq!(fits, lowest >= 0);
    }

    #[test]
    fn a_view_keeps_the_order_and_is_found_if_there_is_one(
        (sizes, strides) in geometry_of(),
        cuts in vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let numel: i64 = sizes.iter().product();
        prop_assume!(numel > 0);
        let (mut shape, mut rest) = (vec![], numel);
        for cut in cuts {
            let divisors: Vec<i64> = (1..=rest).filter(|d| rest % d == 0).collect();
            let size = divisors[cut.index(divisors.len())];
            shape.push(size);
            rest /= size;
        }
        shape.push(rest);
        let all = positions(&sizes, &strides, 0);
        let found = compute_view_strides(&sizes, &strides, &shape);
        if let Some(view) = &found {
            prop_assert_eq!(&all, &positions(&shape, view, 0));
        } else if is_dense_twin(&sizes, &strides) {
            // If there were strides, they would be the distances of neighbours. Over overlapping
            // elements the search may miss accidental views.
            let mut step = numel as usize;
            let distances: Vec<i64> = shape.iter().map(|&size| {
                step /= size as usize;
                if size > 1 { all[step] - all[0] } else { 0 }
            }).collect();
            prop_assert_ne!(positions(&shape, &distances, all[0]), all);
        }
    }

    #[test]
    fn infer_size_agrees_with_the_definition(shape in vec(-1..5_i64, 0..5), numel in 0..50_i64) {
        let unknown = shape.iter().filter(|&&size| size == -1).count();
        let known: i64 = shape.iter().filter(|&&size| size != -1).product();
        let result = infer_size(&shape, numel);
        match unknown {
            0 => prop_assert_eq!(result.is_ok(), known == numel),
            1 => {
                let fits = known > 0 && numel % known == 0;
                prop_assert_eq!(result.is_ok(), fits);
                if let Ok(sizes) = result {
                    prop_assert_eq!(sizes.iter().product::<i64>(), numel);
                }
            }
            _ => prop_assert!(result.is_err()),
        }
    }

    #[test]
    fn broadcast_is_symmetric_and_idempotent(a in shape(), b in shape()) {
        let (ab, ba) = (infer_broadcast(&a, &b), infer_broadcast(&b, &a));
        prop_assert_eq!(ab.is_ok(), ba.is_ok());
        if let (Ok(ab), Ok(ba)) = (ab, ba) {
            prop_assert_eq!(&ab, &ba);
            prop_assert_eq!(&infer_broadcast(&ab, &a).unwrap(), &ab);
            prop_assert_eq!(ab.len(), a.len().max(b.len()));
        }
    }

    #[test]
    fn overlap_of_dense_tensors_is_exact(
        sizes in vec(1..4_i64, 1..3), first in 0..20_i64, second in 0..20_i64,
    ) {
        let base = TensorBase::empty(&[64], DType::UInt8).unwrap();
        let strides = contiguous_strides(&sizes).unwrap();
        let a = base.as_view_of(&sizes, &strides, first).unwrap();
        let b = base.as_view_of(&sizes, &strides, second).unwrap();
        let (x, y) = (positions(&sizes, &strides, first), positions(&sizes, &strides, second));
        let expected = if x == y {
            OverlapBetween::Full
        } else if x.iter().any(|at| y.contains(at)) {
            OverlapBetween::Partial
        } else {
            OverlapBetween::No
        };
        prop_assert_eq!(get_overlap_status(&a, &b), expected);
    }

    #[test]
    fn internal_overlap_is_never_denied((sizes, strides) in geometry_of()) {
        let mut all = positions(&sizes, &strides, 0);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        match has_internal_overlap(&strided(&sizes, &strides, 0)) {
            Overlap::No => prop_assert_eq!(all.len(), count),
            Overlap::Yes => prop_assert!(all.len() < count || count == 0),
            Overlap::TooHard => {}
        }
    }

    #[test]
    fn sizes_survive_any_sequence_of_shapes(shapes in vec(vec(0..3_i64, 0..9), 1..8)) {
        let t = strided(&[0], &[1], 0);
        for sizes in shapes {
            let strides = contiguous_strides(&sizes).unwrap();
            t.set_sizes_and_strides(&sizes, &strides, None).unwrap();
            let geometry = t.geometry();
            prop_assert_eq!(geometry.sizes.as_slice(), &sizes);
            prop_assert_eq!(&geometry.strides, &strides);
            prop_assert_eq!(geometry.numel, sizes.iter().product::<i64>());
        }
    }

    #[test]
    fn casts_between_integers_keep_low_bits(value in any::<i64>()) {
        prop_assert_eq!(cast::<i64, u8>(value), value as u8);
        prop_assert_eq!(cast::<i64, i16>(value), value as i16);
        prop_assert_eq!(cast::<i64, u64>(value), value as u64);
        prop_assert_eq!(cast::<u64, i32>(value as u64), value as i32);
        prop_assert_eq!(cast::<i64, bool>(value), value != 0);
    }

    #[test]
    fn casts_to_integers_truncate_what_fits(value in -2.1e9..2.1e9_f64) {
        prop_assert_eq!(cast::<f64, i32>(value), value.trunc() as i32);
        prop_assert_eq!(cast::<f64, i64>(value), value.trunc() as i64);
        prop_assert_eq!(cast::<f64, u8>(value), value.trunc() as i64 as u8);
        prop_assert_eq!(cast::<f64, u32>(value), value.trunc() as i64 as u32);
        prop_assert_eq!(cast::<Complex<f64>, i32>(Complex::new(value, 3.0)), value as i32);
    }

    #[test]
    fn bf16_rounds_to_nearest(bits in any::<u32>()) {
        let value = f32::from_bits(bits);
        let found: bf16 = cast(value);
        if value.is_nan() {
            prop_assert_eq!(found.to_bits(), 0x7FC0);
        } else {
            prop_assert_eq!(found.to_bits(), bf16::from_f32(value).to_bits());
        }
    }

    #[test]
    fn scalars_fit_or_are_refused(value in any::<i64>()) {
        let scalar = Scalar::from(value);
        prop_assert_eq!(scalar.checked_to::<i32>("op").is_ok(), i32::try_from(value).is_ok());
        prop_assert_eq!(scalar.checked_to::<u8>("op").is_ok(), (-255..=255).contains(&value));
        prop_assert_eq!(scalar.checked_to::<i64>("op").unwrap(), value);
        prop_assert_eq!(scalar.to_f64(), value as f64);
    }
}
