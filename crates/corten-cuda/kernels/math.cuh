// The primitives of pointwise expressions: the functions of the vocabulary (corten_cpu::vec::expr::Expr)
// over value types. A function that stands here can be used by the registry's expressions on CUDA.

namespace ct {

template <class E> struct Lit {
    CT_FN static E of(double x) { return E(x); }
};
template <class T> struct Lit<Int<T>> {
    CT_FN static Int<T> of(double x) { return Int<T>(truncated<T>(x)); }
};
template <> struct Lit<Truth> {
    CT_FN static Truth of(double x) { return Truth(x != 0); }
};
template <class T> struct Lit<Complex<T>> {
    CT_FN static Complex<T> of(double x) { return Complex<T>((T)x, 0); }
};
template <class E> CT_FN E lit(double x) { return Lit<E>::of(x); }

#define CT_INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define CT_NAN __longlong_as_double(0x7ff8000000000000LL)

// Comparisons.

template <class E> CT_FN bool lt(E a, E b) { return a < b; }
template <class T> CT_FN bool lt(Int<T> a, Int<T> b) { return a.v < b.v; }
CT_FN bool lt(Truth a, Truth b) { return !a.v && b.v; }
template <class T> CT_FN bool lt(Complex<T> a, Complex<T> b) { return a.re < b.re; }
template <class E> CT_FN bool le(E a, E b) { return a <= b; }
template <class T> CT_FN bool le(Int<T> a, Int<T> b) { return a.v <= b.v; }
CT_FN bool le(Truth a, Truth b) { return !a.v || b.v; }
template <class T> CT_FN bool le(Complex<T> a, Complex<T> b) { return a.re <= b.re; }
template <class E> CT_FN bool eq(E a, E b) { return a == b; }
template <class T> CT_FN bool eq(Int<T> a, Int<T> b) { return a.v == b.v; }
CT_FN bool eq(Truth a, Truth b) { return a.v == b.v; }
template <class T> CT_FN bool eq(Complex<T> a, Complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class E> CT_FN bool ne(E a, E b) { return !eq(a, b); }
template <class E> CT_FN bool gt(E a, E b) { return lt(b, a); }
template <class E> CT_FN bool ge(E a, E b) { return le(b, a); }
template <class E> CT_FN bool is_nan(E a) { return ne(a, a); }

// Parts, signs and choices.

CT_FN float abs(float x) { return fabsf(x); }
CT_FN double abs(double x) { return fabs(x); }
template <class T> CT_FN Int<T> abs(Int<T> x) { return x.v < (T)0 ? -x : x; }
CT_FN Truth abs(Truth x) { return x; }
CT_FN float hypot(float x, float y) { return hypotf(x, y); }
CT_FN double hypot(double x, double y) { return ::hypot(x, y); }
template <class T> CT_FN Complex<T> abs(Complex<T> x) { return Complex<T>(hypot(x.re, x.im), 0); }

template <class E> CT_FN bool is_inf(E x) {
    if constexpr (is_int<E>::value || is_same<E, Truth>::value) return false;
    else if constexpr (is_complex<E>::value) return is_inf(x.re) || is_inf(x.im);
    else return abs(x) == (E)CT_INFINITY;
}
template <class E> CT_FN bool is_finite(E x) {
    if constexpr (is_int<E>::value || is_same<E, Truth>::value) return true;
    else if constexpr (is_complex<E>::value) return is_finite(x.re) && is_finite(x.im);
    else return x - x == (E)0;
}
CT_FN bool sign_bit(float x) { return __float_as_int(x) < 0; }
CT_FN bool sign_bit(double x) { return __double_as_longlong(x) < 0; }
template <class T> CT_FN bool sign_bit(Int<T> x) { return x.v < (T)0; }
CT_FN bool sign_bit(Truth) { return false; }
template <class T> CT_FN bool sign_bit(Complex<T> x) { return sign_bit(x.re); }

template <class E> CT_FN E mul_add(E x, E a, E b) { return x * a + b; }
CT_FN float mul_add(float x, float a, float b) { return fmaf(x, a, b); }
CT_FN double mul_add(double x, double a, double b) { return fma(x, a, b); }
template <class E> CT_FN E neg(E x) { return -x; }
template <class E> CT_FN E square(E x) { return x * x; }
template <class E> CT_FN E reciprocal(E x) { return lit<E>(1.0) / x; }
template <class E> CT_FN E sign(E x) {
    if constexpr (is_complex<E>::value) {
        auto size = abs(x).re;
        return size == 0 ? E(0, 0) : E(x.re / size, x.im / size);
    } else {
        E zero = lit<E>(0.0), one = lit<E>(1.0);
        return (lt(zero, x) ? one : zero) - (lt(x, zero) ? one : zero);
    }
}
template <class E> CT_FN E conj(E x) {
    if constexpr (is_complex<E>::value) return E(x.re, -x.im);
    else return x;
}
CT_FN float atan2(float y, float x) { return atan2f(y, x); }
CT_FN double atan2(double y, double x) { return ::atan2(y, x); }
template <class E> CT_FN E angle(E x) {
    if constexpr (is_complex<E>::value) {
        return E(atan2(x.im, x.re), 0);
    } else {
        if (is_nan(x)) return x;
        return lt(x, lit<E>(0.0)) ? lit<E>(3.14159265358979323846) : lit<E>(0.0);
    }
}
CT_FN float copysign(float x, float sign) { return copysignf(x, sign); }
CT_FN double copysign(double x, double sign) { return ::copysign(x, sign); }
template <class E> CT_FN E max(E a, E b) { return is_nan(a) ? a : lt(b, a) ? a : b; }
template <class E> CT_FN E min(E a, E b) { return is_nan(a) ? a : lt(a, b) ? a : b; }
template <class E> CT_FN E clamp(E x, E low, E high) { return min(max(x, low), high); }
template <class E> CT_FN E fmax(E a, E b) { return lt(b, a) || is_nan(b) ? a : b; }
template <class E> CT_FN E fmin(E a, E b) { return lt(a, b) || is_nan(b) ? a : b; }

// Rounding and remainders.

#define CT_ROUND(name, single, real) \
    CT_FN float name(float x) { return single(x); } \
    CT_FN double name(double x) { return real(x); } \
    template <class T> CT_FN Int<T> name(Int<T> x) { return x; } \
    CT_FN Truth name(Truth x) { return x; } \
    template <class T> CT_FN Complex<T> name(Complex<T> x) { return x; }
CT_ROUND(floor, floorf, ::floor)
CT_ROUND(ceil, ceilf, ::ceil)
CT_ROUND(trunc, truncf, ::trunc)
CT_ROUND(round, rintf, ::rint)
template <class E> CT_FN E frac(E x) { return x - trunc(x); }
CT_FN float fmod(float x, float y) { return fmodf(x, y); }
CT_FN double fmod(double x, double y) { return ::fmod(x, y); }
template <class T> CT_FN Int<T> fmod(Int<T> x, Int<T> y) {
    if (y.v == 0) return x;
    if ((T)-1 < (T)0 && y.v == (T)-1) return Int<T>((T)0);
    return Int<T>((T)(x.v % y.v));
}
template <class E> CT_FN E remainder(E x, E y) {
    E rest = fmod(x, y), zero = lit<E>(0.0);
    return ne(rest, zero) && lt(rest, zero) != lt(y, zero) ? rest + y : rest;
}
/// Python's `//`, as PyTorch computes it: from the remainder, and to the nearest integer.
template <class E> CT_FN E floor_divide(E a, E b) {
    if (b == 0) return a / b;
    E rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign((E)0, a / b);
    E whole = floor(quotient);
    return quotient - whole > (E)0.5 ? whole + 1 : whole;
}
template <class T> CT_FN Int<T> floor_divide(Int<T> a, Int<T> b) {
    Int<T> quotient = a / b;
    if (b.v != 0 && (a.v < (T)0) != (b.v < (T)0) && fmod(a, b).v != 0) return Int<T>((T)(quotient.v - 1));
    return quotient;
}
template <class E> CT_FN E trunc_divide(E a, E b) { return trunc(a / b); }
template <class T> CT_FN Int<T> trunc_divide(Int<T> a, Int<T> b) { return a / b; }

// Exponentials, logarithms, powers.

#define CT_REAL(name, single, real) \
    CT_FN float name(float x) { return single(x); } \
    CT_FN double name(double x) { return real(x); }
CT_REAL(exp, expf, ::exp)
CT_REAL(exp2, exp2f, ::exp2)
CT_REAL(expm1, expm1f, ::expm1)
CT_REAL(log, logf, ::log)
CT_REAL(log2, log2f, ::log2)
CT_REAL(log10, log10f, ::log10)
CT_REAL(log1p, log1pf, ::log1p)
CT_REAL(sqrt, sqrtf, ::sqrt)
CT_REAL(sin, sinf, ::sin)
CT_REAL(cos, cosf, ::cos)
CT_REAL(tan, tanf, ::tan)
CT_REAL(asin, asinf, ::asin)
CT_REAL(acos, acosf, ::acos)
CT_REAL(atan, atanf, ::atan)
CT_REAL(sinh, sinhf, ::sinh)
CT_REAL(cosh, coshf, ::cosh)
CT_REAL(tanh, tanhf, ::tanh)
CT_REAL(asinh, asinhf, ::asinh)
CT_REAL(acosh, acoshf, ::acosh)
CT_REAL(atanh, atanhf, ::atanh)
CT_REAL(erf, erff, ::erf)
CT_REAL(erfc, erfcf, ::erfc)
CT_REAL(lgamma, lgammaf, ::lgamma)
CT_REAL(j0, j0f, ::j0)
CT_REAL(j1, j1f, ::j1)
CT_REAL(y0, y0f, ::y0)
CT_REAL(y1, y1f, ::y1)
CT_REAL(sinpi, sinpif, ::sinpi)
CT_REAL(erfinv, erfinvf, ::erfinv)
CT_REAL(erfcx, erfcxf, ::erfcx)
CT_REAL(ndtri, normcdfinvf, ::normcdfinv)

/// The complex functions, by their parts.
template <class T> CT_FN Complex<T> times_i(Complex<T> x) { return {-x.im, x.re}; }
template <class T> CT_FN Complex<T> exp(Complex<T> x) {
    T size = exp(x.re);
    if (x.im == 0) return {size, x.im};
    if (size == 0) return {0, 0};
    return {size * cos(x.im), size * sin(x.im)};
}
template <class T> CT_FN Complex<T> log(Complex<T> x) {
    T size = hypot(x.re, x.im);
    // Near 1 the logarithm of the size is that of size² - 1.
    T near = (x.re - 1) * (x.re + 1) + x.im * x.im;
    T real = size > (T)0.5 && size < (T)2 ? log1p(near) / 2 : log(size);
    return {real, atan2(x.im, x.re)};
}
template <class T> CT_FN Complex<T> log2(Complex<T> x) {
    Complex<T> y = log(x);
    return {y.re * (T)1.4426950408889634, y.im * (T)1.4426950408889634};
}
template <class T> CT_FN Complex<T> log10(Complex<T> x) {
    Complex<T> y = log(x);
    return {y.re * (T)0.4342944819032518, y.im * (T)0.4342944819032518};
}
template <class T> CT_FN Complex<T> log1p(Complex<T> x) {
    T near = x.re * (x.re + 2) + x.im * x.im;
    T real = near > (T)-0.75 && near < (T)3 ? log1p(near) / 2 : log(hypot(x.re + 1, x.im));
    return {real, atan2(x.im, x.re + 1)};
}
template <class T> CT_FN Complex<T> expm1(Complex<T> x) {
    T half = sin(x.im / 2), size = exp(x.re);
    return {expm1(x.re) * cos(x.im) - 2 * half * half, size * sin(x.im)};
}
template <class T> CT_FN Complex<T> exp2(Complex<T> x) {
    return exp(Complex<T>(x.re * (T)0.6931471805599453, x.im * (T)0.6931471805599453));
}
template <class T> CT_FN Complex<T> sqrt(Complex<T> x) {
    T size = hypot(x.re, x.im);
    if (size == 0) return {0, x.im};
    if (is_inf(x.im)) return {abs(x.im), x.im};
    T root = sqrt((size + abs(x.re)) / 2);
    if (x.re >= 0) return {root, x.im / (2 * root)};
    return {abs(x.im) / (2 * root), copysign(root, x.im)};
}
template <class T> CT_FN Complex<T> sin(Complex<T> x) { return {sin(x.re) * cosh(x.im), cos(x.re) * sinh(x.im)}; }
template <class T> CT_FN Complex<T> sinpi(Complex<T> x) {
    const T pi = (T)3.14159265358979323846;
    return sin(Complex<T>(x.re * pi, x.im * pi));
}
template <class T> CT_FN Complex<T> cos(Complex<T> x) { return {cos(x.re) * cosh(x.im), -sin(x.re) * sinh(x.im)}; }
template <class T> CT_FN Complex<T> sinh(Complex<T> x) { return {sinh(x.re) * cos(x.im), cosh(x.re) * sin(x.im)}; }
template <class T> CT_FN Complex<T> cosh(Complex<T> x) { return {cosh(x.re) * cos(x.im), sinh(x.re) * sin(x.im)}; }
template <class T> CT_FN Complex<T> tanh(Complex<T> x) {
    if (abs(x.re) > (T)20) return {copysign((T)1, x.re), 0};
    T slope = tan(x.im), height = 1 + slope * slope, s = sinh(x.re), c = sqrt(1 + s * s);
    if (is_inf(slope)) return {c / s, 1 / slope};
    T size = 1 + height * s * s;
    return {height * c * s / size, slope / size};
}
template <class T> CT_FN Complex<T> tan(Complex<T> x) {
    Complex<T> y = tanh(times_i(x));
    return {y.im, -y.re};
}
template <class T> CT_FN Complex<T> asinh(Complex<T> x) {
    // By parts of the square roots of 1 ± ix (Kahan 1987).
    Complex<T> a = sqrt(Complex<T>(1 - x.im, x.re)), b = sqrt(Complex<T>(1 + x.im, -x.re));
    return {asinh(b.re * a.im - b.im * a.re), atan2(x.im, a.re * b.re - a.im * b.im)};
}
template <class T> CT_FN Complex<T> acosh(Complex<T> x) {
    Complex<T> a = sqrt(Complex<T>(x.re - 1, x.im)), b = sqrt(Complex<T>(x.re + 1, x.im));
    return {asinh(a.re * b.re + a.im * b.im), 2 * atan2(a.im, b.re)};
}
template <class T> CT_FN Complex<T> asin(Complex<T> x) {
    Complex<T> y = asinh(times_i(x));
    return {y.im, -y.re};
}
template <class T> CT_FN Complex<T> acos(Complex<T> x) {
    Complex<T> a = sqrt(Complex<T>(1 - x.re, -x.im)), b = sqrt(Complex<T>(1 + x.re, x.im));
    return {2 * atan2(a.re, b.re), asinh(b.re * a.im - b.im * a.re)};
}
template <class T> CT_FN Complex<T> atanh(Complex<T> x) {
    T y = x.im * x.im, up = (1 + x.re) * (1 + x.re) + y, down = (1 - x.re) * (1 - x.re) + y;
    return {log1p(4 * x.re / down) / 4 + 0 * up, atan2(2 * x.im, (1 - x.re) * (1 + x.re) - y) / 2};
}
template <class T> CT_FN Complex<T> atan(Complex<T> x) {
    Complex<T> y = atanh(times_i(x));
    return {y.im, -y.re};
}
CT_FN float rsqrt(float x) { return rsqrtf(x); }
CT_FN double rsqrt(double x) { return ::rsqrt(x); }
template <class T> CT_FN Complex<T> rsqrt(Complex<T> x) { return Complex<T>(1, 0) / sqrt(x); }

CT_FN float pow(float x, float y) { return powf(x, y); }
CT_FN double pow(double x, double y) { return ::pow(x, y); }
template <class T> CT_FN Int<T> pow(Int<T> x, Int<T> y) {
    if (y.v < (T)0) {
        // Only 1 and -1 have integral powers of negative exponents.
        if (x.v == (T)1) return x;
        if ((T)-1 < (T)0 && x.v == (T)-1) return Int<T>((T)(y.v & 1 ? -1 : 1));
        return Int<T>((T)0);
    }
    u64 base = (u64)x.v, result = 1;
    for (u64 exponent = (u64)y.v; exponent; exponent >>= 1, base *= base) {
        if (exponent & 1) result *= base;
    }
    return Int<T>((T)result);
}
template <class T> CT_FN Complex<T> pow(Complex<T> x, Complex<T> y) {
    if (x.re == 0 && x.im == 0) {
        return y.re == 0 && y.im == 0 ? Complex<T>(1, 0) : Complex<T>(0, 0);
    }
    return exp(log(x) * y);
}
CT_FN Truth pow(Truth x, Truth y) { return Truth(x.v || !y.v); }

template <class E> CT_FN E log_add_exp(E a, E b) {
    E low = min(a, b), high = max(a, b);
    return is_inf(a) && eq(a, b) ? a : high + log1p(exp(low - high));
}
template <class E> CT_FN E sigmoid(E x) {
    E one = lit<E>(1.0);
    return one / (one + exp(-x));
}
template <class E> CT_FN E normal_cdf(E x) {
    return lit<E>(0.5) * (lit<E>(1.0) + erf(x * lit<E>(0.70710678118654752440)));
}
template <class E> CT_FN E ndtr(E x) { return lit<E>(0.5) * erfc(x * lit<E>(-0.70710678118654752440)); }
template <class E> CT_FN E log_ndtr(E x) {
    E scaled = x * lit<E>(0.70710678118654752440);
    if (x < lit<E>(-1.0)) return log(erfcx(-scaled) / 2) - scaled * scaled;
    return log1p(-erfc(scaled) / 2);
}

// Bits.

template <class T> CT_FN Int<T> bitwise_and(Int<T> a, Int<T> b) { return Int<T>((T)(a.v & b.v)); }
CT_FN Truth bitwise_and(Truth a, Truth b) { return a * b; }
template <class T> CT_FN Int<T> bitwise_or(Int<T> a, Int<T> b) { return Int<T>((T)(a.v | b.v)); }
CT_FN Truth bitwise_or(Truth a, Truth b) { return a + b; }
template <class T> CT_FN Int<T> bitwise_xor(Int<T> a, Int<T> b) { return Int<T>((T)(a.v ^ b.v)); }
CT_FN Truth bitwise_xor(Truth a, Truth b) { return Truth(a.v != b.v); }
template <class T> CT_FN Int<T> bitwise_not(Int<T> a) { return Int<T>((T)~a.v); }
CT_FN Truth bitwise_not(Truth a) { return Truth(!a.v); }
template <class T> CT_FN Int<T> shift_left(Int<T> a, Int<T> by) {
    if (by.v < (T)0 || (u64)by.v >= 8 * sizeof(T)) return Int<T>((T)0);
    return Int<T>((T)((u64)a.v << by.v));
}
template <class T> CT_FN Int<T> shift_right(Int<T> a, Int<T> by) {
    const u64 most = 8 * sizeof(T) - ((T)-1 < (T)0 ? 1 : 0);
    if (by.v < (T)0 || (u64)by.v >= most) {
        if ((T)-1 < (T)0) return Int<T>((T)(a.v >> (8 * sizeof(T) - 1)));
        return Int<T>((T)0);
    }
    return Int<T>((T)(a.v >> by.v));
}
template <class T> CT_FN Int<T> gcd(Int<T> a, Int<T> b) {
    a = abs(a), b = abs(b);
    while (b.v != 0) {
        Int<T> rest = fmod(a, b);
        a = b, b = rest;
    }
    return a;
}
template <class T> CT_FN Int<T> lcm(Int<T> a, Int<T> b) {
    Int<T> g = gcd(a, b);
    return g.v == 0 ? g : abs(a / g * b);
}

}  // namespace ct
