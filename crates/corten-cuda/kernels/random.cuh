// Random numbers: Philox4x32-10 (Salmon et al. 2011), a subsequence for each thread, and the
// distributions as cuRAND makes them from its numbers.

namespace ct {

struct Quad { u32 v[4]; };

/// Block `block` of the subsequence: four numbers. In a graph, which is marked by the highest bit of the offset
/// that the block was counted from, the seed is the address of seed and offset of the replay.
CT_FN Quad philox(u64 seed, u64 subsequence, u64 block) {
    const u64 in_graph = (u64)1 << 61;
    if (block & in_graph) {
        const u64* words = reinterpret_cast<const u64*>(seed);
        block = block - in_graph + words[1] / 4, seed = words[0];
    }
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)subsequence, d = (u32)(subsequence >> 32);
    #pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 high0 = __umulhi(0xD2511F53u, a), low0 = 0xD2511F53u * a;
        u32 high1 = __umulhi(0xCD9E8D57u, c), low1 = 0xCD9E8D57u * c;
        a = high1 ^ b ^ k0, b = low1, c = high0 ^ d ^ k1, d = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return Quad{{a, b, c, d}};
}

#ifdef CT_SIM
CT_FN float fast_log(float x) { return logf(x); }
CT_FN float fast_exp(float x) { return expf(x); }
CT_FN float fast_tan(float x) { return tanf(x); }
CT_FN void fast_sincos(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
#else
CT_FN float fast_log(float x) { return __logf(x); }
CT_FN float fast_exp(float x) { return __expf(x); }
CT_FN float fast_tan(float x) { return __tanf(x); }
CT_FN void fast_sincos(float x, float* s, float* c) { __sincosf(x, s, c); }
#endif
CT_FN double fast_log(double x) { return ::log(x); }
CT_FN double fast_exp(double x) { return ::exp(x); }
CT_FN double fast_tan(double x) { return ::tan(x); }

/// Four numbers of a type from a block: two of 53 bits, four of 32 bits.
template <class A> struct Drawn;
template <> struct Drawn<float> {
    static const int COUNT = 4;
    /// Uniform over (0, 1].
    CT_FN static void uniform(Quad x, float* out) {
        #pragma unroll
        for (int i = 0; i < 4; i++) out[i] = fmaf((float)x.v[i], 2.3283064e-10f, 2.3283064e-10f / 2.0f);
    }
    /// Box and Muller 1958.
    CT_FN static void normal(Quad x, float* out) {
        const float turn = 2.3283064e-10f * 6.2831855f;
        #pragma unroll
        for (int i = 0; i < 4; i += 2) {
            float u = fmaf((float)x.v[i], 2.3283064e-10f, 2.3283064e-10f / 2.0f);
            float v = fmaf((float)x.v[i + 1], turn, turn / 2.0f), s, c;
            float size = sqrtf(-2.0f * logf(u));
            fast_sincos(v, &s, &c);
            out[i] = size * s, out[i + 1] = size * c;
        }
    }
};
template <> struct Drawn<double> {
    static const int COUNT = 2;
    CT_FN static double wide(u32 x, u32 y, int shift, double unit) {
        u64 bits = (u64)x ^ ((u64)y << shift);
        return fma((double)bits, unit, unit / 2.0);
    }
    CT_FN static void uniform(Quad x, double* out) {
        const double unit = 1.1102230246251565e-16;
        out[0] = wide(x.v[0], x.v[1], 21, unit), out[1] = wide(x.v[2], x.v[3], 21, unit);
    }
    CT_FN static void normal(Quad x, double* out) {
        const double unit = 1.1102230246251565e-16;
        double u = wide(x.v[0], x.v[1], 21, unit), v = wide(x.v[2], x.v[3], 21, unit * 2.0);
        double size = ::sqrt(-2.0 * ::log(u));
        out[0] = size * ::sin(v * 3.141592653589793), out[1] = size * ::cos(v * 3.141592653589793);
    }
};

enum Distribution { UNIFORM, NORMAL, BERNOULLI, EXPONENTIAL, GEOMETRIC, CAUCHY, LOG_NORMAL, INTEGER32, INTEGER64 };

/// What numbers are made into: two parameters, or a range and a base.
struct Made {
    double a, b;
    u64 range;
    i64 base;
};

/// A number as an element.
template <class S, class A, u32 KIND> CT_FN S made(A x, const Made& made) {
    A a = (A)made.a, b = (A)made.b;
    if constexpr (KIND == UNIFORM) {
        // From (0, 1] to [from, to): the upper bound becomes the lower one.
        A from = to<A>(widen(narrow<S>(a))), end = to<A>(widen(narrow<S>(b)));
        A range = to<A>(widen(narrow<S>(end - from)));
        S value = narrow<S>(mul_add(x, range, from));
        return to<A>(widen(value)) == end ? narrow<S>(from) : value;
    } else if constexpr (KIND == NORMAL) {
        return narrow<S>(mul_add(x, b, a));
    } else if constexpr (KIND == BERNOULLI) {
        return narrow<S>(Truth(x < a));
    } else if constexpr (KIND == EXPONENTIAL) {
        // The logarithm stays below zero, also where the fast one would not.
        const A half = sizeof(A) == 4 ? (A)5.9604644775390625e-8 : (A)1.1102230246251565e-16;
        A logarithm = x >= (A)1 - half ? -half : fast_log(x);
        return narrow<S>((A)-1 / a * logarithm);
    } else if constexpr (KIND == GEOMETRIC) {
        return narrow<S>(ceil(fast_log(x) / fast_log((A)1 - a)));
    } else if constexpr (KIND == CAUCHY) {
        if constexpr (sizeof(A) == 4) {
            // The tangent does not reach infinity.
            const A least = (A)1.1920929e-7;
            x = x > (A)1 - least ? (A)1 - least : x < least ? least : x;
        }
        return narrow<S>(a + b * fast_tan((A)3.14159265358979323846 * (x - (A)0.5)));
    } else {
        return narrow<S>(fast_exp(mul_add(x, b, a)));
    }
}

template <class S> CT_FN void put_drawn(char* out, const Geometry<1>& walk, u32 dense, u64 i, S value) {
    i64 offset[1] = {0};
    if (dense) offset[0] = (i64)(i * sizeof(S));
    else offsets(walk, (u32)i, offset);
    *reinterpret_cast<S*>(out + offset[0]) = value;
}

/// Fills a tensor: thread t has subsequence t, and a block of numbers is for elements that are a grid
/// apart.
template <class S, class A, u32 KIND>
__global__ void draw(u64 n, char* out, Geometry<1> walk, u32 dense, u64 seed, u64 offset, Made numbers) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, grid = (u64)gridDim.x * blockDim.x;
    u64 block = offset / 4;
    const int COUNT = KIND == INTEGER32 ? 4 : KIND == INTEGER64 ? 2 : Drawn<A>::COUNT;
    for (u64 first = thread; first < n; first += grid * COUNT, block++) {
        Quad x = philox(seed, thread, block);
        if constexpr (KIND == INTEGER32 || KIND == INTEGER64) {
            #pragma unroll
            for (int k = 0; k < COUNT; k++) {
                u64 word = KIND == INTEGER32 ? x.v[k] : (u64)x.v[2 * k % 4] << 32 | x.v[(2 * k + 1) % 4];
                // The range of all words has no number of its own.
                if (numbers.range) word %= numbers.range;
                u64 i = first + k * grid;
                if (i < n) put_drawn<S>(out, walk, dense, i, narrow<S>(Int<i64>((i64)(word + (u64)numbers.base))));
            }
        } else {
            A y[COUNT];
            if constexpr (KIND == NORMAL || KIND == LOG_NORMAL) Drawn<A>::normal(x, y);
            else Drawn<A>::uniform(x, y);
            #pragma unroll
            for (int k = 0; k < COUNT; k++) {
                u64 i = first + k * grid;
                if (i < n) put_drawn<S>(out, walk, dense, i, made<S, A, KIND>(y[k], numbers));
            }
        }
    }
}

/// Ones with the probability that lies at the place, four neighbours per thread: operands are the result
/// and the probabilities.
template <class S, class P>
__global__ void bernoulli_of(u32 n, Pointers<2> at, Geometry<2> walk, u64 seed, u64 offset, u32* failure) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread * 4 >= n) return;
    float y[4];
    Drawn<float>::uniform(philox(seed, thread, offset / 4), y);
    for (u32 k = 0; k < 4; k++) {
        u32 i = (u32)thread * 4 + k;
        if (i >= n) return;
        i64 offset[2];
        offsets(walk, i, offset);
        auto p = widen(*reinterpret_cast<const P*>(at.at[1] + offset[1]));
        if (!(p >= 0 && p <= 1)) { *failure = 2; return; }
        *reinterpret_cast<S*>(at.at[0] + offset[0]) = narrow<S>(Truth(y[k] <= p));
    }
}

/// Sampling with replacement from the running sums of rows: a sample is the first category whose sum
/// reaches a uniform number.
template <class V>
__global__ void sample_rows(i64* out, const V* sums, u64 rows, u64 categories, u64 samples, u64 seed, u64 offset) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, grid = (u64)gridDim.x * blockDim.x;
    u64 block = offset / 4, n = rows * samples;
    for (u64 i = thread; i < n; i += grid, block++) {
        V y[4];
        Drawn<V>::uniform(philox(seed, thread, block), y);
        const V* line = sums + i / samples * categories;
        V wanted = y[0] * line[categories - 1];
        u64 low = 0, high = categories - 1;
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (line[middle] >= wanted) high = middle;
            else low = middle + 1;
        }
        // A category of no weight is never chosen.
        while (low > 0 && line[low] == line[low - 1]) low--;
        out[i] = (i64)low;
    }
}

}  // namespace ct
