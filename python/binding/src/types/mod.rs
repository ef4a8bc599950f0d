//! The small value types of the module: dtype, device, layout, memory format, size, …

pub(crate) mod device;
pub(crate) mod dtype;
pub(crate) mod finfo;
pub(crate) mod generator;
pub(crate) mod layout;
pub(crate) mod size;
pub(crate) mod structseq;
