//! Eigenvalues of general matrices by `faer`: a reduction to Hessenberg form and multishift QR iterations
//! with aggressive early deflation (Braman, Byers and Mathias; LAPACK's `hseqr` and `trevc`).

use crate::spectral::{Eigen, NoConvergence};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors, EvdError, EvdParams};
use faer::traits::ComplexField;
use faer::{Auto, Mat, MatMut, MatRef, Par, Spec};
use num_complex::Complex;

/// Numbers of a general matrix.
pub(crate) trait GeneralNumber: ComplexField + Copy {
    /// The eigenvalues, and the eigenvectors as `faer` stores them if there is a place for them.
    fn decompose(
        a: MatRef<'_, Self>,
        basis: Option<MatMut<'_, Self>>,
        stack: &mut MemStack,
        parameters: Spec<EvdParams, Self>,
    ) -> Result<Vec<Complex<f64>>, EvdError>;

    /// The eigenvector of an eigenvalue, given the stored columns.
    fn eigenvector(
        basis: MatRef<'_, Self>,
        values: &[Complex<f64>],
        column: usize,
    ) -> Vec<Complex<f64>>;
}

impl GeneralNumber for f64 {
    fn decompose(
        a: MatRef<'_, Self>,
        basis: Option<MatMut<'_, Self>>,
        stack: &mut MemStack,
        parameters: Spec<EvdParams, Self>,
    ) -> Result<Vec<Complex<f64>>, EvdError> {
        let (mut re, mut im) = (vec![0.0; a.nrows()], vec![0.0; a.nrows()]);
        let parts = [&mut re, &mut im].map(|part| DiagMut::from_slice_mut(part));
        let [re_to, im_to] = parts;
        evd::evd_real(a, re_to, im_to, None, basis, Par::Seq, stack, parameters)?;
        Ok(re.into_iter().zip(im).map(|(re, im)| Complex::new(re, im)).collect())
    }

    /// Real and imaginary part of a conjugate pair stand side by side.
    fn eigenvector(
        basis: MatRef<'_, Self>,
        values: &[Complex<f64>],
        column: usize,
    ) -> Vec<Complex<f64>> {
        let part = |column: usize| basis.col(column).iter();
        let pair = |re: usize, sign: f64| {
            part(re).zip(part(re + 1)).map(|(&re, &im)| Complex::new(re, sign * im)).collect()
        };
        match values[column].im {
            0.0 => part(column).map(|&re| Complex::new(re, 0.0)).collect(),
            _ if is_first_of_pair(values, column) => pair(column, 1.0),
            _ => pair(column - 1, -1.0),
        }
    }
}

/// Whether an eigenvalue that is not real comes before its conjugate.
fn is_first_of_pair(values: &[Complex<f64>], column: usize) -> bool {
    let before = values[..column].iter().rev().take_while(|value| value.im != 0.0).count();
    before.is_multiple_of(2)
}

impl GeneralNumber for Complex<f64> {
    fn decompose(
        a: MatRef<'_, Self>,
        basis: Option<MatMut<'_, Self>>,
        stack: &mut MemStack,
        parameters: Spec<EvdParams, Self>,
    ) -> Result<Vec<Complex<f64>>, EvdError> {
        let mut values = vec![Complex::new(0.0, 0.0); a.nrows()];
        let to = DiagMut::from_slice_mut(&mut values);
        evd::evd_cplx(a, to, None, basis, Par::Seq, stack, parameters)?;
        Ok(values)
    }

    fn eigenvector(
        basis: MatRef<'_, Self>,
        _values: &[Complex<f64>],
        column: usize,
    ) -> Vec<Complex<f64>> {
        basis.col(column).iter().copied().collect()
    }
}

/// The eigenvalues of a square matrix, and the eigenvectors as columns if they are wanted.
pub(crate) fn eigen<T: GeneralNumber>(
    n: usize,
    a: &[T],
    vectors: bool,
) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence> {
    if n == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut parameters = <EvdParams as Auto<T>>::auto();
    parameters.schur.recommended_deflation_window = deflation_window;
    let parameters = Spec::new(parameters);
    let (no, wanted) = (
        ComputeEigenvectors::No,
        if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No },
    );
    let stack = evd::evd_scratch::<T>(n, no, wanted, Par::Seq, parameters);
    let mut stack = MemBuffer::new(stack);
    let stack = MemStack::new(&mut stack);
    let mut basis = Mat::<T>::zeros(if vectors { n } else { 0 }, if vectors { n } else { 0 });
    let a = MatRef::from_column_major_slice(a, n, n);
    let to = vectors.then(|| basis.as_mut());
    let values = T::decompose(a, to, stack, parameters).map_err(|_| NoConvergence)?;
    let columns = 0..if vectors { n } else { 0 };
    let basis = columns.flat_map(|column| T::eigenvector(basis.as_ref(), &values, column));
    let basis = basis.collect();
    Ok((values, basis))
}

/// Rows of the window in which deflation is looked for, as LAPACK's `iparmq` recommends.
extern "C" fn deflation_window(n: usize, _active: usize) -> usize {
    match n {
        0..30 => 2,
        30..60 => 4,
        60..150 => 10,
        150..590 => (n as f64 / (n as f64).log2()) as usize,
        590..3000 => 96,
        3000..6000 => 192,
        _ => 384,
    }
}
