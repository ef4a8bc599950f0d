//! The algorithms of this crate beside faer's on one thread, both with the products of faer: a line for each
//! algorithm, type and size with both median times in microseconds and both errors in epsilons. `benches/linalg.py`
//! puts the package and PyTorch beside them, over the same matrices.
//!
//! ```text
//! cargo run --release --package corten-linalg --example solvers
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use corten_linalg::{
    Blas, Lapack, MatMut, Operand, Product, RightHandSides, Run, Spectral, Triangular, Vectors,
};

use faer::linalg::matmul::matmul_with_conj;
use faer::linalg::solvers::{DenseSolveCore, Solve};
use faer::traits::ComplexField;
use faer::traits::math_utils::from_f64;
use faer::{Accum, Conj, Mat, MatRef, Par, Side, c64};
use std::hint::black_box;
use std::time::Instant;

const SIZES: [usize; 3] = [8, 64, 512];

/// Seconds for each of the rounds, of which the median counts.
const SECONDS: f64 = 0.04;
const ROUNDS: usize = 7;

/// A number made of the generator's.
trait Number: ComplexField + Copy + Lapack {
    const NAME: &'static str;
    const EPSILON: f64;

    fn next(next: &mut dyn FnMut() -> f64) -> Self;

    fn magnitude(self) -> f64;
}

macro_rules! real {
    ($t:ident, $name:expr) => {
        impl Number for $t {
            const NAME: &'static str = $name;
            const EPSILON: f64 = $t::EPSILON as f64;

            fn next(next: &mut dyn FnMut() -> f64) -> Self {
                next() as $t
            }

            fn magnitude(self) -> f64 {
                f64::from(self.abs())
            }
        }
    };
}

real!(f32, "float32");
real!(f64, "float64");

impl Number for c64 {
    const NAME: &'static str = "complex128";
    const EPSILON: f64 = f64::EPSILON;

    fn next(next: &mut dyn FnMut() -> f64) -> Self {
        let re = next();
        c64::new(re, next())
    }

    fn magnitude(self) -> f64 {
        self.norm()
    }
}

/// The matrix that `benches/linalg.py` makes.
fn matrix<T: Number>(size: usize) -> Mat<T> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    let mut a = Mat::zeros(size, size);
    for row in 0..size {
        for col in 0..size {
            a[(row, col)] = T::next(&mut next);
        }
    }
    a
}

fn largest<T: Number>(a: MatRef<'_, T>) -> f64 {
    let sizes = (0..a.ncols()).flat_map(|j| (0..a.nrows()).map(move |i| a[(i, j)].magnitude()));
    sizes.fold(0.0, f64::max)
}

/// The median of what a call takes, in microseconds.
fn time<R>(call: impl Fn() -> R) -> f64 {
    black_box(call());
    let start = Instant::now();
    black_box(call());
    let count = (SECONDS / start.elapsed().as_secs_f64().max(1e-7)).max(1.0) as u32;
    let mut times = [0.0; ROUNDS];
    for time in &mut times {
        let start = Instant::now();
        for _ in 0..count {
            black_box(call());
        }
        *time = start.elapsed().as_secs_f64() / f64::from(count) * 1e6;
    }
    times.sort_unstable_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// The products of faer on this thread.
struct Products;

impl<T: ComplexField + Copy> Blas<T> for Products {
    fn gemm(&self, c: MatMut<'_, T>, a: Operand<'_, T>, b: Operand<'_, T>, product: Product) {
        let (accumulate, factor) = match product {
            Product::Overwrite => (Accum::Replace, T::one_impl()),
            Product::Subtract | Product::SubtractPart => (Accum::Add, -T::one_impl()),
        };
        let conj = |conjugated| if conjugated { Conj::Yes } else { Conj::No };
        let (of_a, of_b) = (conj(a.conjugated), conj(b.conjugated));
        matmul_with_conj(c, accumulate, a.matrix, of_a, b.matrix, of_b, factor, Par::Seq);
    }

    fn copy(&self, mut to: MatMut<'_, T>, from: MatRef<'_, T>) {
        to.copy_from(from);
    }

    fn zeros(&self, count: usize) -> Vec<T> {
        vec![T::zero_impl(); count]
    }

    fn with_buffer(&self, count: usize, body: &mut dyn FnMut(&mut [T])) {
        body(&mut vec![T::zero_impl(); count]);
    }

    fn alone(&self, body: &mut dyn FnMut()) {
        body();
    }

    fn part_width(&self, columns: usize, _: usize) -> usize {
        columns.max(1)
    }

    fn parts(&self, _: usize, _: usize) -> usize {
        1
    }

    fn runner(&self) -> Run {
        |count, part| (0..count).for_each(part)
    }
}

/// The columns of a matrix one behind the other.
fn columns<T: Number>(a: &Mat<T>) -> Vec<T> {
    (0..a.ncols()).flat_map(|j| (0..a.nrows()).map(move |i| a[(i, j)])).collect()
}

fn matrix_of<T: Number>(columns: &[T], rows: usize) -> Mat<T> {
    Mat::from_fn(rows, columns.len() / rows, |i, j| columns[j * rows + i])
}

/// Prints what both take for a problem, and the residuals of what they find.
fn print<T: Number, A, B>(
    name: &str,
    a: &Mat<T>,
    (own, own_residual): (impl Fn() -> A, impl Fn(A) -> Mat<T>),
    (peer, residual): (impl Fn() -> B, impl Fn(B) -> Mat<T>),
) {
    let error = |residual: Mat<T>| largest(residual.as_ref()) / largest(a.as_ref()) / T::EPSILON;
    let times = [time(&own), time(&peer)];
    let errors = [error(own_residual(own())), error(residual(peer()))];
    println!(
        "{name} {} {} {:.1} {:.1} {:.2} {:.2}",
        T::NAME,
        a.nrows(),
        times[0],
        times[1],
        errors[0],
        errors[1]
    );
}

fn orthogonal_factors<T: Number>(a: &Mat<T>) {
    let n = a.nrows();
    let data = columns(a);
    let own = || {
        let (mut factors, mut tau) = (data.clone(), vec![T::zero_impl(); n]);
        T::geqrf(&Products, &mut factors, n, &mut tau);
        (factors, tau)
    };
    let residual = |(factors, tau): (Vec<T>, Vec<T>)| {
        let upper = |at: usize| if at % n <= at / n { factors[at] } else { T::zero_impl() };
        let mut product: Vec<T> = (0..n * n).map(upper).collect();
        T::ormqr(&Products, &factors, n, &tau, &mut product, false);
        matrix_of(&product, n) - a
    };
    print("geqrf", a, (own, residual), (|| a.qr(), |qr| qr.compute_Q() * qr.R() - a));
}

fn triangular_factors<T: Number>(a: &Mat<T>) {
    let n = a.nrows();
    let (rows, eye) = (columns(&a.transpose().to_owned()), Mat::<T>::identity(n, n));
    let own = || {
        let (mut factors, mut pivots) = (vec![T::zero_impl(); n * n], vec![0; n]);
        T::getrf(&Products, &rows, [n, n], &mut factors, &mut pivots);
        (factors, pivots)
    };
    let residual = |(factors, pivots): (Vec<T>, Vec<i32>)| {
        let factors = matrix_of(&factors, n);
        let lower = Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => T::zero_impl(),
            std::cmp::Ordering::Equal => T::one_impl(),
            std::cmp::Ordering::Greater => factors[(i, j)],
        });
        let upper =
            Mat::from_fn(n, n, |i, j| if i <= j { factors[(i, j)] } else { T::zero_impl() });
        let mut exchanged = a.clone();
        for (row, &pivot) in pivots.iter().enumerate() {
            for col in 0..n {
                let other = pivot as usize - 1;
                let pair = (exchanged[(row, col)], exchanged[(other, col)]);
                (exchanged[(other, col)], exchanged[(row, col)]) = pair;
            }
        }
        lower * upper - exchanged
    };
    let product =
        |lu: faer::linalg::solvers::PartialPivLu<T>| lu.P().inverse() * (lu.L() * lu.U()) - a;
    print("getrf", a, (own, residual), (|| a.partial_piv_lu(), product));
    let own = || {
        let (mut inverse, mut pivots) = (vec![T::zero_impl(); n * n], vec![0; n]);
        T::getri(&Products, n, &rows, &mut inverse, &mut pivots);
        inverse
    };
    let residual = |inverse: Vec<T>| matrix_of(&inverse, n) * a - &eye;
    let peer = (|| a.partial_piv_lu().inverse(), |found: Mat<T>| found * a - &eye);
    print("getri", a, (own, residual), peer);
}

fn definite_and_triangular<T: Number>(a: &Mat<T>) {
    let n = a.nrows();
    let (mut definite, mut upper) = (a * a.adjoint(), a.clone());
    for k in 0..n {
        definite[(k, k)] += from_f64::<T>(n as f64);
        upper[(k, k)] += from_f64::<T>(n as f64);
        (k + 1..n).for_each(|row| upper[(row, k)] = T::zero_impl());
    }
    let data = columns(&definite);
    let own = || {
        let mut factor = data.clone();
        T::potrf(&Products, n, &mut factor);
        factor
    };
    let residual = |factor: Vec<T>| {
        let lower = matrix_of(&factor, n);
        &lower * lower.adjoint() - &definite
    };
    let found = |llt: Result<faer::linalg::solvers::Llt<T>, _>| match llt {
        Ok(llt) => llt.L() * llt.L().adjoint() - &definite,
        Err(_) => definite.clone(),
    };
    print("potrf", &definite, (own, residual), (|| definite.llt(Side::Lower), found));
    let (data, right) = (columns(&upper), columns(a));
    let triangle = Triangular { upper: true, unit: false, transposed: false };
    let own = || {
        let mut x = right.clone();
        T::trtrs(&Products, n, &data, triangle, RightHandSides::Columns(&mut x));
        x
    };
    let peer = || {
        let mut x = a.clone();
        upper.as_ref().solve_upper_triangular_in_place(x.as_mut());
        x
    };
    let residual = |x: Vec<T>| &upper * matrix_of(&x, n) - a;
    print("trtrs", &upper, (own, residual), (peer, |x: Mat<T>| &upper * x - a));
}

fn indefinite<T: Number>(hermitian: &Mat<T>) {
    let (n, data) = (hermitian.nrows(), columns(hermitian));
    let own = || {
        let (mut factors, mut pivots) = (data.clone(), vec![0; n]);
        T::sytrf(n, &mut factors, &mut pivots, true);
        (factors, pivots)
    };
    let right = hermitian.col(0).as_mat().to_owned();
    let own_residual = |(factors, pivots): (Vec<T>, Vec<i32>)| {
        let (mut blocks, mut k) = (Vec::new(), 0);
        while k < n {
            let (width, row) =
                (if pivots[k] > 0 { 1 } else { 2 }, pivots[k].unsigned_abs() as usize - 1);
            blocks.push(corten_linalg::PivotRows { k, width, row });
            k += width;
        }
        let mut x = columns(&right);
        T::sytrs(&Products, n, &factors, &blocks, &mut x, true);
        hermitian * matrix_of(&x, n) - &right
    };
    let residual = |lblt: faer::linalg::solvers::Lblt<T>| {
        let x = lblt.solve(&right);
        hermitian * x - &right
    };
    let peer = || hermitian.lblt(Side::Lower);
    print("sytrf", hermitian, (own, own_residual), (peer, residual));
}

fn spectral<T>(a: &Mat<T>, hermitian: &Mat<T>, real: impl Fn(<T as Spectral>::Real) -> T)
where
    T: Number + Spectral<Real: Copy>,
{
    let (n, data, of_a) = (a.nrows(), columns(hermitian), columns(a));
    let nothing = || Mat::<T>::zeros(1, 1);
    let scaled = |basis: &[T], values: &[<T as Spectral>::Real]| {
        Mat::from_fn(n, n, |i, j| basis[j * n + i] * real(values[j]))
    };
    let own_residual = |found: Option<(Vec<<T as Spectral>::Real>, Vec<T>)>| {
        let Some((values, basis)) = found else { return nothing() };
        hermitian * matrix_of(&basis, n) - scaled(&basis, &values)
    };
    let own = || T::heevd(n, data.clone(), true, &Products).ok();
    let peer = || hermitian.self_adjoint_eigen(Side::Lower);
    let residual = |found: Result<faer::linalg::solvers::SelfAdjointEigen<T>, _>| match found {
        Ok(found) => hermitian * found.U() - found.U() * found.S(),
        Err(_) => nothing(),
    };
    print("syevd", hermitian, (own, own_residual), (peer, residual));
    let own = || T::heevd(n, data.clone(), false, &Products).is_ok();
    let peer = || hermitian.self_adjoint_eigenvalues(Side::Lower).is_ok();
    print("sterf", hermitian, (own, |_| nothing()), (peer, |_| nothing()));
    let own = || T::gesdd(n, n, of_a.clone(), Vectors::Thin, &Products).ok();
    let own_residual = |found: Option<corten_linalg::Svd<T>>| {
        let Some(found) = found else { return nothing() };
        scaled(&found.u, &found.s) * matrix_of(&found.v, n).adjoint() - a
    };
    let residual = |found: Result<faer::linalg::solvers::Svd<T>, _>| match found {
        Ok(found) => found.U() * found.S() * found.V().adjoint() - a,
        Err(_) => nothing(),
    };
    print("gesdd", a, (own, own_residual), (|| a.thin_svd(), residual));
    let own = || T::gesdd(n, n, of_a.clone(), Vectors::No, &Products).is_ok();
    print("dqds", a, (own, |_| nothing()), (|| a.singular_values().is_ok(), |_| nothing()));
}

fn report<T: Number>(size: usize) -> [Mat<T>; 2] {
    let a = matrix::<T>(size);
    let hermitian = &a + a.adjoint();
    orthogonal_factors(&a);
    triangular_factors(&a);
    definite_and_triangular(&a);
    indefinite(&hermitian);
    [a, hermitian]
}

fn main() {
    faer::set_global_parallelism(Par::Seq);
    for size in SIZES {
        let [a, hermitian] = report::<f32>(size);
        spectral(&a, &hermitian, |x| x);
        let [a, hermitian] = report::<f64>(size);
        spectral(&a, &hermitian, |x| x);
        report::<c64>(size);
    }
}
