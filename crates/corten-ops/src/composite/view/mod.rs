//! View operators made of others.

mod complex;
mod movement;
mod pieces;
mod shape;

pub use complex::{
    adjoint, conj, imag, matrix_h, mh, mt, numpy_t, real, resolve_conj, resolve_neg,
};
pub use movement::{
    fliplr, flipud, movedim_int, movedim_intlist, swapaxes, swapaxes_, swapdims, swapdims_, tile,
};
pub use pieces::{
    chunk, dsplit_array, dsplit_int, hsplit_array, hsplit_int, split_sizes, tensor_split_indices,
    tensor_split_sections, tensor_split_tensor, unsafe_chunk, vsplit_array, vsplit_int,
};
pub use shape::{
    broadcast_to, contiguous, expand_as, flatten, narrow, narrow_copy, narrow_tensor, ravel,
    reshape, reshape_as, sum_to_size, unflatten, view_as,
};
