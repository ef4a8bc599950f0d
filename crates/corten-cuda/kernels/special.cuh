// Special functions: the methods of the CPU's (corten_cpu::special), in double precision. Tables of
// coefficients (BERNOULLI, TEMME, …) are generated from the CPU's source and stand before this text.

namespace ct {
namespace special {

const double PI = 3.14159265358979323846, EPSILON = 2.220446049250313e-16, EULER = 0.57721566490153286;

// The gamma function and its kin.

/// By reflection, recurrence and the asymptotic series.
CT_FN double digamma(double x) {
    if (x == 0) return ::copysign(CT_INFINITY, -x);
    double reflected = 0;
    if (x < 0) {
        // Exact, so that the results next to a pole have all digits.
        double distance = x - ::rint(x);
        if (distance == 0) return CT_NAN;
        reflected = PI / ::tan(PI * distance);
        x = 1 - x;
    }
    // The sum of the inverses, as one fraction.
    double above = 0, below = 1;
    while (x < 12) {
        above = above * x + below, below *= x;
        x += 1;
    }
    double inverse = 1 / x, square = inverse * inverse, power = 1;
    double sum = ::log(x) - 0.5 * inverse - above / below;
    for (int k = 0; k < 8; k++) {
        power *= square;
        sum -= BERNOULLI[k] / (2.0 * (k + 1)) * power;
    }
    return sum - reflected;
}

CT_FN double trigamma_right(double x) {
    double sum = 0;
    while (x < 12) {
        sum += 1 / (x * x);
        x += 1;
    }
    double square = x * x, power = 1 / x;
    sum += power + 0.5 / square;
    for (int k = 0; k < 8; k++) {
        power /= square;
        sum += BERNOULLI[k] * power;
    }
    return sum;
}

CT_FN double trigamma(double x) {
    if (x > 0 || x != x) return trigamma_right(x);
    double sine = ::sin(PI * (x - ::rint(x)));
    return PI * PI / (sine * sine) - trigamma_right(1 - x);
}

/// q^s ζ(s, q) of q > 0, by the Euler-Maclaurin formula.
CT_FN double relative_zeta(double s, double q) {
    const double least = EPSILON / 4;
    // The asymptotic series takes a number that is not small beside s.
    double start = 0.5 * s + 10, sum = 1, term = 1, a = q, count = 0;
    while (a < start) {
        count += 1;
        a = q + count;
        term = s < 40 ? ::pow(q / a, s) : ::exp(-s * ::log1p(count / q));
        sum += term;
        if (term < sum * least) return sum;
    }
    sum += term * (a / (s - 1) - 0.5);
    // The terms B₂ₖ/(2k)! s(s+1)…(s+2k-2) a^(1-s-2k).
    double factor = 0.5 * term * (s / a);
    for (int k = 0; k < 12; k++) {
        double correction = BERNOULLI[k] * factor;
        sum += correction;
        if (::fabs(correction) < sum * least) break;
        double j = 2.0 * k + 1;
        factor *= (s + j) / a * ((s + j + 1) / a) / ((j + 2) * (j + 3));
    }
    return sum;
}

/// `factor` ζ(s, q) of q > 0.
CT_FN double zeta_sum(double factor, double s, double q) {
    if (q == CT_INFINITY) return s == CT_INFINITY ? CT_NAN : 0;
    double sum = relative_zeta(s, q), power = ::pow(q, -s);
    if (power >= 2.2250738585072014e-308 && power < CT_INFINITY) return factor * power * sum;
    // The product may lie in the range of numbers although the power does not.
    double half = ::pow(q, -0.5 * s);
    return factor * half * sum * half;
}

/// `factor` ζ(s, q) of q < 0 that is no integer, for integral s: the terms of negative numbers are those of
/// positive ones but for the sign, and a difference of two sums.
CT_FN double zeta_left(double factor, double s, double q) {
    double distance = q - ::rint(q);
    double above = distance > 0 ? distance : 1 + distance, below = distance > 0 ? 1 - distance : -distance;
    double sign = ::fmod(s, 2) == 0 ? 1 : -1;
    double near = zeta_sum(factor, s, above) + sign * zeta_sum(factor, s, below);
    // Where the sum overflows the rest is nothing to it.
    if (::fabs(near) == CT_INFINITY) return near;
    return near - sign * zeta_sum(factor, s, 1 - q);
}

/// Hurwitz' ζ(s, q) for s > 1; below zero for integral s only.
CT_FN double zeta(double s, double q) {
    if (s == 1) return CT_INFINITY;
    if (s != s || q != q || s < 1) return CT_NAN;
    if (q > 0) return zeta_sum(1, s, q);
    if (q == ::floor(q)) return CT_INFINITY;
    return s == ::floor(s) ? zeta_left(1, s, q) : CT_NAN;
}

/// n! ζ(n + 1, x).
CT_FN double polygamma_magnitude(double n, double x) {
    if (x != x) return CT_NAN;
    if (x == CT_INFINITY) return 0;
    if (x <= 0 && x == ::floor(x)) return CT_INFINITY;
    if (n <= 170) {
        double factorial = 1;
        for (int k = 2; k <= (int)n; k++) factorial *= k;
        return x > 0 ? zeta_sum(factorial, n + 1, x) : zeta_left(factorial, n + 1, x);
    }
    if (x > 0) return ::exp(::lgamma(n + 1) - (n + 1) * ::log(x)) * relative_zeta(n + 1, x);
    double root = ::exp(0.5 * ::lgamma(n + 1));
    return root * zeta_left(root, n + 1, x);
}

CT_FN double polygamma(double n, double x) {
    if (n == 0) return digamma(x);
    if (n == 1) return trigamma(x);
    return (::fmod(n, 2) == 0 ? -1 : 1) * polygamma_magnitude(n, x);
}

// Bessel functions.

/// A Chebyshev series at `t` in [-1, 1], by Clenshaw's recurrence.
template <int N> CT_FN double series(double t, const double (&terms)[N]) {
    double twice = t + t, next = 0, after = 0;
    for (int k = N - 1; k > 0; k--) {
        double own = fma(twice, next, terms[k] - after);
        after = next, next = own;
    }
    return fma(t, next, terms[0] - after);
}

/// e^-a Iν(a) of a >= 0, divided by a below 8 where DIVIDED; with GROWN without the factor e^-a.
template <bool DIVIDED, bool GROWN, int N, int M>
CT_FN double first_kind(double a, const double (&near)[N], const double (&far)[M]) {
    // Half of the power, twice: the product may be a number where the power is none.
    double factor = GROWN ? ::exp(a * 0.5) : 1;
    if (a <= 8) {
        double close = factor * series(fma(a, 0.25, -1.0), near) * factor;
        return DIVIDED ? close * a : close;
    }
    if (a == CT_INFINITY) return GROWN ? a : 0;
    return factor / ::sqrt(a) * series(16 / a - 1, far) * factor;
}
CT_FN double i0(double x) { return first_kind<false, true>(::fabs(x), NEAR_0, FAR_0); }
CT_FN double i0e(double x) { return first_kind<false, false>(::fabs(x), NEAR_0, FAR_0); }
CT_FN double i1(double x) { return ::copysign(first_kind<true, true>(::fabs(x), NEAR_1, FAR_1), x); }
CT_FN double i1e(double x) { return ::copysign(first_kind<true, false>(::fabs(x), NEAR_1, FAR_1), x); }

CT_FN double k0_near(double x) {
    double quarter = x * x / 4, term = 1, harmonic = 0, sum = 0;
    for (int k = 1; k < 20; k++) {
        term *= quarter / ((double)k * k);
        harmonic += 1.0 / k;
        sum += term * harmonic;
    }
    return sum - (::log(x / 2) + EULER) * i0(x);
}

CT_FN double k1_near(double x) {
    // ψ(k + 1) + ψ(k + 2), from k = 0.
    double quarter = x * x / 4, term = 1, digammas = 1 - 2 * EULER, sum = 0;
    for (int k = 0; k < 20; k++) {
        sum += term * digammas;
        term *= quarter / ((k + 1.0) * (k + 2.0));
        digammas += 1 / (k + 1.0) + 1 / (k + 2.0);
    }
    return 1 / x + ::log(x / 2) * i1(x) - x / 4 * sum;
}

/// e^x K_ν(x) as ∫ exp(-x (cosh t - 1)) cosh(νt) dt: the trapezoidal rule converges exponentially.
CT_FN double scaled_second(double x, double order) {
    const int points = 48;
    // Beyond the end, where cosh t - 1 = 2 sinh²(t/2) is 40 / x, the integrand is below e^-40 of its start.
    double step = 2 * ::asinh(::sqrt(20 / x)) / points, sum = 0.5;
    for (int k = 1; k <= points; k++) {
        double t = step * k, half = ::sinh(t / 2);
        sum += ::exp(-2 * (x * half) * half) * ::cosh(order * t);
    }
    return step * sum;
}

/// K of order 0 or 1, with SCALED times e^x.
template <int ORDER, bool SCALED> CT_FN double second_kind(double x) {
    if (x == 0) return CT_INFINITY;
    if (x != x || x < 0) return CT_NAN;
    if (x == CT_INFINITY) return 0;
    if (x <= 2) return (SCALED ? ::exp(x) : 1) * (ORDER ? k1_near(x) : k0_near(x));
    return (SCALED ? 1 : ::exp(-x)) * scaled_second(x, ORDER);
}
CT_FN double k0(double x) { return second_kind<0, false>(x); }
CT_FN double k1(double x) { return second_kind<1, false>(x); }
CT_FN double k0e(double x) { return second_kind<0, true>(x); }
CT_FN double k1e(double x) { return second_kind<1, true>(x); }

/// sin x / x.
CT_FN double spherical_j0(double x) {
    if (::fabs(x) == CT_INFINITY) return 0;
    return ::fabs(x) < 1e-4 ? 1 - x * x / 6 : ::sin(x) / x;
}

// Airy's function.

/// The sum of two numbers, the second too small to change the first: some 106 bits.
struct Twofold {
    double high, low;
};
/// a + b (Knuth).
CT_FN Twofold two_sum(double a, double b) {
    double high = a + b, from_b = high - a;
    return {high, (a - (high - from_b)) + (b - from_b)};
}
CT_FN Twofold two_product(double a, double b) {
    double high = a * b;
    return {high, fma(a, b, -high)};
}
CT_FN Twofold operator+(Twofold a, Twofold b) {
    Twofold sum = two_sum(a.high, b.high);
    return two_sum(sum.high, sum.low + a.low + b.low);
}
CT_FN Twofold operator*(Twofold a, Twofold b) {
    Twofold product = two_product(a.high, b.high);
    return two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}
CT_FN Twofold operator/(Twofold a, double number) {
    double quotient = a.high / number, rest = fma(-quotient, number, a.high) + a.low;
    return two_sum(quotient, rest / number);
}

/// Ai(0) and -Ai'(0).
CT_FN Twofold airy_value() { return {0.3550280538878172, 2.05233632436212e-17}; }
CT_FN Twofold airy_slope() { return {0.2588194037928068, -2.522243111610832e-17}; }

/// 2/3 x^(3/2).
CT_FN Twofold two_thirds_power(double x) {
    double root = ::sqrt(x), lost = fma(-root, root, x) / (2 * root);
    return Twofold{root, lost} * Twofold{x, 0} * Twofold{0.6666666666666666, 3.700743415417188e-17};
}

/// √(x/3) / π K of order 1/3.
CT_FN double airy_decaying(double x) {
    Twofold power = two_thirds_power(x);
    // Half of the exponent twice, as the product may be a number where the power is none.
    double half = ::exp(-0.5 * power.high);
    return ::sqrt(x / 3) / PI * half * scaled_second(power.high, 1.0 / 3) * (1 - power.low) * half;
}

/// The power series Ai(0) f(x) + Ai'(0) g(x), where its terms are larger than their sum in two numbers.
CT_FN double airy_near(double x) {
    Twofold cube = two_product(x, x) * Twofold{x, 0};
    Twofold f = airy_value(), g = airy_slope() * Twofold{-x, 0}, sum = f + g;
    for (int k = 3; k < 180; k += 3) {
        f = f * cube / (k * (k - 1.0));
        g = g * cube / (k * (k + 1.0));
        Twofold before = sum;
        sum = sum + (f + g);
        if (sum.high == before.high && sum.low == before.low) break;
    }
    return sum.high;
}

/// Sine and cosine; NaN for phases that the two numbers do not tell.
CT_FN void two_sincos(Twofold phase, double* s, double* c) {
    double n = ::rint(phase.high * 0.63661977236758134308);
    if (!(n <= 4503599627370496.0)) {
        *s = *c = CT_NAN;
        return;
    }
    Twofold rest = phase + two_product(-n, 1.57079632679489661923);
    rest = rest + two_product(-n, 6.123233995736766e-17);
    rest = rest + two_product(-n, -1.4973849048591698e-33);
    double sine = ::sin(rest.high), cosine = ::cos(rest.high);
    double a = sine + rest.low * cosine, b = cosine - rest.low * sine, turn = ::fmod(n, 4);
    *s = turn == 0 ? a : turn == 1 ? b : turn == 2 ? -a : -b;
    *c = turn == 0 ? b : turn == 1 ? -a : turn == 2 ? -b : a;
}

/// The oscillating asymptotic series of Ai(-x).
CT_FN double airy_oscillating(double x) {
    Twofold phase = two_thirds_power(x);
    double term = 1, sums[2] = {0, 0};
    for (int k = 0; k < 24; k++) {
        sums[k % 2] += k % 4 < 2 ? term : -term;
        double next = term * (6.0 * k + 5) * (6.0 * k + 1) / (72 * (k + 1.0) * phase.high);
        // An asymptotic series is best cut where its terms start to grow.
        if (next > term) break;
        term = next;
    }
    double s, c;
    two_sincos(phase, &s, &c);
    // Those of the phase less π/4.
    const double root = 0.70710678118654752440;
    double shifted_sine = root * (s - c), shifted_cosine = root * (c + s);
    return (shifted_cosine * sums[0] + shifted_sine * sums[1]) / (::sqrt(PI) * ::sqrt(::sqrt(x)));
}

/// Ai. Below -3·10¹⁰ its phase is not known, and it is NaN.
CT_FN double airy(double x) {
    if (x != x || ::fabs(x) == CT_INFINITY) return CT_NAN;
    if (x > 110) return 0;
    if (x > 2) return airy_decaying(x);
    return x > -9 ? airy_near(x) : airy_oscillating(-x);
}

}  // namespace special

// Functions that are called, not inlined: a thread has several elements.
#define CT_SPECIAL(name) \
    static __device__ __noinline__ double called_##name(double x) { return special::name(x); } \
    CT_FN float name(float x) { return (float)called_##name((double)x); } \
    CT_FN double name(double x) { return called_##name(x); }
#define CT_SPECIAL2(name) \
    static __device__ __noinline__ double called_##name(double x, double y) { return special::name(x, y); } \
    CT_FN float name(float x, float y) { return (float)called_##name((double)x, (double)y); } \
    CT_FN double name(double x, double y) { return called_##name(x, y); }
CT_SPECIAL(digamma)
CT_SPECIAL(i0)
CT_SPECIAL(i0e)
CT_SPECIAL(i1)
CT_SPECIAL(i1e)
CT_SPECIAL(k0)
CT_SPECIAL(k0e)
CT_SPECIAL(k1)
CT_SPECIAL(k1e)
CT_SPECIAL(spherical_j0)
CT_SPECIAL(airy)
CT_SPECIAL2(polygamma)
CT_SPECIAL2(zeta)

}  // namespace ct
