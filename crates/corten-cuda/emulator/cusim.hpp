// The prelude of emulated kernel text: CUDA C++'s qualifiers, built-in variables and device functions as g++
// understands them. It includes nothing: kernel text may define the standard types, and compiling stays fast.
#define CT_SIM 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// Static shared memory is the module's thread-local segment: the driver poisons it before each block.
#define __shared__ static thread_local
#define CT_DYN_SMEM(T, name) T *name = (T *)cusim::dynamic_shared
#define CT_F(signature, ...) static inline signature { return __VA_ARGS__; }

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#define CT_VECTOR(T, name, a1, a2, a4)                                                                        \
  struct __align__(a1) name##1 { T x; };                                                                      \
  struct __align__(a2) name##2 { T x, y; };                                                                   \
  struct name##3 { T x, y, z; };                                                                              \
  struct __align__(a4) name##4 { T x, y, z, w; };                                                             \
  CT_F(name##1 make_##name##1(T x), {x})                                                                      \
  CT_F(name##2 make_##name##2(T x, T y), {x, y})                                                              \
  CT_F(name##3 make_##name##3(T x, T y, T z), {x, y, z})                                                      \
  CT_F(name##4 make_##name##4(T x, T y, T z, T w), {x, y, z, w})
CT_VECTOR(signed char, char, 1, 2, 4) CT_VECTOR(unsigned char, uchar, 1, 2, 4) CT_VECTOR(short, short, 2, 4, 8)
CT_VECTOR(unsigned short, ushort, 2, 4, 8) CT_VECTOR(int, int, 4, 8, 16) CT_VECTOR(unsigned, uint, 4, 8, 16)
CT_VECTOR(long, long, 8, 16, 16) CT_VECTOR(unsigned long, ulong, 8, 16, 16) CT_VECTOR(float, float, 4, 8, 16)
CT_VECTOR(long long, longlong, 8, 16, 16) CT_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
CT_VECTOR(double, double, 8, 16, 16)
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;
extern "C" int printf(const char *, ...);
extern "C" void *memcpy(void *, const void *, size_t), *memset(void *, int, size_t);

namespace cusim {
static const Engine *engine;
static void *dynamic_shared;
static thread_local char shared_anchor;
extern "C" __attribute__((visibility("default"))) Builtins ct_builtins = {
    &threadIdx.x, &blockIdx.x, &blockDim.x, &gridDim.x, &dynamic_shared, &engine,
    [] { *(volatile char *)&shared_anchor = 0; }};
// With CUSIM_RACES the compiler calls these before it reads or writes memory, but for atomics.
#define CT_UNWATCHED __attribute__((no_sanitize("thread")))
#ifdef __SANITIZE_THREAD__
#define CT_ACCESS(n)                                                                                          \
  extern "C" CT_UNWATCHED void __tsan_read##n(void *p) { if (engine) engine->access(p, n, false); }                       \
  extern "C" CT_UNWATCHED void __tsan_write##n(void *p) { if (engine) engine->access(p, n, true); }
CT_ACCESS(1) CT_ACCESS(2) CT_ACCESS(4) CT_ACCESS(8) CT_ACCESS(16)
extern "C" CT_UNWATCHED void __tsan_read_range(void *p, u64 n) { if (engine) engine->access(p, n, false); }
extern "C" CT_UNWATCHED void __tsan_write_range(void *p, u64 n) { if (engine) engine->access(p, n, true); }
extern "C" CT_UNWATCHED void __tsan_func_entry(void *) {}
extern "C" CT_UNWATCHED void __tsan_func_exit() {}
extern "C" CT_UNWATCHED void __tsan_init() {}
#endif
template <size_t...> struct Indices {};
template <class T> struct Same { using type = T; };
template <class T> using identity = typename Same<T>::type;

// Unpacks the parameters of a launch. A thread of the block is one call, so its `return` ends that thread only.
template <auto K> struct Entry {
  static Symbol symbol(const char *name) { return {name, nullptr, nullptr, (void *)K, sizeof(*K)}; }
};
template <class... A, void (*K)(A...)> struct Entry<K> {
  static_assert((sizeof(A) + ... + 0) <= 32764, "kernel parameters take more than 32,764 bytes");
  static constexpr u64 sizes[] = {sizeof(A)..., 0};
  template <size_t... I> static void loop(void **p, Indices<I...>) {
    while (engine->next_thread()) K(*(A *)p[I]...);
  }
  static void run(void **p) { loop(p, Indices<__integer_pack(sizeof...(A))...>{}); }
  static Symbol symbol(const char *name) { return {name, run, sizes, nullptr, 0}; }
};
template <class To, class From> static inline To bits(From from) {
  To to{};
  __builtin_memcpy(&to, &from, sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
  return to;
}
template <class T> static inline T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 64 bits");
  return bits<T>(engine->collective(mask, bits<u64>(value), source));
}
CT_F(int lane(), (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31)
// Winitzki's approximation, then Halley steps on erf or erfc, whichever has the relative accuracy.
static inline double inverse_erf(double x, double q) {  // x = erf(result) >= 0, q = 1 - x
  if (!(q > 0)) return q == 0 ? __builtin_inf() : __builtin_nan("");
  double l = __builtin_log(q * (1 + x)), t = 4.330746750799873 + l / 2;
  double y = __builtin_sqrt(__builtin_sqrt(t * t - l / 0.147) - t);
  for (int i = 0; i < 3; i++) {
    double error = x < 0.5 ? __builtin_erf(y) - x : q - __builtin_erfc(y);
    double step = error / (1.1283791670955126 * __builtin_exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}
static inline double bessel_i(int order, double x) {
  double term = order ? x / 2 : 1, sum = term;
  for (int k = 1; k < 2000 && term * 1e18 > sum; k++) sum += term *= x * x / 4 / (k * double(k + order));
  return sum;
}
}  // namespace cusim

// Barriers, warp collectives, atomics.
#define __syncthreads() ((void)cusim::engine->barrier(__LINE__, false))
#define __syncthreads_count(p) ((int)cusim::engine->barrier(__LINE__, !!(p)))
#define __syncthreads_or(p) ((int)(cusim::engine->barrier(__LINE__, !!(p)) != 0))
#define __syncthreads_and(p) ((int)(cusim::engine->barrier(__LINE__, !(p)) == 0))
CT_F(unsigned __ballot_sync(unsigned mask, int p), cusim::engine->collective(mask, !!p, -1))
CT_F(int __any_sync(unsigned mask, int p), __ballot_sync(mask, p) != 0)
CT_F(int __all_sync(unsigned mask, int p), __ballot_sync(mask, !p) == 0)
CT_F(void __syncwarp(unsigned mask = ~0u), (void)__ballot_sync(mask, 0))
CT_F(unsigned __activemask(), cusim::engine->live_lanes())
#define CT_SHUFFLE(name, A, source, valid)                                                                    \
  template <class T> static inline T __shfl##name##_sync(unsigned mask, T v, A given, int width = 32) {       \
    int lane = cusim::lane(), in = lane & (width - 1), a = given;                                             \
    return cusim::shuffle(mask, v, (valid) ? (source) : lane);                                                \
  }
CT_SHUFFLE(, int, lane - in + (a & (width - 1)), true) CT_SHUFFLE(_up, unsigned, lane - a, in >= a)
CT_SHUFFLE(_down, unsigned, lane + a, in + a < width) CT_SHUFFLE(_xor, int, lane ^ a, (lane ^ a) < lane - in + width)
#define CT_WARP_FOLD(name, T0, start, expression)                                                             \
  template <class T> static inline T0 name(unsigned mask, T v) {                                              \
    unsigned live = __ballot_sync(mask, 1);                                                                   \
    T0 a = start;                                                                                             \
    for (int i = 0; i < 32; i++) {                                                                            \
      T b = cusim::shuffle(mask, v, i);                                                                       \
      if (live >> i & 1) a = expression;                                                                      \
    }                                                                                                         \
    return a;                                                                                                 \
  }
CT_WARP_FOLD(__match_any_sync, unsigned, 0, a | unsigned(b == v) << i) CT_WARP_FOLD(__reduce_add_sync, T, 0, a + b)
CT_WARP_FOLD(__reduce_min_sync, T, v, a < b ? a : b) CT_WARP_FOLD(__reduce_max_sync, T, v, a < b ? b : a)
CT_WARP_FOLD(__reduce_and_sync, T, v, a & b) CT_WARP_FOLD(__reduce_or_sync, T, v, a | b)
CT_WARP_FOLD(__reduce_xor_sync, T, 0, a ^ b)
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}
CT_F(long long clock64(), __builtin_ia32_rdtsc())
CT_F(void __trap(), cusim::engine->trap("__trap()"))
#define assert(x) ((x) ? (void)0 : cusim::engine->trap("assertion failed: " #x))
// Blocks run one after another and fibers switch at barriers and collectives only, so plain accesses are atomic.
#define CT_ATOMIC(name, expression)                                                                           \
  template <class T> CT_UNWATCHED static inline T atomic##name(T *p, cusim::identity<T> v) {                               \
    T old = *p;                                                                                               \
    return *p = expression, old;                                                                              \
  }
CT_ATOMIC(Add, old + v) CT_ATOMIC(Sub, old - v) CT_ATOMIC(Exch, v) CT_ATOMIC(Min, v < old ? v : old)
CT_ATOMIC(Max, old < v ? v : old) CT_ATOMIC(And, old & v) CT_ATOMIC(Or, old | v) CT_ATOMIC(Xor, old ^ v)
CT_ATOMIC(Inc, old >= v ? 0 : old + 1) CT_ATOMIC(Dec, old == 0 || old > v ? v : old - 1)
template <class T> CT_UNWATCHED static inline T atomicCAS(T *p, cusim::identity<T> expected, cusim::identity<T> desired) {
  T old = *p;
  return *p = old == expected ? desired : old, old;
}
#define CT_LOAD(name) template <class T> CT_F(T name(const T *p), *p)
#define CT_STORE(name) template <class T> CT_F(void name(T *p, cusim::identity<T> v), (void)(*p = v))
CT_LOAD(__ldg) CT_LOAD(__ldca) CT_LOAD(__ldcg) CT_LOAD(__ldcs) CT_LOAD(__ldlu) CT_LOAD(__ldcv)
CT_STORE(__stwb) CT_STORE(__stcg) CT_STORE(__stcs) CT_STORE(__stwt)

// Bits and integers.
using ct_ull = unsigned long long;
CT_F(float __int_as_float(int x), cusim::bits<float>(x)) CT_F(float __uint_as_float(unsigned x), cusim::bits<float>(x))
CT_F(int __float_as_int(float x), cusim::bits<int>(x)) CT_F(unsigned __float_as_uint(float x), cusim::bits<unsigned>(x))
CT_F(double __longlong_as_double(long long x), cusim::bits<double>(x))
CT_F(long long __double_as_longlong(double x), cusim::bits<long long>(x))
CT_F(double __hiloint2double(int h, int l), cusim::bits<double>((ct_ull)(unsigned)h << 32 | (unsigned)l))
CT_F(int __double2hiint(double x), __double_as_longlong(x) >> 32)
CT_F(int __double2loint(double x), __double_as_longlong(x))
CT_F(unsigned __umulhi(unsigned a, unsigned b), (ct_ull)a * b >> 32)
CT_F(int __mulhi(int a, int b), (long long)a * b >> 32)
CT_F(ct_ull __umul64hi(ct_ull a, ct_ull b), (unsigned __int128)a * b >> 64)
CT_F(long long __mul64hi(long long a, long long b), (__int128)a * b >> 64)
CT_F(int __clz(int x), x ? __builtin_clz(x) : 32) CT_F(int __clzll(long long x), x ? __builtin_clzll(x) : 64)
CT_F(int __ffs(int x), __builtin_ffs(x)) CT_F(int __ffsll(long long x), __builtin_ffsll(x))
CT_F(int __popc(unsigned x), __builtin_popcount(x)) CT_F(int __popcll(ct_ull x), __builtin_popcountll(x))
static inline ct_ull __brevll(ct_ull x) {
  x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
  x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
  return __builtin_bswap64((x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4);
}
CT_F(unsigned __brev(unsigned x), __brevll(x) >> 32)
CT_F(unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n), (((ct_ull)hi << 32 | lo) << (n & 31)) >> 32)
CT_F(unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n), ((ct_ull)hi << 32 | lo) >> (n & 31))
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= unsigned(((ct_ull)b << 32 | a) >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
  return c;
}
#define CT_MINMAX(T) CT_F(T min(T a, T b), a < b ? a : b) CT_F(T max(T a, T b), a < b ? b : a)
#define CT_INTEGER(T) CT_MINMAX(T) CT_F(T abs(T x), x < 0 ? -x : x)
CT_INTEGER(int) CT_INTEGER(long) CT_INTEGER(long long) CT_MINMAX(unsigned) CT_MINMAX(unsigned long) CT_MINMAX(ct_ull)
CT_F(unsigned min(int a, unsigned b), min((unsigned)a, b)) CT_F(unsigned min(unsigned a, int b), min(a, (unsigned)b))
CT_F(unsigned max(int a, unsigned b), max((unsigned)a, b)) CT_F(unsigned max(unsigned a, int b), max(a, (unsigned)b))
CT_F(long long llabs(long long x), abs(x))

// Floating point: the C library's functions, and an overload for float of each name for double.
#define CT_MATH1(name) extern "C" double name(double); extern "C" float name##f(float); CT_F(float name(float x), name##f(x))
#define CT_MATH2(name) extern "C" double name(double, double); extern "C" float name##f(float, float); \
  CT_F(float name(float x, float y), name##f(x, y))
CT_MATH1(sin) CT_MATH1(cos) CT_MATH1(tan) CT_MATH1(asin) CT_MATH1(acos) CT_MATH1(atan) CT_MATH1(sinh) CT_MATH1(cosh)
CT_MATH1(tanh) CT_MATH1(asinh) CT_MATH1(acosh) CT_MATH1(atanh) CT_MATH1(exp) CT_MATH1(exp2) CT_MATH1(exp10)
CT_MATH1(expm1) CT_MATH1(log) CT_MATH1(log2) CT_MATH1(log10) CT_MATH1(log1p) CT_MATH1(logb) CT_MATH1(sqrt)
CT_MATH1(cbrt) CT_MATH1(fabs) CT_MATH1(floor) CT_MATH1(ceil) CT_MATH1(trunc) CT_MATH1(round) CT_MATH1(rint)
CT_MATH1(nearbyint) CT_MATH1(erf) CT_MATH1(erfc) CT_MATH1(lgamma) CT_MATH1(tgamma) CT_MATH1(j0) CT_MATH1(j1)
CT_MATH1(y0) CT_MATH1(y1) CT_MATH2(pow) CT_MATH2(fmod) CT_MATH2(remainder) CT_MATH2(hypot) CT_MATH2(atan2)
CT_MATH2(fmax) CT_MATH2(fmin) CT_MATH2(copysign) CT_MATH2(nextafter) CT_MATH2(fdim)
// Functions that the C library lacks, computed in double.
#define CT_MISSING(name, expression) CT_F(double name(double x), expression) CT_F(float name##f(float x), name((double)x)) \
  CT_F(float name(float x), name((double)x))
CT_MISSING(rsqrt, 1 / sqrt(x)) CT_MISSING(rcbrt, 1 / cbrt(x))
CT_MISSING(erfinv, copysign(cusim::inverse_erf(fabs(x), 1 - fabs(x)), x))
CT_MISSING(erfcinv, x <= 1 ? cusim::inverse_erf(1 - x, x) : -cusim::inverse_erf(x - 1, 2 - x))
CT_MISSING(normcdf, erfc(x * -0.7071067811865476) / 2) CT_MISSING(normcdfinv, -1.4142135623730951 * erfcinv(2 * x))
CT_F(double ct_erfcx_tail(double y), 1 - 0.5 * y * (1 - 1.5 * y * (1 - 2.5 * y * (1 - 3.5 * y * (1 - 4.5 * y)))))
CT_MISSING(erfcx, x < 25 ? exp(x * x) * erfc(x) : 0.5641895835477563 / x * ct_erfcx_tail(1 / (x * x)))
CT_MISSING(sinpi, sin(3.141592653589793 * remainder(x, 2.0))) CT_MISSING(cospi, cos(3.141592653589793 * remainder(x, 2.0)))
CT_MISSING(cyl_bessel_i0, cusim::bessel_i(0, x)) CT_MISSING(cyl_bessel_i1, cusim::bessel_i(1, x))
#define CT_REAL(T, s)                                                                                         \
  extern "C" T fma##s(T, T, T), ldexp##s(T, int), scalbn##s(T, int), frexp##s(T, int *), modf##s(T, T *);     \
  extern "C" int ilogb##s(T);                                                                                 \
  extern "C" long lrint##s(T), lround##s(T);                                                                  \
  extern "C" long long llrint##s(T), llround##s(T);                                                           \
  CT_F(bool isnan(T x), __builtin_isnan(x)) CT_F(bool isinf(T x), __builtin_isinf(x))                         \
  CT_F(bool isfinite(T x), __builtin_isfinite(x)) CT_F(bool signbit(T x), __builtin_signbit(x))               \
  CT_F(T abs(T x), fabs(x)) CT_F(T min(T a, T b), fmin(a, b)) CT_F(T max(T a, T b), fmax(a, b))               \
  CT_F(T rhypot##s(T x, T y), 1 / hypot(x, y))                                                                \
  CT_F(void sincos##s(T x, T *a, T *b), (void)(*a = sin(x), *b = cos(x)))                                     \
  CT_F(void sincospi##s(T x, T *a, T *b), (void)(*a = sinpi(x), *b = cospi(x)))
CT_REAL(double, ) CT_REAL(float, f)
CT_F(float fma(float a, float b, float c), fmaf(a, b, c)) CT_F(float __fmaf_rn(float a, float b, float c), fmaf(a, b, c))
CT_F(double __fma_rn(double a, double b, double c), fma(a, b, c)) CT_F(float ldexp(float x, int n), ldexpf(x, n))
CT_F(float frexp(float x, int *n), frexpf(x, n)) CT_F(float modf(float x, float *n), modff(x, n))
#define CT_FAST(name, expression) CT_F(float name(float x), expression)
CT_FAST(__expf, expf(x)) CT_FAST(__exp10f, exp10f(x)) CT_FAST(__logf, logf(x)) CT_FAST(__log2f, log2f(x))
CT_FAST(__log10f, log10f(x)) CT_FAST(__sinf, sinf(x)) CT_FAST(__cosf, cosf(x)) CT_FAST(__tanf, tanf(x))
CT_FAST(__frcp_rn, 1 / x) CT_FAST(__fsqrt_rn, sqrtf(x)) CT_FAST(__frsqrt_rn, rsqrtf(x))
CT_FAST(__saturatef, x > 0 ? fminf(x, 1) : 0)
CT_F(float __powf(float x, float y), powf(x, y)) CT_F(float __fdividef(float x, float y), x / y)
#define CT_ROUNDED(name, op) CT_F(float __f##name##_rn(float x, float y), x op y) \
  CT_F(double __d##name##_rn(double x, double y), x op y)
CT_ROUNDED(add, +) CT_ROUNDED(sub, -) CT_ROUNDED(mul, *) CT_ROUNDED(div, /)
// Conversions saturate and take NaN to zero, as the hardware's do.
template <class I, class F> CT_F(I ct_convert(F x, I low, I high), isnan(x) ? 0 : x <= (F)low ? low : x >= (F)high ? high : (I)x)
#define CT_CONVERT(mode, round)                                                                               \
  CT_F(int __float2int_##mode(float x), ct_convert<int>(round(x), -__INT_MAX__ - 1, __INT_MAX__))             \
  CT_F(int __double2int_##mode(double x), ct_convert<int>(round(x), -__INT_MAX__ - 1, __INT_MAX__))           \
  CT_F(unsigned __float2uint_##mode(float x), ct_convert<unsigned>(round(x), 0, ~0u))                         \
  CT_F(long long __float2ll_##mode(float x), ct_convert<long long>(round(x), -__LONG_LONG_MAX__ - 1, __LONG_LONG_MAX__))
CT_CONVERT(rn, rint) CT_CONVERT(rz, trunc) CT_CONVERT(rd, floor) CT_CONVERT(ru, ceil)
CT_F(float __int2float_rn(int x), x) CT_F(float __uint2float_rn(unsigned x), x) CT_F(float __double2float_rn(double x), x)
