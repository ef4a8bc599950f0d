// How samples move with the parameter of their distribution when their quantile stays: -(dF/da) / f for the
// distribution function F and the density f. F is a prefactor times a power series; f over the prefactor is
// elementary, so nothing overflows.

namespace ct {
namespace special {

const int SLOPE_TERMS = 20000;

/// P(a, x) = x^a e^-x / Γ(a+1) · Σ xⁿ / ((a+1)…(a+n)).
CT_FN double gamma_slope_by_series(double a, double x, double least) {
    double term = 1, steps = 0, sum = 1, slope = 0;
    for (int n = 1; n < SLOPE_TERMS; n++) {
        double next = a + n, inverse = 1 / next;
        term *= x * inverse;
        steps -= inverse;
        sum += term;
        slope += term * steps;
        if (next > x && term * (1 - steps) < sum * least) break;
    }
    return -(sum * (::log(x) - digamma(a + 1)) + slope) * x / a;
}

/// Γ(a, x) = x^(a-1) e^-x · (1 + (a-1)/x + (a-1)(a-2)/x² + …), as far as the terms fall.
CT_FN double gamma_slope_in_the_tail(double a, double x, double least) {
    double term = 1, term_slope = 0, sum = 1, slope = 0;
    for (int k = 1; k < SLOPE_TERMS; k++) {
        double factor = (a - k) / x, next = term * factor;
        if (::fabs(factor) > 1 || (next == 0 && term_slope == 0)) break;
        term_slope = term_slope * factor + term / x;
        term = next;
        sum += term;
        slope += term_slope;
        if (::fabs(term_slope) + ::fabs(term) < least * sum) break;
    }
    return (::log(x) - digamma(a)) * sum + slope;
}

/// The cube of x/a is nearly normal for great a (E. Wilson and M. Hilferty, 1931).
CT_FN double gamma_slope_of_many(double a, double x) {
    double root = ::cbrt(x / a), z = (root - 1 + 1 / (9 * a)) * 3 * ::sqrt(a);
    return root * root * root + 3 * a * root * root * (1 / (9 * a * a) - z / (6 * ::pow(a, 1.5)));
}

/// The slope of a gamma sample `x` in its concentration `a`; `least` is what terms may lack.
CT_FN double gamma_slope(double a, double x, double least) {
    if (!(a > 0 && x > 0)) return a != a || x != x ? CT_NAN : 0;
    if (a > 1e6) return gamma_slope_of_many(a, x);
    return x > 15 + 2 * a ? gamma_slope_in_the_tail(a, x, least) : gamma_slope_by_series(a, x, least);
}

/// Σ (s)ₙ / (c+1)ₙ · yⁿ, and its slope when `s` moves by one and `c` by `share`.
CT_FN void beta_series(double s, double c, double y, double share, double* sum, double* slope) {
    double term = 1, steps = 0;
    *sum = 1, *slope = 0;
    for (int n = 0; n < SLOPE_TERMS; n++) {
        double up = s + n, down = c + 1 + n, factor = up / down * y;
        term *= factor;
        steps += 1 / up - share / down;
        *sum += term;
        *slope += term * steps;
        if (factor < 1 && term * (1 + ::fabs(steps)) < 1e-16 * (1 - factor) * *sum) break;
    }
}

/// The slope of a beta sample `x` in `a`, over `1 - x`.
CT_FN double beta_slope(double x, double a, double total) {
    double b = total - a, sum, slope;
    if (!(x > 0 && x < 1 && a > 0 && b > 0)) return x == 0 || x == 1 ? 0 : CT_NAN;
    double drift = ::log(x) + digamma(a + b) - digamma(a);
    if (x <= (a + 1) / (a + b + 2)) {
        beta_series(a + b, a, x, 1, &sum, &slope);
        return -(sum * (drift - 1 / a) + slope) * x / a;
    }
    beta_series(a + b, b, 1 - x, 0, &sum, &slope);
    return (sum * drift + slope) * x / b;
}

}  // namespace special

template <class S> __global__ void gamma_slopes(u64 n, S* out, const S* concentration, const S* sample, double least) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = narrow<S>(special::gamma_slope(widen(concentration[i]), widen(sample[i]), least));
}

template <class S> __global__ void beta_slopes(u64 n, S* out, const S* x, const S* alpha, const S* total) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = narrow<S>(special::beta_slope(widen(x[i]), widen(alpha[i]), widen(total[i])));
}

}  // namespace ct
