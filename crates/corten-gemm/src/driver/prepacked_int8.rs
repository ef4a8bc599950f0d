//! Products of unsigned bytes with prepacked signed bytes, as quantised layers have them: activations with
//! weights.

#[cfg(target_arch = "x86_64")]
use crate::driver::{epilogue::Epilogue, macro_kernel::gemm_blocked};
#[cfg(target_arch = "x86_64")]
use crate::kernel::select::unsigned_vnni4_kernels;
#[cfg(target_arch = "x86_64")]
use crate::pack::{
    operand::{ImplicitOperand, Operand},
    prepacked::PrepackedB,
};
use crate::types::isa::Isa;
use crate::types::view::View;
#[cfg(target_arch = "x86_64")]
use crate::types::{
    accumulate::Accumulate, element::Scalar, view::MatrixRef, vnni::Vnni4, workspace::Workspace,
};
use std::ops::Range;

/// Bytes that one instruction multiplies and adds up.
#[cfg(target_arch = "x86_64")]
const GROUP: usize = 4;

/// Signed bytes that are multiplied again and again: a matrix of (outputs, depth), whose depth is a
/// multiple of four.
///
/// ```
/// use corten_gemm::{Isa, PrepackedInt8};
///
/// let packed = PrepackedInt8::of(&[1, -2, 3, 0, 4, 5, -6, 0], [2, 4], Isa::Portable);
/// assert_eq!(packed.shape(), [2, 4]);
/// ```
pub struct PrepackedInt8 {
    shape: [usize; 2],
    form: Form,
}

enum Form {
    #[cfg(target_arch = "x86_64")]
    Vnni4(PrepackedB<Vnni4>),
    Rows(Vec<i8>),
}

/// Rows of unsigned bytes that are copied while they are packed, as patches of an image are.
pub trait ByteRows: Sync {
    /// Writes some bytes of a row.
    fn copy(&self, row: usize, bytes: Range<usize>, to: &mut [u8]);

    /// The bytes from the first row on and the distance of two rows, where the rows lie in memory.
    fn in_place(&self) -> Option<(&[u8], usize)> {
        None
    }
}

impl PrepackedInt8 {
    /// Packs a row-major matrix for an instruction set.
    ///
    /// # Panics
    /// When the depth is no multiple of four or the slice is too short.
    #[must_use]
    pub fn of(rows: &[i8], shape: [usize; 2], isa: Isa) -> Self {
        let [outputs, depth] = shape;
        assert!(depth.is_multiple_of(4) && rows.len() >= outputs * depth);
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = unsigned_vnni4_kernels(isa) {
            let groups = [depth / 4, outputs];
            let pack = |[groups, cols]: [Range<usize>; 2], to: &mut [Vnni4], width: usize| {
                for (j, col) in cols.enumerate() {
                    let row = rows[col * depth..][4 * groups.start..4 * groups.end].chunks(4);
                    for (i, group) in row.enumerate() {
                        to[i * width + j] =
                            Vnni4([group[0], group[1], group[2], group[3]].map(|x| x as u8));
                    }
                }
            };
            let isa = kernels.packing.isa;
            let packed = PrepackedB::pack_with(groups, isa, &kernels.packing, pack);
            return Self { shape, form: Form::Vnni4(packed) };
        }
        let _ = isa;
        Self { shape, form: Form::Rows(rows[..outputs * depth].to_vec()) }
    }

    /// The numbers of outputs and of steps.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Products begin at an output that is a multiple of these.
    #[must_use]
    pub fn panel_outputs(&self) -> usize {
        match &self.form {
            #[cfg(target_arch = "x86_64")]
            Form::Vnni4(packed) => packed.panel_cols(),
            Form::Rows(_) => 1,
        }
    }
}

/// `sums = a @ b.T` on this thread, of some rows of bytes and some outputs of `b`. Rows of sums are `width`
/// apart.
///
/// # Panics
/// When the shapes do not match, the depth is zero, there is no room for the sums, or the outputs do not
/// begin with a micro-panel.
pub fn gemm_prepacked_int8(
    (sums, width): (&mut [i32], usize),
    a: (&dyn ByteRows, Range<usize>),
    b: (&PrepackedInt8, Range<usize>),
) {
    let (shape, depth) = ([a.1.len(), b.1.len()], b.0.shape[1]);
    assert!(b.1.end <= b.0.shape[0] && depth > 0, "the shapes do not match");
    if shape.contains(&0) {
        return;
    }
    assert!(shape[1] <= width && (shape[0] - 1) * width + shape[1] <= sums.len(), "no room");
    match &b.0.form {
        #[cfg(target_arch = "x86_64")]
        Form::Vnni4(packed) => {
            let c = View { data: sums.as_mut_ptr(), shape, strides: [width as isize, 1] };
            // SAFETY: there is room for all rows of sums.
            unsafe { multiply(c, a, (packed, b.1), depth) };
        }
        Form::Rows(rows) => multiply_rows((sums, width), a, (rows, b.1), depth),
    }
}

/// # Safety
/// The result must be writable and not overlap the rows.
#[cfg(target_arch = "x86_64")]
unsafe fn multiply(
    c: View<*mut i32>,
    (a, rows): (&dyn ByteRows, Range<usize>),
    (b, cols): (&PrepackedB<Vnni4>, Range<usize>),
    depth: usize,
) {
    let Some(kernels) = unsigned_vnni4_kernels(b.isa()) else { return };
    let epilogue =
        Epilogue::of(c.cast(), Vnni4::ONE, Accumulate::Overwrite, &kernels.packing.pack_b);
    let groups = depth / GROUP;
    let copied = Copied { source: a, first: rows.start };
    let operand = match a.in_place() {
        Some((bytes, stride)) if stride.is_multiple_of(GROUP) || rows.len() == 1 => {
            let bytes = &bytes[rows.start * stride..];
            assert!((rows.len() - 1) * stride + depth <= bytes.len(), "the rows lie in memory");
            let strides = [(stride / GROUP) as isize, 1];
            let view = View { data: bytes.as_ptr().cast(), shape: [rows.len(), groups], strides };
            // SAFETY: the rows lie in the slice; groups of bytes need no alignment.
            Operand::Matrix(unsafe { MatrixRef::new(view) })
        }
        _ => Operand::Implicit(&copied),
    };
    let mut workspace = Workspace::acquire();
    let b = Operand::Prepacked(b, cols.start);
    gemm_blocked(kernels, epilogue, groups, operand, b, &mut workspace);
    workspace.release();
}

/// Rows as groups of four bytes.
#[cfg(target_arch = "x86_64")]
struct Copied<'a> {
    source: &'a dyn ByteRows,
    first: usize,
}

#[cfg(target_arch = "x86_64")]
impl ImplicitOperand<Vnni4> for Copied<'_> {
    fn pack(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [Vnni4], width: usize) {
        for (row, to) in rows.zip(to.chunks_mut(width)) {
            let to = &mut to[..cols.len()];
            // SAFETY: a group is four bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), 4 * to.len()) };
            self.source.copy(self.first + row, 4 * cols.start..4 * cols.end, bytes);
        }
    }
}

/// Dot products of rows, which the compiler turns into vectors.
fn multiply_rows(
    (sums, width): (&mut [i32], usize),
    (a, rows): (&dyn ByteRows, Range<usize>),
    (b, cols): (&[i8], Range<usize>),
    depth: usize,
) {
    let mut row = vec![0u8; depth];
    for (index, sums) in rows.zip(sums.chunks_mut(width)) {
        a.copy(index, 0..depth, &mut row);
        for (sum, col) in sums.iter_mut().zip(cols.clone()) {
            let weights = &b[col * depth..][..depth];
            let products = row.iter().zip(weights).map(|(&x, &w)| i32::from(x) * i32::from(w));
            *sum = products.fold(0i32, i32::wrapping_add);
        }
    }
}
