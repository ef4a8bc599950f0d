//! Operators of torchvision.

pub mod boxes;
pub mod deform;
pub mod deform_backward;
mod deformable;
pub mod ps_roi_align;
pub mod ps_roi_pool;
mod regions;
pub mod roi_align;
pub mod roi_pool;
pub mod rotated;
