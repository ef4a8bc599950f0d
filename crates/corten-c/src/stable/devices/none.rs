//! What a build without a back end of GPUs answers.

use super::no_gpu;
use corten::{Result, Tensor};

/// There is none.
#[derive(Clone, Copy)]
pub(super) enum Stream {}

pub(super) fn current_device() -> Result<i8> {
    Err(no_gpu())
}

pub(super) fn set_device(_device: i8) -> Result<()> {
    Err(no_gpu())
}

pub(super) fn current_stream(_device: i8) -> Result<Stream> {
    Err(no_gpu())
}

pub(super) fn new_stream(_device: i8, _high_priority: bool) -> Result<Stream> {
    Err(no_gpu())
}

/// # Safety
/// None: there is no stream.
pub(super) unsafe fn foreign_stream(_device: i8, _stream: usize) -> Result<Stream> {
    Err(no_gpu())
}

pub(super) fn make_current(stream: &Stream) -> Result<Stream> {
    match *stream {}
}

pub(super) fn synchronize(stream: &Stream) -> Result<()> {
    match *stream {}
}

pub(super) fn stream_id(stream: &Stream) -> i64 {
    match *stream {}
}

pub(super) fn raw_stream(stream: &Stream) -> usize {
    match *stream {}
}

pub(super) fn blas_handle() -> Result<usize> {
    Err(no_gpu())
}

pub(super) fn allocate(_nbytes: u64) -> Result<*mut u8> {
    Err(no_gpu())
}

pub(super) fn free(_memory: *mut u8) -> Result<()> {
    Err(no_gpu())
}

pub(super) fn is_pinned(_tensor: &Tensor) -> bool {
    false
}
