//! faer beside which `benches/linalg.py` puts the algorithms of this crate: the same matrices, a line for each
//! algorithm, type and size, with the median time in microseconds and the error in epsilons.
//!
//! ```text
//! cargo run --release --package corten-python --package corten-linalg --example faer > lines
//! ```

use faer::linalg::solvers::{DenseSolveCore, Solve};
use faer::traits::ComplexField;
use faer::traits::math_utils::from_f64;
use faer::{Mat, MatRef, Par, Side, c64};
use std::hint::black_box;
use std::time::Instant;

const SIZES: [usize; 3] = [8, 64, 512];

/// Seconds for each of the rounds, of which the median counts.
const SECONDS: f64 = 0.04;
const ROUNDS: usize = 7;

/// A number made of the generator's.
trait Number: ComplexField + Copy {
    const NAME: &'static str;
    const EPSILON: f64;

    fn next(next: &mut dyn FnMut() -> f64) -> Self;

    fn size(self) -> f64;
}

macro_rules! real {
    ($t:ident, $name:expr) => {
        impl Number for $t {
            const NAME: &'static str = $name;
            const EPSILON: f64 = $t::EPSILON as f64;

            fn next(next: &mut dyn FnMut() -> f64) -> Self {
                next() as $t
            }

            fn size(self) -> f64 {
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

    fn size(self) -> f64 {
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
    let sizes = (0..a.ncols()).flat_map(|j| (0..a.nrows()).map(move |i| a[(i, j)].size()));
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

fn print<T: Number, R>(name: &str, a: &Mat<T>, call: impl Fn() -> R, error: impl Fn(R) -> Mat<T>) {
    let (spent, found) = (time(&call), error(call()));
    let error = largest(found.as_ref()) / largest(a.as_ref()) / T::EPSILON;
    println!("{name} {} {} {spent:.1} {error:.2}", T::NAME, a.nrows());
}

fn report<T: Number>(size: usize) {
    let a = matrix::<T>(size);
    let eye = Mat::<T>::identity(size, size);
    print("geqrf", &a, || a.qr(), |qr| qr.compute_Q() * qr.R() - &a);
    let product =
        |lu: faer::linalg::solvers::PartialPivLu<T>| lu.P().inverse() * (lu.L() * lu.U()) - &a;
    print("getrf", &a, || a.partial_piv_lu(), product);
    print("getri", &a, || a.partial_piv_lu().inverse(), |found| found * &a - &eye);
    let mut definite = &a * a.adjoint();
    for k in 0..size {
        definite[(k, k)] = definite[(k, k)] + from_f64::<T>(size as f64);
    }
    print(
        "potrf",
        &definite,
        || definite.llt(Side::Lower),
        |found| found.map_or_else(|_| eye.clone(), |llt| llt.L() * llt.L().adjoint() - &definite),
    );
    let mut upper = a.clone();
    for k in 0..size {
        upper[(k, k)] = upper[(k, k)] + from_f64::<T>(size as f64);
        (k + 1..size).for_each(|row| upper[(row, k)] = from_f64::<T>(0.0));
    }
    let solve = || {
        let mut x = a.clone();
        upper.as_ref().solve_upper_triangular_in_place(x.as_mut());
        x
    };
    print("trtrs", &upper, solve, |x| &upper * x - &a);
    let hermitian = &a + a.adjoint();
    let right = hermitian.col(0).as_mat().to_owned();
    let residual = |lblt: faer::linalg::solvers::Lblt<T>| {
        let x = lblt.solve(&right);
        &hermitian * x - &right
    };
    print("sytrf", &hermitian, || hermitian.lblt(Side::Lower), residual);
    print(
        "syevd",
        &hermitian,
        || hermitian.self_adjoint_eigen(Side::Lower),
        |found| found.map_or_else(|_| eye.clone(), |f| &hermitian * f.U() - f.U() * f.S()),
    );
    spectral_values(&a, &hermitian);
    print(
        "gesdd",
        &a,
        || a.thin_svd(),
        |found| found.map_or_else(|_| eye.clone(), |f| f.U() * f.S() * f.V().adjoint() - &a),
    );
}

/// Values without vectors, beside those that come with vectors.
fn spectral_values<T: Number>(a: &Mat<T>, hermitian: &Mat<T>) {
    let spent = time(|| hermitian.self_adjoint_eigenvalues(Side::Lower));
    println!("sterf {} {} {spent:.1} nan", T::NAME, a.nrows());
    let spent = time(|| a.singular_values());
    println!("dqds {} {} {spent:.1} nan", T::NAME, a.nrows());
}

fn main() {
    faer::set_global_parallelism(Par::Seq);
    for size in SIZES {
        report::<f32>(size);
        report::<f64>(size);
        report::<c64>(size);
    }
}
