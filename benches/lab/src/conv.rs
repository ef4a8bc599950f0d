//! Convolution of images with a 3x3 kernel and a border of one.

use crate::{Case, Size, Work, operand};
use corten::core::Result;
use corten::op;

/// Images, channels in and out, and the side of the images.
#[derive(Clone, Copy)]
struct Shape {
    images: usize,
    inputs: usize,
    outputs: usize,
    side: usize,
}

const SMALL: Shape = Shape { images: 2, inputs: 3, outputs: 5, side: 7 };
const LARGE: Shape = Shape { images: 8, inputs: 32, outputs: 64, side: 32 };
const KERNEL: usize = 3;

pub(crate) fn cases(size: Size) -> Result<Vec<Case>> {
    let shape = if size == Size::Small { SMALL } else { LARGE };
    let Shape { images, inputs, outputs, side } = shape;
    let sizes = |sizes: [usize; 4]| sizes.map(|size| size as i64);
    let (x, x0) = operand(&sizes([images, inputs, side, side]))?;
    let (w, w0) = operand(&sizes([outputs, inputs, KERNEL, KERNEL]))?;
    let products = images * outputs * side * side * inputs * KERNEL * KERNEL;
    Ok(vec![Case {
        name: format!("conv2d {images}x{inputs}x{side}x{side} to {outputs}"),
        work: Work::Flops(2 * products),
        scale: ((inputs * KERNEL * KERNEL) as f32).sqrt(),
        v0: Box::new(move || v0(&x0, &w0, shape)),
        library: Box::new(move || op::conv2d(&x, &w, None, &[1, 1], &[1, 1], &[1, 1], 1)),
    }])
}

fn v0(x: &[f32], w: &[f32], shape: Shape) -> Vec<f32> {
    let Shape { inputs, side, .. } = shape;
    let mut out = Vec::new();
    for image in x.chunks(inputs * side * side) {
        for kernel in w.chunks(inputs * KERNEL * KERNEL) {
            for at in 0..side * side {
                out.push(element_v0(image, kernel, shape, at / side, at % side));
            }
        }
    }
    out
}

fn element_v0(image: &[f32], kernel: &[f32], shape: Shape, row: usize, column: usize) -> f32 {
    let mut sum = 0.0;
    for (i, weight) in kernel.iter().enumerate() {
        let (channel, dy, dx) = (i / KERNEL / KERNEL, i / KERNEL % KERNEL, i % KERNEL);
        // The border of one: row 0 of the kernel lies over row -1 of the image.
        let (y, x) = (row + dy, column + dx);
        if (1..=shape.side).contains(&y) && (1..=shape.side).contains(&x) {
            sum += weight * image[(channel * shape.side + y - 1) * shape.side + x - 1];
        }
    }
    sum
}
