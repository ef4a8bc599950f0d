//! Orthogonal polynomials of `f64` vectors: the recurrences of `special::polynomials`, as far as the
//! largest degree of the lanes.

use super::real::{MaskBits, Real};
use crate::special::polynomials as scalar;

/// Above this degree the numbers take the recurrence one by one.
const MOST_STEPS: f64 = 64.0;

/// Defines polynomials by those of degree 1 and of degree k + 1, given those of k (q) and k - 1 (p).
/// Where a degree is above `most`, the scalar functions serve, some of which are no recurrence there.
macro_rules! polynomials {
    ($($name:ident($x:ident), most $most:expr; $first:expr; |$k:ident, $q:ident, $p:ident| $next:expr;)+) => {$(
        #[inline(always)]
        pub(crate) fn $name<V: Real<Elem = f64>>($x: V, n: V) -> V {
            let n = n.trunc();
            if (!n.le(V::of($most))).any() {
                return $x.zip(n, scalar::$name);
            }
            let one = V::of(1.0);
            let (mut $p, mut $q) = (one, $first);
            let mut result = V::select(n.lt(one), one, $q);
            let mut $k = one;
            loop {
                let more = $k.lt(n);
                if !more.any() {
                    break;
                }
                ($p, $q) = ($q, $next);
                result = V::select(more, $q, result);
                $k = $k + one;
            }
            if result.is_nan().any() {
                // A difference of infinities; the scalar functions scale.
                return $x.zip(n, scalar::$name);
            }
            V::select(n.lt(V::of(0.0)), V::of(0.0), result)
        }
    )+};
}

polynomials! {
    chebyshev_t(x), most 6.0; x; |k, q, p| (x + x) * q - p;
    chebyshev_u(x), most 8.0; x + x; |k, q, p| (x + x) * q - p;
    chebyshev_v(x), most 8.0; x + x - V::of(1.0); |k, q, p| (x + x) * q - p;
    chebyshev_w(x), most 8.0; x + x + V::of(1.0); |k, q, p| (x + x) * q - p;
    hermite_h(x), most MOST_STEPS; x + x; |k, q, p| (x + x) * q - (k + k) * p;
    hermite_he(x), most MOST_STEPS; x; |k, q, p| x * q - k * p;
    laguerre_l(x), most MOST_STEPS; V::of(1.0) - x;
        |k, q, p| ((k + k + V::of(1.0) - x) * q - k * p) / (k + V::of(1.0));
    legendre_p(x), most MOST_STEPS; x;
        |k, q, p| ((k + k + V::of(1.0)) * x * q - k * p) / (k + V::of(1.0));
}

/// Polynomials of 2x - 1.
macro_rules! shifted {
    ($($name:ident = $of:ident;)+) => {$(
        #[inline(always)]
        pub(crate) fn $name<V: Real<Elem = f64>>(x: V, n: V) -> V {
            $of(x + x - V::of(1.0), n)
        }
    )+};
}

shifted! {
    shifted_chebyshev_t = chebyshev_t;
    shifted_chebyshev_u = chebyshev_u;
    shifted_chebyshev_v = chebyshev_v;
    shifted_chebyshev_w = chebyshev_w;
}
