// Element types: how numbers lie in memory (storage types) and what kernels compute with (value types).
//
// No header of CUDA is included: 16-bit and 8-bit floats are converted by instructions or by bits. The
// value type of a storage type is float for floats of 16 and 8 bits, Int<T> for integers (arithmetic
// wraps), Truth for bool and Complex<T> for complex numbers.

#ifndef CT_SIM
#define CT_DYN_SMEM(T, name) extern __shared__ __align__(16) unsigned char name##_bytes[]; \
    T* name = reinterpret_cast<T*>(name##_bytes)
#endif
#define CT_FN __device__ __forceinline__

namespace ct {

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

template <class A, class B> struct is_same { static const bool value = false; };
template <class A> struct is_same<A, A> { static const bool value = true; };
template <bool C, class A, class B> struct choose { typedef A type; };
template <class A, class B> struct choose<false, A, B> { typedef B type; };

CT_FN u32 bits_of(float x) { return __float_as_uint(x); }
CT_FN float float_of(u32 x) { return __uint_as_float(x); }

// Storage types.

struct Half { u16 bits; };
struct BFloat16 { u16 bits; };
/// 8-bit floats by exponent bits, mantissa bits, bias, and whether there are infinities (IEEE), only NaN
/// at the largest number (FN), or NaN at negative zero (FNUZ).
enum Kind8 { IEEE, FN, FNUZ };
template <int EXPONENT, int MANTISSA, int BIAS, Kind8 KIND> struct Float8 { u8 bits; };
typedef Float8<5, 2, 15, IEEE> F8E5M2;
typedef Float8<4, 3, 7, FN> F8E4M3FN;
typedef Float8<5, 2, 16, FNUZ> F8E5M2FNUZ;
typedef Float8<4, 3, 8, FNUZ> F8E4M3FNUZ;
/// A power of two: the exponent of a float alone.
struct F8E8M0FNU { u8 bits; };

CT_FN float widen_half(Half x) {
#ifdef CT_SIM
    u32 sign = (u32)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000u | ((rest & 0x3ff) << 13));
    // Exact: a subnormal is a multiple of 2^-24.
    float magnitude = rest < 0x400 ? rest * 5.9604644775390625e-8f : float_of((rest << 13) + 0x38000000u);
    return float_of(sign | bits_of(magnitude));
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#endif
}

CT_FN Half narrow_half(float x) {
#ifdef CT_SIM
    u32 bits = bits_of(x), sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000u) return Half{(u16)(sign | 0x7fff)};
    if (rest >= 0x477ff000u) return Half{(u16)(sign | 0x7c00)};
    if (rest < 0x38800000u) {
        // Adding 0.5 lets the sum's rounding do the subnormal's.
        float shifted = float_of(rest) + 0.5f;
        return Half{(u16)(sign | (bits_of(shifted) - bits_of(0.5f)))};
    }
    u32 odd = (rest >> 13) & 1;
    return Half{(u16)(sign | ((rest - 0x38000000u + 0xfff + odd) >> 13))};
#else
    Half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
#endif
}

CT_FN float widen_bfloat16(BFloat16 x) { return float_of((u32)x.bits << 16); }

CT_FN BFloat16 narrow_bfloat16(float x) {
    u32 bits = bits_of(x);
    if (x != x) return BFloat16{(u16)0x7fc0};
    return BFloat16{(u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <int E, int M, int B, Kind8 K> CT_FN float widen_float8(Float8<E, M, B, K> x) {
    u32 sign = x.bits >> 7, exponent = (x.bits >> M) & ((1 << E) - 1), mantissa = x.bits & ((1 << M) - 1);
    bool full = (x.bits & 0x7f) == 0x7f;
    if (K == FNUZ && x.bits == 0x80) return float_of(0x7fc00000u);
    if (K == FN && full) return float_of(0x7fc00000u | sign << 31);
    if (K == IEEE && exponent == (1 << E) - 1) {
        return float_of(sign << 31 | 0x7f800000u | (mantissa ? 0x400000u : 0));
    }
    float scale = float_of((u32)(127 + 1 - B - M) << 23), magnitude;
    if (exponent == 0) {
        magnitude = mantissa * scale;
    } else {
        magnitude = float_of((exponent + 127 - B) << 23 | mantissa << (23 - M));
    }
    return float_of(bits_of(magnitude) | sign << 31);
}

template <int E, int M, int B, Kind8 K> CT_FN Float8<E, M, B, K> narrow_float8(float x) {
    typedef Float8<E, M, B, K> F;
    u32 bits = bits_of(x), rest = bits & 0x7fffffff;
    u8 sign = (u8)(bits >> 31 << 7);
    if (rest > 0x7f800000u) return F{(u8)(K == FNUZ ? 0x80 : K == FN ? sign | 0x7f : sign | 0x7f)};
    // The largest code of a finite number, and what stands for all numbers above.
    const u32 largest = K == IEEE ? (((1u << E) - 1) << M) - 1 : K == FN ? 0x7e : 0x7f;
    const u8 beyond = K == IEEE ? (u8)(((1u << E) - 1) << M) : K == FN ? 0x7f : 0x80;
    u32 code;
    int exponent = (int)(rest >> 23) - 127;
    if (exponent < 1 - B) {
        // A multiple of the smallest number, rounded to even by adding 2^23 such multiples.
        float unit = float_of((u32)(127 + 1 - B - M + 23) << 23);
        code = bits_of(float_of(rest) + unit) - bits_of(unit);
    } else {
        u32 odd = (rest >> (23 - M)) & 1;
        u32 rounded = rest + ((1u << (22 - M)) - 1) + odd;
        code = (rounded >> (23 - M)) - ((u32)(127 - B) << M);
    }
    if (code > largest) return F{(u8)(K == FNUZ ? beyond : sign | beyond)};
    if (K == FNUZ && code == 0) return F{(u8)0};
    return F{(u8)(sign | code)};
}

CT_FN float widen_e8m0(F8E8M0FNU x) {
    if (x.bits == 255) return float_of(0x7fc00000u);
    return x.bits == 0 ? float_of(0x00400000u) : float_of((u32)x.bits << 23);
}

CT_FN F8E8M0FNU narrow_e8m0(float x) {
    u32 bits = bits_of(x), exponent = (bits >> 23) & 0xff, mantissa = bits & 0x7fffff;
    if (exponent == 255) return F8E8M0FNU{(u8)255};
    bool up = mantissa > 0x400000u || (mantissa == 0x400000u && exponent > 0);
    if (exponent > 0) up = mantissa >= 0x400000u;
    return F8E8M0FNU{(u8)(exponent + (up ? 1 : 0))};
}

// Value types.

/// An integer whose arithmetic wraps.
template <class T> struct Int {
    T v;
    Int() = default;
    CT_FN Int(T value) : v(value) {}
};
template <class T> CT_FN Int<T> operator+(Int<T> a, Int<T> b) { return Int<T>((T)((u64)a.v + (u64)b.v)); }
template <class T> CT_FN Int<T> operator-(Int<T> a, Int<T> b) { return Int<T>((T)((u64)a.v - (u64)b.v)); }
template <class T> CT_FN Int<T> operator*(Int<T> a, Int<T> b) { return Int<T>((T)((u64)a.v * (u64)b.v)); }
/// Truncated. There are no exceptions on a GPU: by zero it gives -1.
template <class T> CT_FN Int<T> operator/(Int<T> a, Int<T> b) {
    if (b.v == 0) return Int<T>((T)-1);
    if ((T)-1 < (T)0 && b.v == (T)-1) return Int<T>((T)(0 - (u64)a.v));
    return Int<T>((T)(a.v / b.v));
}
template <class T> CT_FN Int<T> operator-(Int<T> a) { return Int<T>((T)(0 - (u64)a.v)); }

/// A truth value: `+` is "or", `*` is "and".
struct Truth {
    bool v;
    Truth() = default;
    CT_FN Truth(bool value) : v(value) {}
};
CT_FN Truth operator+(Truth a, Truth b) { return Truth(a.v || b.v); }
CT_FN Truth operator-(Truth a, Truth b) { return Truth(a.v != b.v); }
CT_FN Truth operator*(Truth a, Truth b) { return Truth(a.v && b.v); }
CT_FN Truth operator/(Truth a, Truth b) { return Truth(a.v && b.v); }
CT_FN Truth operator-(Truth a) { return a; }

template <class T> struct Complex {
    T re, im;
    Complex() = default;
    CT_FN Complex(T real, T imaginary) : re(real), im(imaginary) {}
};
template <class T> CT_FN Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> CT_FN Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> CT_FN Complex<T> operator-(Complex<T> a) { return {-a.re, -a.im}; }
template <class T> CT_FN Complex<T> operator*(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/// Smith's algorithm: the quotient of the smaller part by the larger one keeps the range.
template <class T> CT_FN Complex<T> operator/(Complex<T> a, Complex<T> b) {
    T x = b.re < 0 ? -b.re : b.re, y = b.im < 0 ? -b.im : b.im;
    if (x == 0 && y == 0) return {a.re / x, a.im / y};
    if (x >= y) {
        T ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
        return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    T ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

struct HalfComplex { Half re, im; };
struct BFloat16Complex { BFloat16 re, im; };

template <class E> struct is_complex { static const bool value = false; };
template <class T> struct is_complex<Complex<T>> { static const bool value = true; };
template <class E> struct is_int { static const bool value = false; };
template <class T> struct is_int<Int<T>> { static const bool value = true; };
template <class E> struct real_of { typedef E type; };
template <class T> struct real_of<Complex<T>> { typedef T type; };

/// The value type of a storage type.
template <class S> struct Value { typedef S type; };
template <> struct Value<Half> { typedef float type; };
template <> struct Value<BFloat16> { typedef float type; };
template <int E, int M, int B, Kind8 K> struct Value<Float8<E, M, B, K>> { typedef float type; };
template <> struct Value<F8E8M0FNU> { typedef float type; };
template <> struct Value<HalfComplex> { typedef Complex<float> type; };
template <> struct Value<BFloat16Complex> { typedef Complex<float> type; };
template <> struct Value<bool> { typedef Truth type; };
template <> struct Value<u8> { typedef Int<u8> type; };
template <> struct Value<i8> { typedef Int<i8> type; };
template <> struct Value<u16> { typedef Int<u16> type; };
template <> struct Value<i16> { typedef Int<i16> type; };
template <> struct Value<u32> { typedef Int<u32> type; };
template <> struct Value<i32> { typedef Int<i32> type; };
template <> struct Value<u64> { typedef Int<u64> type; };
template <> struct Value<i64> { typedef Int<i64> type; };

CT_FN float widen(float x) { return x; }
CT_FN double widen(double x) { return x; }
CT_FN float widen(Half x) { return widen_half(x); }
CT_FN float widen(BFloat16 x) { return widen_bfloat16(x); }
template <int E, int M, int B, Kind8 K> CT_FN float widen(Float8<E, M, B, K> x) { return widen_float8(x); }
CT_FN float widen(F8E8M0FNU x) { return widen_e8m0(x); }
template <class T> CT_FN Complex<T> widen(Complex<T> x) { return x; }
CT_FN Complex<float> widen(HalfComplex x) { return Complex<float>(widen(x.re), widen(x.im)); }
CT_FN Complex<float> widen(BFloat16Complex x) { return Complex<float>(widen(x.re), widen(x.im)); }
CT_FN Truth widen(bool x) { return Truth(x); }
CT_FN Int<u8> widen(u8 x) { return x; }
CT_FN Int<i8> widen(i8 x) { return x; }
CT_FN Int<u16> widen(u16 x) { return x; }
CT_FN Int<i16> widen(i16 x) { return x; }
CT_FN Int<u32> widen(u32 x) { return x; }
CT_FN Int<i32> widen(i32 x) { return x; }
CT_FN Int<u64> widen(u64 x) { return x; }
CT_FN Int<i64> widen(i64 x) { return x; }

/// A float as an integer: truncated; unsigned bytes by way of 64 bits, so that negative ones wrap.
template <class T, class F> CT_FN T truncated(F x) {
    if ((T)-1 > (T)0 && x < 0) return (T)(i64)x;
    if (sizeof(T) < 8) return (T)(i64)x;
    return (T)x;
}

// Conversions between value types: to<E>(x).
template <class E> struct To;
template <> struct To<float> {
    CT_FN static float from(float x) { return x; }
    CT_FN static float from(double x) { return (float)x; }
    template <class T> CT_FN static float from(Int<T> x) { return (float)x.v; }
    CT_FN static float from(Truth x) { return x.v ? 1.f : 0.f; }
    template <class T> CT_FN static float from(Complex<T> x) { return (float)x.re; }
};
template <> struct To<double> {
    CT_FN static double from(float x) { return x; }
    CT_FN static double from(double x) { return x; }
    template <class T> CT_FN static double from(Int<T> x) { return (double)x.v; }
    CT_FN static double from(Truth x) { return x.v ? 1. : 0.; }
    template <class T> CT_FN static double from(Complex<T> x) { return (double)x.re; }
};
template <class T> struct To<Int<T>> {
    CT_FN static Int<T> from(float x) { return truncated<T>(x); }
    CT_FN static Int<T> from(double x) { return truncated<T>(x); }
    template <class U> CT_FN static Int<T> from(Int<U> x) { return (T)x.v; }
    CT_FN static Int<T> from(Truth x) { return (T)x.v; }
    template <class U> CT_FN static Int<T> from(Complex<U> x) { return truncated<T>(x.re); }
};
template <> struct To<Truth> {
    CT_FN static Truth from(float x) { return x != 0; }
    CT_FN static Truth from(double x) { return x != 0; }
    template <class U> CT_FN static Truth from(Int<U> x) { return x.v != 0; }
    CT_FN static Truth from(Truth x) { return x; }
    template <class U> CT_FN static Truth from(Complex<U> x) { return x.re != 0 || x.im != 0; }
};
template <class T> struct To<Complex<T>> {
    CT_FN static Complex<T> from(float x) { return {(T)x, 0}; }
    CT_FN static Complex<T> from(double x) { return {(T)x, 0}; }
    template <class U> CT_FN static Complex<T> from(Int<U> x) { return {(T)x.v, 0}; }
    CT_FN static Complex<T> from(Truth x) { return {(T)x.v, 0}; }
    template <class U> CT_FN static Complex<T> from(Complex<U> x) { return {(T)x.re, (T)x.im}; }
};
template <class E, class X> CT_FN E to(X x) { return To<E>::from(x); }

// Stores: narrow<S>(x).
template <class S> struct Narrow {
    template <class X> CT_FN static S from(X x) { return S(To<S>::from(x)); }
};
template <class T> struct NarrowInt {
    template <class X> CT_FN static T from(X x) { return To<Int<T>>::from(x).v; }
};
template <> struct Narrow<u8> : NarrowInt<u8> {};
template <> struct Narrow<i8> : NarrowInt<i8> {};
template <> struct Narrow<u16> : NarrowInt<u16> {};
template <> struct Narrow<i16> : NarrowInt<i16> {};
template <> struct Narrow<u32> : NarrowInt<u32> {};
template <> struct Narrow<i32> : NarrowInt<i32> {};
template <> struct Narrow<u64> : NarrowInt<u64> {};
template <> struct Narrow<i64> : NarrowInt<i64> {};
template <> struct Narrow<bool> {
    template <class X> CT_FN static bool from(X x) { return To<Truth>::from(x).v; }
};
template <> struct Narrow<Half> {
    template <class X> CT_FN static Half from(X x) { return narrow_half(To<float>::from(x)); }
};
template <> struct Narrow<BFloat16> {
    template <class X> CT_FN static BFloat16 from(X x) { return narrow_bfloat16(To<float>::from(x)); }
};
template <int E, int M, int B, Kind8 K> struct Narrow<Float8<E, M, B, K>> {
    template <class X> CT_FN static Float8<E, M, B, K> from(X x) {
        return narrow_float8<E, M, B, K>(To<float>::from(x));
    }
};
template <> struct Narrow<F8E8M0FNU> {
    template <class X> CT_FN static F8E8M0FNU from(X x) { return narrow_e8m0(To<float>::from(x)); }
};
template <> struct Narrow<HalfComplex> {
    template <class X> CT_FN static HalfComplex from(X x) {
        Complex<float> y = To<Complex<float>>::from(x);
        return HalfComplex{narrow_half(y.re), narrow_half(y.im)};
    }
};
template <> struct Narrow<BFloat16Complex> {
    template <class X> CT_FN static BFloat16Complex from(X x) {
        Complex<float> y = To<Complex<float>>::from(x);
        return BFloat16Complex{narrow_bfloat16(y.re), narrow_bfloat16(y.im)};
    }
};
template <class S, class X> CT_FN S narrow(X x) { return Narrow<S>::from(x); }

}  // namespace ct
