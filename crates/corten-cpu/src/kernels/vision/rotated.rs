//! How much rotated boxes overlap.

use crate::kernels::support::{contiguous, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, DType, Result, ensure, match_dtype, unwinding};
use corten_ops::Tensor;

/// The intersection over union of every two boxes, in single precision.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn box_iou_rotated(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    for (name, boxes) in [("boxes1", boxes1), ("boxes2", boxes2)] {
        let sizes = boxes.sizes();
        ensure!(sizes.len() == 2, Runtime, "{name} should be a 2d tensor, got {}D", sizes.len());
        ensure!(
            sizes[1] == 5,
            Runtime,
            "{name} should have 5 elements in dimension 1, got {}",
            sizes[1]
        );
    }
    ensure!(
        boxes1.dtype() == boxes2.dtype(),
        Runtime,
        "boxes1 and boxes2 must have the same dtype, got {} and {}",
        boxes1.dtype(),
        boxes2.dtype()
    );
    let sizes = [boxes1.sizes()[0], boxes2.sizes()[0]];
    let out = empty_as(&sizes, boxes1, DType::Float32)?;
    if is_shape_only(&out) || (out.numel() == 0 && boxes1.dtype().is_floating_point()) {
        return Ok(out);
    }
    let (first, second) = (contiguous(boxes1)?, contiguous(boxes2)?);
    match_dtype!(boxes1.dtype(), "box_iou_rotated_cpu", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&first, Access::Read), (&second, Access::Read),
        ])?;
        fill(access.read::<T>(1)?, access.read::<T>(2)?, access.write::<f32>(0)?)
    })?;
    Ok(out)
}

fn fill<T: Float>(first: &[T], second: &[T], out: &mut [f32]) -> Result<()> {
    let columns = second.len() / 5;
    for_each_chunk(out, columns, grain_of(columns * 500), |row, out| {
        let own = numbers(&first[row * 5..][..5]);
        for (out, other) in out.iter_mut().zip(second.chunks_exact(5)) {
            *out = overlap(own, numbers(other)) as f32;
        }
        Ok(())
    })
}

fn numbers<T: Float>(row: &[T]) -> [f64; 5] {
    std::array::from_fn(|i| row[i].widen().as_f64())
}

type Point = [f64; 2];

/// The corners of a box around a centre.
fn corners([x, y, width, height, angle]: [f64; 5], centre: Point) -> [Point; 4] {
    let (sin, cos) = angle.to_radians().sin_cos();
    let signs = [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]];
    signs.map(|[across, along]| {
        let (u, v) = (across * width, along * height);
        [x - centre[0] + u * cos + v * sin, y - centre[1] - u * sin + v * cos]
    })
}

/// The intersection over the union; zero for boxes without an area.
fn overlap(first: [f64; 5], second: [f64; 5]) -> f64 {
    let (one, other) = (first[2] * first[3], second[2] * second[3]);
    if one < 1e-14 || other < 1e-14 {
        return 0.0;
    }
    // Coordinates that are small leave more digits to the area.
    let centre = [(first[0] + second[0]) / 2.0, (first[1] + second[1]) / 2.0];
    let common = area(&clipped(corners(first, centre), corners(second, centre)));
    common / (one + other - common)
}

/// The part of a convex polygon that lies in another, both in the same sense of rotation: one side
/// after the other cuts off what is beyond it.
fn clipped(polygon: [Point; 4], window: [Point; 4]) -> Vec<Point> {
    // Bounded: each of four sides adds at most one corner.
    let mut kept = unwinding::with_capacity(8);
    kept.extend(polygon);
    for (i, &from) in window.iter().enumerate() {
        let to = window[(i + 1) % 4];
        let side =
            |p: Point| (to[0] - from[0]) * (p[1] - from[1]) - (to[1] - from[1]) * (p[0] - from[0]);
        let before = std::mem::replace(&mut kept, unwinding::with_capacity(8));
        for (k, &point) in before.iter().enumerate() {
            let last = before[(k + before.len() - 1) % before.len()];
            let (here, there) = (side(point), side(last));
            if (here >= 0.0) != (there >= 0.0) {
                let share = there / (there - here);
                let between = |axis: usize| last[axis] + share * (point[axis] - last[axis]);
                kept.push([between(0), between(1)]);
            }
            if here >= 0.0 {
                kept.push(point);
            }
        }
    }
    kept
}

/// The area of a polygon.
fn area(corners: &[Point]) -> f64 {
    let Some((&first, rest)) = corners.split_first() else { return 0.0 };
    let cross = |pair: &[Point]| {
        let [a, b] = [pair[0], pair[1]].map(|p| [p[0] - first[0], p[1] - first[1]]);
        a[0] * b[1] - a[1] * b[0]
    };
    rest.windows(2).map(cross).sum::<f64>().abs() / 2.0
}
