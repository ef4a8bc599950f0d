//! The Bessel functions J and Y of order 0 and 1 on `f64` vectors, for arguments and results of `f32`.
//!
//! Up to 8 they are polynomials of x², Y with a logarithm and a pole beside them (DLMF 10.8); beyond
//! they are waves whose amplitudes P and Q are polynomials of 1 / x² (DLMF 10.17). Absolute errors
//! are about 10⁻¹⁴.

use super::coefficients as c;
use super::math64::log;
use super::real::{MaskBits, Real};
use super::trig;
use std::f64::consts;

/// Where the waves begin.
const FAR: f64 = 8.0;

/// √(2 / πx) P, √(2 / πx) Q, and cosine and sine of x - π/4.
struct Wave<V> {
    p: V,
    q: V,
    cos: V,
    sin: V,
}

#[inline(always)]
fn wave<V: Real<Elem = f64>>(x: V, p: &[f64; 8], q: &[f64; 8]) -> Wave<V> {
    let inverse = V::of(1.0) / x;
    let w = V::of(64.0) * inverse * inverse;
    let amplitude = (V::of(consts::FRAC_2_PI) * inverse).sqrt();
    let (sin, cos) = (trig::sin(x), trig::cos(x));
    Wave {
        p: amplitude * w.poly(p),
        q: amplitude * inverse * w.poly(q),
        cos: V::of(consts::FRAC_1_SQRT_2) * (cos + sin),
        sin: V::of(consts::FRAC_1_SQRT_2) * (sin - cos),
    }
}

/// Where near polynomials take x².
#[inline(always)]
fn centred<V: Real<Elem = f64>>(x: V) -> V {
    x.mul_add(x * V::of(1.0 / 32.0), V::of(-1.0))
}

#[inline(always)]
pub(crate) fn j0<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let near = centred(a).long_poly(&c::J0_NEAR);
    let far = !a.le(V::of(FAR));
    if !far.any() {
        return near;
    }
    let Wave { p, q, cos, sin } = wave(a, &c::P0_FAR, &c::Q0_FAR);
    V::select(far, p * cos - q * sin, near)
}

#[inline(always)]
pub(crate) fn j1<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let near = x * centred(a).long_poly(&c::J1_NEAR);
    let far = !a.le(V::of(FAR));
    if !far.any() {
        return near;
    }
    // The angle is another quarter of a turn less.
    let Wave { p, q, cos, sin } = wave(a, &c::P1_FAR, &c::Q1_FAR);
    V::select(far, (p * sin + q * cos).flip(x), near)
}

#[inline(always)]
pub(crate) fn y0<V: Real<Elem = f64>>(x: V) -> V {
    let t = centred(x);
    let logarithm = V::of(consts::FRAC_2_PI) * log(x);
    let near = logarithm.mul_add(t.long_poly(&c::J0_NEAR), t.long_poly(&c::Y0_NEAR));
    let far = !x.le(V::of(FAR));
    if !far.any() {
        return near;
    }
    let Wave { p, q, cos, sin } = wave(x, &c::P0_FAR, &c::Q0_FAR);
    V::select(far, p * sin + q * cos, near)
}

#[inline(always)]
pub(crate) fn y1<V: Real<Elem = f64>>(x: V) -> V {
    let t = centred(x);
    let two_over_pi = V::of(consts::FRAC_2_PI);
    let regular =
        (two_over_pi * log(x)).mul_add(t.long_poly(&c::J1_NEAR), t.long_poly(&c::Y1_NEAR));
    let near = x * regular - two_over_pi / x;
    // Zero times the logarithm of zero is no number.
    let near = V::select(x.eq(V::of(0.0)), V::of(f64::NEG_INFINITY), near);
    let far = !x.le(V::of(FAR));
    if !far.any() {
        return near;
    }
    let Wave { p, q, cos, sin } = wave(x, &c::P1_FAR, &c::Q1_FAR);
    V::select(far, q * sin - p * cos, near)
}
