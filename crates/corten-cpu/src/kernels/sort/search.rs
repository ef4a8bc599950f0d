//! StridedLoads in sorted sequences, and membership.

use super::rank::Ranked;
use crate::kernels::support::{contiguous, contiguous_opt, empty_as};
use corten_core::{
    DType, Element, Reader, Result, ResultTypeState, Scalar, Writer, ensure, match_dtype,
    try_collect,
};
use corten_ops::meta::sort as shapes;
use corten_ops::{Tensor, derived, op};
use std::sync::atomic::AtomicBool;

/// `searchsorted.Tensor`.
///
/// # Errors
/// `Runtime` for shapes, sides and sorters that do not fit, `NotImplemented` for bool and complex
/// numbers.
pub fn searchsorted(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let out = shapes::searchsorted(sorted_sequence, self_, out_int32, right, side, sorter)?;
    let sorter = sorter.filter(|sorter| sorter.defined());
    if let Some(sorter) = sorter
        && sorter.numel() > 0
    {
        let last = sorted_sequence.sizes().last().copied().unwrap_or(1);
        let (low, high) = op::aminmax(sorter, None, false)?;
        let inside = low.to_element::<i64>()? >= 0 && high.to_element::<i64>()? < last;
        ensure!(inside, Runtime, "torch.searchsorted(): sorter index out of range");
    }
    if self_.numel() == 0 {
        return Ok(out);
    }
    warn_about_copies(sorted_sequence, self_, sorter);
    let right = right || side == Some("right");
    find_places(sorted_sequence, self_, sorter, right, &out)?;
    Ok(out)
}

/// Says once of each argument that it is copied since it is not contiguous.
fn warn_about_copies(sequence: &Tensor, values: &Tensor, sorter: Option<&Tensor>) {
    static SAID: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
    let copied = |tensor: &Tensor| !tensor.is_contiguous();
    let given = [
        ("input value", copied(values)),
        ("boundary", copied(sequence)),
        ("sorter", sorter.is_some_and(copied)),
    ];
    for (said, (name, _)) in SAID.iter().zip(given).filter(|(_, (_, copied))| *copied) {
        corten_core::warn_once(
            said,
            format!(
                "torch.searchsorted(): {name} tensor is non-contiguous, this will lower the \
                 performance due to extra data copy when converting non-contiguous tensor to \
                 contiguous, please use contiguous {name} tensor if possible. This message will only \
                 appear once per program."
            ),
        );
    }
}

fn find_places(
    sequence: &Tensor,
    values: &Tensor,
    sorter: Option<&Tensor>,
    right: bool,
    out: &Tensor,
) -> Result<()> {
    let dtype = common_dtype(sequence, values)?;
    let cast = |tensor: &Tensor| op::to_dtype(tensor, dtype, false, false, None);
    let (sequence, values) = (contiguous(&cast(sequence)?)?, contiguous(&cast(values)?)?);
    let sorter = contiguous_opt(sorter)?;
    let sorter = sorter.as_ref().map(|sorter| Reader::<i64>::new(sorter)).transpose()?;
    match_dtype!(dtype, "searchsorted_out_cpu", Ordered, T => {
        let lines = SortedRows {
            length: sequence.sizes().last().map_or(1, |&size| size as usize),
            per_line: match sequence.dim() {
                1 => values.numel() as usize,
                _ => values.sizes().last().map_or(1, |&size| size as usize),
            },
            right,
        };
        let (sequence, values) = (Reader::<T>::new(&sequence)?, Reader::<T>::new(&values)?);
        let place = |i: usize| lines.place(&sequence, sorter.as_deref(), &values, i);
        match out.dtype() {
            DType::Int32 => fill(out, |i| place(i) as i32),
            _ => fill(out, |i| place(i) as i64),
        }
    })
}

fn fill<T: Element>(out: &Tensor, value: impl Fn(usize) -> T) -> Result<()> {
    let mut out = Writer::<T>::new(out)?;
    out.iter_mut().enumerate().for_each(|(i, out)| *out = value(i));
    Ok(())
}

/// How sequences and values lie: `per_line` values belong to each sequence.
struct SortedRows {
    length: usize,
    per_line: usize,
    right: bool,
}

impl SortedRows {
    /// The place of value `i` in its sequence.
    fn place<T: PartialOrd + Copy>(
        &self,
        sequence: &[T],
        sorter: Option<&[i64]>,
        values: &[T],
        i: usize,
    ) -> usize {
        let start = i / self.per_line * self.length;
        let line = &sequence[start..start + self.length];
        let order = sorter.map(|sorter| &sorter[start..start + self.length]);
        let at = |k: usize| order.map_or(line[k], |order| line[order[k] as usize]);
        let value = values[i];
        // NaN is never greater: it has its place at the end.
        let beyond = |k: usize| if self.right { at(k) > value } else { at(k) >= value };
        let (mut low, mut high) = (0, self.length);
        while low < high {
            let middle = low + (high - low) / 2;
            if beyond(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// `searchsorted.Scalar`.
///
/// # Errors
/// As for [`searchsorted`].
pub fn searchsorted_scalar(
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    searchsorted(sorted_sequence, &derived::wrapped(self_)?, out_int32, right, side, sorter)
}

/// `bucketize.Tensor`.
///
/// # Errors
/// As for [`searchsorted`]; `Runtime` for boundaries that are no vector.
pub fn bucketize(
    self_: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    shapes::check_boundaries(boundaries)?;
    searchsorted(boundaries, self_, out_int32, right, None, None)
}

/// `bucketize.Scalar`.
///
/// # Errors
/// As for [`bucketize`].
pub fn bucketize_scalar(
    self_: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    bucketize(&derived::wrapped(self_)?, boundaries, out_int32, right)
}

/// `searchsorted.Tensor_out`.
///
/// # Errors
/// As for [`searchsorted`]; `Runtime` for an output of another dtype.
pub fn searchsorted_out(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
    out: &Tensor,
) -> Result<Tensor> {
    shapes::check_places_out(out, out_int32)?;
    let found = searchsorted(sorted_sequence, self_, out_int32, right, side, sorter)?;
    derived::write_out(out, &found)
}

/// `searchsorted.Scalar_out`.
///
/// # Errors
/// As for [`searchsorted_out`].
pub fn searchsorted_scalar_out(
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
    out: &Tensor,
) -> Result<Tensor> {
    let value = derived::wrapped(self_)?;
    searchsorted_out(sorted_sequence, &value, out_int32, right, side, sorter, out)
}

/// `bucketize.Tensor_out`.
///
/// # Errors
/// As for [`bucketize`]; `Runtime` for an output of another dtype.
pub fn bucketize_out(
    self_: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
    out: &Tensor,
) -> Result<Tensor> {
    shapes::check_boundaries(boundaries)?;
    searchsorted_out(boundaries, self_, out_int32, right, None, None, out)
}

fn common_dtype(a: &Tensor, b: &Tensor) -> Result<DType> {
    if a.dtype() == b.dtype() {
        return Ok(a.dtype());
    }
    let mut state = ResultTypeState::new();
    for tensor in [a, b] {
        state.push_tensor(tensor.dtype(), tensor.dim(), tensor.is_wrapped_number())?;
    }
    state.finish()
}

/// `isin.Tensor_Tensor`.
///
/// # Errors
/// `NotImplemented` for bool and complex numbers.
pub fn isin(
    elements: &Tensor,
    test_elements: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    shapes::check_members(&[elements, test_elements])?;
    let out = empty_as(&elements.sizes(), elements, DType::Bool)?;
    if elements.numel() == 0 {
        return Ok(out);
    }
    let dtype = common_dtype(elements, test_elements)?;
    let cast = |tensor: &Tensor| op::to_dtype(tensor, dtype, false, false, None);
    let (elements, tests) = (contiguous(&cast(elements)?)?, contiguous(&cast(test_elements)?)?);
    if tests.numel() == 1 {
        let test = op::reshape(&tests, &[])?;
        return match invert {
            true => op::ne_tensor_out(&elements, &test, &out),
            false => op::eq_tensor_out(&elements, &test, &out),
        };
    }
    match_dtype!(dtype, "isin_default_cpu", Ordered, T => {
        let (elements, tests) = (Reader::<T>::new(&elements)?, Reader::<T>::new(&tests)?);
        // No NaN equals another.
        let mut known: Vec<u64> = try_collect(tests.iter().map(|test| test.rank()))?;
        known.retain(|&rank| Some(rank) != <T as Ranked>::NAN);
        known.sort_unstable();
        fill(&out, |i| known.binary_search(&elements[i].rank()).is_ok() != invert)
    })?;
    Ok(out)
}

/// `isin.Tensor_Scalar`.
///
/// # Errors
/// As for [`isin`].
pub fn isin_test_scalar(
    elements: &Tensor,
    test_element: Scalar,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin(elements, &derived::wrapped(test_element)?, assume_unique, invert)
}

/// `isin.Scalar_Tensor`.
///
/// # Errors
/// As for [`isin`].
pub fn isin_scalar(
    element: Scalar,
    test_elements: &Tensor,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin(&derived::wrapped(element)?, test_elements, assume_unique, invert)
}
