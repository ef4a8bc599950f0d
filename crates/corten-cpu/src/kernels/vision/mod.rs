//! Operators of torchvision: boxes, regions of feature maps, deformable convolutions, image files.

pub mod boxes;
mod channels;
pub mod deform;
pub mod deform_backward;
pub mod image;
pub mod ps_roi_align;
pub mod ps_roi_pool;
mod region;
pub mod roi_align;
pub mod roi_pool;
pub mod rotated;
