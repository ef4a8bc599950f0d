// The prelude of emulated kernel text: CUDA C++'s qualifiers, built-in variables and device functions as g++
// understands them. Includes nothing, so that a small module compiles in a tenth of a second.
#define CT_SIM 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// Static shared memory is the thread-local segment of the module: the driver poisons it before each block.
#define __shared__ static thread_local
#define CT_DYN_SMEM(T, name) T *name = (T *)cusim::dynamic_shared

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define CT_VECTOR(T, name, a1, a2, a4)                                                                    \
  struct __align__(a1) name##1 { T x; };                                                                  \
  struct __align__(a2) name##2 { T x, y; };                                                               \
  struct name##3 { T x, y, z; };                                                                          \
  struct __align__(a4) name##4 { T x, y, z, w; };                                                         \
  static inline name##1 make_##name##1(T x) { return {x}; }                                               \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                       \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                               \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CT_VECTOR(signed char, char, 1, 2, 4)
CT_VECTOR(unsigned char, uchar, 1, 2, 4)
CT_VECTOR(short, short, 2, 4, 8)
CT_VECTOR(unsigned short, ushort, 2, 4, 8)
CT_VECTOR(int, int, 4, 8, 16)
CT_VECTOR(unsigned, uint, 4, 8, 16)
CT_VECTOR(long, long, 8, 16, 16)
CT_VECTOR(unsigned long, ulong, 8, 16, 16)
CT_VECTOR(long long, longlong, 8, 16, 16)
CT_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
CT_VECTOR(float, float, 4, 8, 16)
CT_VECTOR(double, double, 8, 16, 16)
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

extern "C" {
int printf(const char *, ...);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
}

namespace cusim {
static const Engine *engine;
static void *dynamic_shared;
static thread_local char shared_anchor;
extern "C" __attribute__((visibility("default"))) Builtins ct_builtins = {
    &threadIdx.x, &blockIdx.x, &blockDim.x, &gridDim.x, &dynamic_shared, &engine, [] {
      *(volatile char *)&shared_anchor = 0;
    }};

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
static inline int lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}
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

#define __syncthreads() ((void)cusim::engine->barrier(__LINE__, false))
#define __syncthreads_count(p) ((int)cusim::engine->barrier(__LINE__, !!(p)))
#define __syncthreads_or(p) ((int)(cusim::engine->barrier(__LINE__, !!(p)) != 0))
#define __syncthreads_and(p) ((int)(cusim::engine->barrier(__LINE__, !(p)) == 0))
static inline void __syncwarp(unsigned mask = ~0u) { cusim::engine->collective(mask, 0, -1); }
static inline unsigned __ballot_sync(unsigned mask, int p) { return cusim::engine->collective(mask, !!p, -1); }
static inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
static inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
static inline unsigned __activemask() { return cusim::engine->live_lanes(); }
template <class T> static inline T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  return cusim::shuffle(mask, v, (cusim::lane() & -width) + (source & (width - 1)));
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  int lane = cusim::lane(), in = lane & (width - 1);
  return cusim::shuffle(mask, v, in < (int)delta ? lane : lane - (int)delta);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  int lane = cusim::lane(), in = lane & (width - 1);
  return cusim::shuffle(mask, v, in + (int)delta >= width ? lane : lane + (int)delta);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
  int lane = cusim::lane(), source = lane ^ bits;
  return cusim::shuffle(mask, v, source >= (lane & -width) + width ? lane : source);
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T v) {
  unsigned same = 0;
  for (int i = 0; i < 32; i++) {
    T other = cusim::shuffle(mask, v, i);
    same |= unsigned(mask >> i & 1 && other == v) << i;
  }
  return same & __ballot_sync(mask, 1);
}
#define CT_WARP_REDUCE(name, expression)                                              \
  template <class T> static inline T name(unsigned mask, T v) {                       \
    unsigned live = __ballot_sync(mask, 1);                                           \
    T a = cusim::shuffle(mask, v, __builtin_ctz(live));                               \
    for (int i = __builtin_ctz(live) + 1; i < 32; i++) {                              \
      T b = cusim::shuffle(mask, v, i);                                               \
      if (live >> i & 1) a = expression;                                              \
    }                                                                                 \
    return a;                                                                         \
  }
CT_WARP_REDUCE(__reduce_add_sync, a + b)
CT_WARP_REDUCE(__reduce_min_sync, a < b ? a : b)
CT_WARP_REDUCE(__reduce_max_sync, a < b ? b : a)
CT_WARP_REDUCE(__reduce_and_sync, a & b)
CT_WARP_REDUCE(__reduce_or_sync, a | b)
CT_WARP_REDUCE(__reduce_xor_sync, a ^ b)

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}
static inline long long clock64() { return __builtin_ia32_rdtsc(); }
static inline void __trap() { cusim::engine->trap("__trap()"); }
#define assert(x) ((x) ? (void)0 : cusim::engine->trap("assertion failed: " #x))

// Blocks run one after another and fibers switch at barriers and collectives only: plain loads and stores are atomic.
#define CT_ATOMIC(name, expression)                                                   \
  template <class T> static inline T atomic##name(T *p, cusim::identity<T> v) {       \
    T old = *p;                                                                       \
    *p = expression;                                                                  \
    return old;                                                                       \
  }                                                                                   \
  template <class T> static inline T atomic##name##_block(T *p, cusim::identity<T> v) { return atomic##name(p, v); }
CT_ATOMIC(Add, old + v)
CT_ATOMIC(Sub, old - v)
CT_ATOMIC(Exch, v)
CT_ATOMIC(Min, v < old ? v : old)
CT_ATOMIC(Max, old < v ? v : old)
CT_ATOMIC(And, old &v)
CT_ATOMIC(Or, old | v)
CT_ATOMIC(Xor, old ^ v)
CT_ATOMIC(Inc, old >= v ? 0 : old + 1)
CT_ATOMIC(Dec, old == 0 || old > v ? v : old - 1)
template <class T> static inline T atomicCAS(T *p, cusim::identity<T> expected, cusim::identity<T> desired) {
  T old = *p;
  if (old == expected) *p = desired;
  return old;
}
#define CT_LOAD(name) template <class T> static inline T name(const T *p) { return *p; }
#define CT_STORE(name) template <class T> static inline void name(T *p, cusim::identity<T> v) { *p = v; }
CT_LOAD(__ldg) CT_LOAD(__ldca) CT_LOAD(__ldcg) CT_LOAD(__ldcs) CT_LOAD(__ldlu) CT_LOAD(__ldcv)
CT_STORE(__stwb) CT_STORE(__stcg) CT_STORE(__stcs) CT_STORE(__stwt)

// Bits and integers.
static inline float __int_as_float(int x) { return cusim::bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return cusim::bits<float>(x); }
static inline int __float_as_int(float x) { return cusim::bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return cusim::bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return cusim::bits<double>(x); }
static inline long long __double_as_longlong(double x) { return cusim::bits<long long>(x); }
static inline double __hiloint2double(int h, int l) {
  return cusim::bits<double>((unsigned long long)(unsigned)h << 32 | (unsigned)l);
}
static inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned __int128)a * b >> 64;
}
static inline long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline unsigned long long __brevll(unsigned long long x) {
  x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
  x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
  return __builtin_bswap64(x);
}
static inline unsigned __brev(unsigned x) { return __brevll(x) >> 32; }
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return (((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32;
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return ((unsigned long long)hi << 32 | lo) >> (n & 31);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= unsigned(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
  return c;
}
#define CT_MINMAX(T)                                            \
  static inline T min(T a, T b) { return a < b ? a : b; }       \
  static inline T max(T a, T b) { return a < b ? b : a; }
CT_MINMAX(int) CT_MINMAX(unsigned) CT_MINMAX(long) CT_MINMAX(unsigned long)
CT_MINMAX(long long) CT_MINMAX(unsigned long long)
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
static inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
static inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
static inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
static inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }

// Floating point: the C library's functions, and an overload for float of each name for double.
#define CT_MATH1(name) extern "C" double name(double); extern "C" float name##f(float); \
  static inline float name(float x) { return name##f(x); }
#define CT_MATH2(name) extern "C" double name(double, double); extern "C" float name##f(float, float); \
  static inline float name(float x, float y) { return name##f(x, y); }
CT_MATH1(sin) CT_MATH1(cos) CT_MATH1(tan) CT_MATH1(asin) CT_MATH1(acos) CT_MATH1(atan) CT_MATH1(sinh)
CT_MATH1(cosh) CT_MATH1(tanh) CT_MATH1(asinh) CT_MATH1(acosh) CT_MATH1(atanh) CT_MATH1(exp) CT_MATH1(exp2)
CT_MATH1(exp10) CT_MATH1(expm1) CT_MATH1(log) CT_MATH1(log2) CT_MATH1(log10) CT_MATH1(log1p) CT_MATH1(logb)
CT_MATH1(sqrt) CT_MATH1(cbrt) CT_MATH1(fabs) CT_MATH1(floor) CT_MATH1(ceil) CT_MATH1(trunc) CT_MATH1(round)
CT_MATH1(rint) CT_MATH1(nearbyint) CT_MATH1(erf) CT_MATH1(erfc) CT_MATH1(lgamma) CT_MATH1(tgamma) CT_MATH1(j0)
CT_MATH1(j1) CT_MATH1(y0) CT_MATH1(y1)
CT_MATH2(pow) CT_MATH2(fmod) CT_MATH2(remainder) CT_MATH2(hypot) CT_MATH2(atan2) CT_MATH2(fmax) CT_MATH2(fmin)
CT_MATH2(copysign) CT_MATH2(nextafter) CT_MATH2(fdim)
// Functions that the C library lacks, from an expression in double.
#define CT_DERIVED1(name, expression) static inline double name(double x) { return expression; } \
  static inline float name##f(float y) { double x = y; return expression; } \
  static inline float name(float x) { return name##f(x); }
static inline double erfinv_signed(double x) { return copysign(cusim::inverse_erf(fabs(x), 1 - fabs(x)), x); }
static inline double erfcinv_wide(double q) {
  return q <= 1 ? cusim::inverse_erf(1 - q, q) : -cusim::inverse_erf(q - 1, 2 - q);
}
CT_DERIVED1(rsqrt, 1 / sqrt(x)) CT_DERIVED1(rcbrt, 1 / cbrt(x)) CT_DERIVED1(erfinv, erfinv_signed(x))
CT_DERIVED1(erfcinv, erfcinv_wide(x)) CT_DERIVED1(normcdf, erfc(x * -0.7071067811865476) / 2)
CT_DERIVED1(normcdfinv, -1.4142135623730951 * erfcinv_wide(2 * x))
CT_DERIVED1(erfcx, x < 25 ? exp(x * x) * erfc(x) : 0.5641895835477563 / x * (1 - 0.5 / x / x + 0.75 / (x * x) / (x * x)))
CT_DERIVED1(sinpi, sin(3.141592653589793 * remainder(x, 2.0))) CT_DERIVED1(cospi, cos(3.141592653589793 * remainder(x, 2.0)))
CT_DERIVED1(cyl_bessel_i0, cusim::bessel_i(0, x)) CT_DERIVED1(cyl_bessel_i1, cusim::bessel_i(1, x))
#define CT_REAL(T, s)                                                                              \
  extern "C" T fma##s(T, T, T), ldexp##s(T, int), scalbn##s(T, int), frexp##s(T, int *), modf##s(T, T *); \
  extern "C" int ilogb##s(T);                                                                      \
  extern "C" long lrint##s(T), lround##s(T);                                                       \
  extern "C" long long llrint##s(T), llround##s(T);                                                \
  static inline bool isnan(T x) { return __builtin_isnan(x); }                                     \
  static inline bool isinf(T x) { return __builtin_isinf(x); }                                     \
  static inline bool isfinite(T x) { return __builtin_isfinite(x); }                               \
  static inline bool signbit(T x) { return __builtin_signbit(x); }                                 \
  static inline T abs(T x) { return fabs(x); }                                                     \
  static inline void sincos##s(T x, T *a, T *b) { *a = sin(x), *b = cos(x); }                      \
  static inline void sincospi##s(T x, T *a, T *b) { *a = sinpi(x), *b = cospi(x); }                \
  static inline T rhypot##s(T x, T y) { return 1 / hypot(x, y); }
CT_REAL(double, ) CT_REAL(float, f)
static inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline float ldexp(float x, int n) { return ldexpf(x, n); }
static inline float frexp(float x, int *n) { return frexpf(x, n); }
static inline float modf(float x, float *n) { return modff(x, n); }
static inline int abs(int x) { return x < 0 ? -x : x; }
static inline long abs(long x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline long long llabs(long long x) { return abs(x); }
#define CT_FAST1(name, expression) static inline float name(float x) { return expression; }
CT_FAST1(__expf, expf(x)) CT_FAST1(__exp10f, exp10f(x)) CT_FAST1(__logf, logf(x)) CT_FAST1(__log2f, log2f(x))
CT_FAST1(__log10f, log10f(x)) CT_FAST1(__sinf, sinf(x)) CT_FAST1(__cosf, cosf(x)) CT_FAST1(__tanf, tanf(x))
CT_FAST1(__frcp_rn, 1 / x) CT_FAST1(__fsqrt_rn, sqrtf(x)) CT_FAST1(__frsqrt_rn, rsqrtf(x))
CT_FAST1(__saturatef, x > 0 ? fminf(x, 1) : 0)
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
#define CT_ROUNDED(name, op) static inline float __f##name##_rn(float x, float y) { return x op y; } \
  static inline double __d##name##_rn(double x, double y) { return x op y; }
CT_ROUNDED(add, +) CT_ROUNDED(sub, -) CT_ROUNDED(mul, *) CT_ROUNDED(div, /)
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
// Conversions saturate and take NaN to zero, as the hardware's do.
template <class I, class F> static inline I ct_convert(F x, I low, I high) {
  return isnan(x) ? 0 : x <= (F)low ? low : x >= (F)high ? high : (I)x;
}
#define CT_CONVERT(mode, round)                                                                              \
  static inline int __float2int_##mode(float x) { return ct_convert<int>(round(x), -2147483647 - 1, 2147483647); } \
  static inline unsigned __float2uint_##mode(float x) { return ct_convert<unsigned>(round(x), 0, ~0u); }       \
  static inline int __double2int_##mode(double x) { return ct_convert<int>(round(x), -2147483647 - 1, 2147483647); } \
  static inline long long __float2ll_##mode(float x) {                                                       \
    return ct_convert<long long>(round(x), -__LONG_LONG_MAX__ - 1, __LONG_LONG_MAX__);                       \
  }
CT_CONVERT(rn, rint) CT_CONVERT(rz, trunc) CT_CONVERT(rd, floor) CT_CONVERT(ru, ceil)
static inline float __int2float_rn(int x) { return x; }
static inline float __uint2float_rn(unsigned x) { return x; }
static inline float __double2float_rn(double x) { return x; }
