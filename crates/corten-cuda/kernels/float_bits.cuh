// Functions that look at the bits of numbers.

namespace ct {

// Numbers of fewer bits are computed with as floats: neighbours are steps of their own last bit.
CT_FN float next_after_as(float x, float y, BFloat16) {
    if (x != x || y != y) return float_of(0x7fc00000u);
    if (x == y) return y;
    if (x == 0) return copysignf(float_of(1u << 16), y);
    bool away = (x < y) == (x > 0);
    u32 bits = bits_of(x);
    return float_of(away ? bits + (1u << 16) : bits - (1u << 16));
}
CT_FN float next_after_as(float x, float y, Half) {
    if (x != x || y != y) return float_of(0x7fc00000u);
    if (x == y) return y;
    if (x == 0) return copysignf(5.9604644775390625e-8f, y);
    u16 bits = narrow_half(x).bits;
    bool away = (x < y) == (x > 0);
    return widen_half(Half{(u16)(away ? bits + 1 : bits - 1)});
}
CT_FN float next_after_as(float x, float y, float) { return nextafterf(x, y); }
CT_FN double next_after_as(double x, double y, double) { return ::nextafter(x, y); }

struct NextAfter {
    template <class E> CT_FN static E apply(const E* x, const E* s) { return next_after_as(x[0], x[1], E(0)); }
};
struct NextAfterHalf {
    template <class E> CT_FN static E apply(const E* x, const E* s) { return next_after_as((float)x[0], (float)x[1], Half{0}); }
};
struct NextAfterBFloat16 {
    template <class E> CT_FN static E apply(const E* x, const E* s) { return next_after_as((float)x[0], (float)x[1], BFloat16{0}); }
};

/// The number in [1/2, 1), and the power of two that it is to be multiplied with.
template <class S> __global__ void fraction_and_power(u64 n, S* fractions, i32* powers, const S* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = widen(in[i]);
    bool tiny = ::fabs(x) < 2.2250738585072014e-308, itself = x == 0 || !(x - x == 0);
    u64 bits = (u64)__double_as_longlong(tiny ? x * 18014398509481984.0 : x);
    i32 power = (i32)((bits >> 52) & 0x7ff) - 1022 - (tiny ? 54 : 0);
    double fraction = __longlong_as_double((long long)((bits & ~((u64)0x7ff << 52)) | (u64)1022 << 52));
    fractions[i] = narrow<S>(itself ? x : fraction);
    powers[i] = itself ? 0 : power;
}

}  // namespace ct
