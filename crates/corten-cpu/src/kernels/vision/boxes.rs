//! Boxes of which those are dropped that overlap with better ones.

use super::region::Real;
use crate::kernels::support::{contiguous, empty_as};
use crate::rows::Float;
use corten_core::{DType, Reader, Result, Writer, ensure, match_dtype, try_collect, try_vec};
use corten_ops::Tensor;
use std::cmp::Ordering;

/// The boxes that are kept, in the order of their scores.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn nms(dets: &Tensor, scores: &Tensor, iou_threshold: f64) -> Result<Tensor> {
    check(dets, scores)?;
    if dets.numel() == 0 {
        return empty_as(&[0], dets, DType::Int64);
    }
    let (dets, scores) = (contiguous(dets)?, contiguous(scores)?);
    let kept = match_dtype!(dets.dtype(), "nms_kernel", Float, T => {
        let (boxes, scores) = (Reader::<T>::new(&dets)?, Reader::<T>::new(&scores)?);
        keep::<T>(&boxes, &scores, iou_threshold)
    })?;
    let out = empty_as(&[kept.len() as i64], &dets, DType::Int64)?;
    Writer::<i64>::new(&out)?.copy_from_slice(&kept);
    Ok(out)
}

fn check(dets: &Tensor, scores: &Tensor) -> Result<()> {
    let (boxes, numbers) = (dets.sizes(), scores.sizes());
    ensure!(boxes.len() == 2, Runtime, "boxes should be a 2d tensor, got {}D", boxes.len());
    ensure!(
        boxes[1] == 4,
        Runtime,
        "boxes should have 4 elements in dimension 1, got {}",
        boxes[1]
    );
    ensure!(numbers.len() == 1, Runtime, "scores should be a 1d tensor, got {}D", numbers.len());
    ensure!(
        boxes[0] == numbers[0],
        Runtime,
        "boxes and scores should have same number of elements in dimension 0, got {} and {}",
        boxes[0],
        numbers[0]
    );
    ensure!(dets.dtype() == scores.dtype(), Runtime, "dets should have the same type as scores");
    Ok(())
}

/// The boxes by columns, in the order of their scores.
struct Sorted<C> {
    order: Vec<usize>,
    corners: [Vec<C>; 4],
    areas: Vec<C>,
}

impl<C: Real> Sorted<C> {
    fn of<T: Float<Wide = C>>(boxes: &[T], scores: &[T]) -> Result<Self> {
        let mut order = try_collect(0..scores.len())?;
        let descending = |&a: &usize, &b: &usize| {
            let (a, b) = (scores[a].widen(), scores[b].widen());
            // NaN comes first, as in `sort`.
            let by_value = b.partial_cmp(&a).unwrap_or(Ordering::Equal);
            b.is_nan().cmp(&a.is_nan()).then(by_value)
        };
        order.sort_by(descending);
        let column =
            |corner: usize| try_collect(order.iter().map(|&nr| boxes[nr * 4 + corner].widen()));
        let corners = [column(0)?, column(1)?, column(2)?, column(3)?];
        let area =
            |nr: usize| (corners[2][nr] - corners[0][nr]) * (corners[3][nr] - corners[1][nr]);
        let areas = try_collect((0..order.len()).map(area))?;
        Ok(Self { order, corners, areas })
    }

    /// Marks the boxes after number `nr` that overlap with it by more than the threshold.
    fn drop_after(&self, nr: usize, threshold: f64, dropped: &mut [bool]) {
        let [x1, y1, x2, y2] = &self.corners;
        let own = self.corners.each_ref().map(|corner| corner[nr]);
        let smaller = |a: C, b: C| if b < a { b } else { a };
        for (other, dropped) in dropped.iter_mut().enumerate().skip(nr + 1) {
            let (left, top) = (x1[other].at_least(own[0]), y1[other].at_least(own[1]));
            let (right, bottom) = (smaller(own[2], x2[other]), smaller(own[3], y2[other]));
            let (width, height) =
                ((right - left).at_least(C::ZERO), (bottom - top).at_least(C::ZERO));
            let common = width * height;
            let share = common / (self.areas[nr] + self.areas[other] - common);
            *dropped |= share.as_f64() > threshold;
        }
    }
}

fn keep<T: Float>(boxes: &[T], scores: &[T], threshold: f64) -> Result<Vec<i64>>
where
    T::Wide: Real,
{
    let sorted = Sorted::of(boxes, scores)?;
    let mut dropped = try_vec(false, scores.len())?;
    for nr in 0..scores.len() {
        if !dropped[nr] {
            sorted.drop_after(nr, threshold, &mut dropped);
        }
    }
    let left = sorted.order.iter().zip(&dropped).filter(|(_, dropped)| !**dropped);
    try_collect(left.map(|(&nr, _)| nr as i64))
}
