//! Special functions of one number at a time, in double precision.
//!
//! Series, continued fractions and quadratures are chosen for relative errors of a few units in the
//! fourteenth digit; results in single precision are these, rounded.

pub(crate) mod airy;
pub(crate) mod bessel;
pub(crate) mod error;
pub(crate) mod gamma;
pub(crate) mod incomplete;
pub(crate) mod polynomials;
pub(crate) mod zeta;

#[cfg(test)]
mod tests;
