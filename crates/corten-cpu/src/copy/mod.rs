//! Moving elements between layouts: strided rows, transposed tiles, blocks of bytes.

pub(crate) mod blocks;
pub(crate) mod strided;
pub(crate) mod transpose;
