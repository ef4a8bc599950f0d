// Pointwise kernels: an expression over up to four inputs and some numbers, at any strides and dtypes.
//
// Op::apply<E>(x, s) is the expression over the value type E. Each operand has a storage type of its own:
// inputs are converted when they are loaded, the result when it is stored. Bit i of CONSTANTS says that
// input i is one element given with the parameters.

namespace ct {

const int MAX_DIMS = 16;

/// Division of numbers below 2^31 by multiplication (Granlund and Montgomery 1994).
struct Divider {
    u32 divisor, multiplier, shift;
    CT_FN u32 quotient(u32 n) const { return (u32)(((u64)__umulhi(n, multiplier) + n) >> shift); }
};

/// Sizes, fastest first, and the strides in bytes of N operands.
template <int N> struct Geometry {
    u32 dims;
    Divider sizes[MAX_DIMS];
    i32 strides[MAX_DIMS][N];
};

/// The bytes from the first element of each operand to element `i`.
template <int N> CT_FN void offsets(const Geometry<N>& geometry, u32 i, i64 (&result)[N]) {
    #pragma unroll
    for (int k = 0; k < N; k++) result[k] = 0;
    #pragma unroll 1
    for (u32 dim = 0; dim < geometry.dims; dim++) {
        u32 quotient = geometry.sizes[dim].quotient(i), rest = i - quotient * geometry.sizes[dim].divisor;
        i = quotient;
        #pragma unroll
        for (int k = 0; k < N; k++) result[k] += (i64)rest * geometry.strides[dim][k];
    }
}

/// The operands' first elements: the result, then the inputs.
template <int N> struct Pointers {
    char* at[N];
};

/// Numbers of the call in the value type, and inputs that are one element in their storage type.
struct Numbers {
    unsigned char values[4][16];
    unsigned char inputs[4][16];
};

template <class S, int W> struct __align__(sizeof(S) * W) Pack {
    S v[W];
};

template <class E> struct Values {
    E at[4];
    CT_FN explicit Values(const Numbers& numbers) {
        #pragma unroll
        for (int k = 0; k < 4; k++) at[k] = *reinterpret_cast<const E*>(numbers.values[k]);
    }
};

/// Any strides: one element per thread.
template <class Op, class E, u32 CONSTANTS, class Out, class... In>
__global__ void pointwise_strided(
    u32 n, Pointers<1 + sizeof...(In)> operands, Numbers numbers, Geometry<1 + sizeof...(In)> geometry
) {
    const int N = 1 + sizeof...(In);
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 offset[N];
    offsets(geometry, i, offset);
    Values<E> s(numbers);
    E x[N];
    int k = 0;
    (void)k;
    ((x[k] = to<E>(widen(*reinterpret_cast<const In*>(
          CONSTANTS >> k & 1 ? (const char*)numbers.inputs[k] : operands.at[k + 1] + offset[k + 1]))),
      k++), ...);
    *reinterpret_cast<Out*>(operands.at[0] + offset[0]) = narrow<Out>(Op::template apply<E>(x, s.at));
}

/// Elements from `first` on of dense operands that are aligned to W elements, W of them at most.
template <class Op, class E, u32 CONSTANTS, int W, class Out, class... In>
CT_FN void dense_pack(
    u64 n, u64 first, const Pointers<1 + sizeof...(In)>& operands, const Numbers& numbers, const E* s
) {
    const int N = 1 + sizeof...(In);
    E x[W][N];
    if (first + W <= n) {
        int k = 0;
        (void)k;
        (([&] {
             if (CONSTANTS >> k & 1) {
                 E constant = to<E>(widen(*reinterpret_cast<const In*>(numbers.inputs[k])));
                 #pragma unroll
                 for (int j = 0; j < W; j++) x[j][k] = constant;
             } else {
                 Pack<In, W> pack = reinterpret_cast<const Pack<In, W>*>(operands.at[k + 1])[first / W];
                 #pragma unroll
                 for (int j = 0; j < W; j++) x[j][k] = to<E>(widen(pack.v[j]));
             }
             k++;
         }()), ...);
        Pack<Out, W> result;
        #pragma unroll
        for (int j = 0; j < W; j++) result.v[j] = narrow<Out>(Op::template apply<E>(x[j], s));
        reinterpret_cast<Pack<Out, W>*>(operands.at[0])[first / W] = result;
        return;
    }
    for (u64 i = first; i < n; i++) {
        int k = 0;
        (void)k;
        ((x[0][k] = to<E>(widen(CONSTANTS >> k & 1 ? *reinterpret_cast<const In*>(numbers.inputs[k])
                                                   : reinterpret_cast<const In*>(operands.at[k + 1])[i])),
          k++), ...);
        reinterpret_cast<Out*>(operands.at[0])[i] = narrow<Out>(Op::template apply<E>(x[0], s));
    }
}

/// All operands dense in the order of the walk, aligned to W elements: W elements per thread.
template <class Op, class E, u32 CONSTANTS, int W, class Out, class... In>
__global__ void pointwise_dense(u64 n, Pointers<1 + sizeof...(In)> operands, Numbers numbers) {
    u64 first = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * W;
    if (first >= n) return;
    Values<E> s(numbers);
    dense_pack<Op, E, CONSTANTS, W, Out, In...>(n, first, operands, numbers, s.at);
}

const int MANY_PACKS = 4;

/// Up to K launches: elements and operands of each, the numbers of all or (if not SHARED) of each, and the
/// first block of each.
template <int N, int K, int SHARED> struct Many {
    u64 n[K];
    Pointers<N> operands[K];
    Numbers numbers[SHARED ? 1 : K];
    u32 first[K + 1], count;
};

/// Launches of `pointwise_dense` as one: a block takes MANY_PACKS packs per thread of one of them.
template <class Op, class E, u32 CONSTANTS, int W, int K, int SHARED, class Out, class... In>
__global__ void pointwise_many(Many<1 + sizeof...(In), K, SHARED> many) {
    u32 low = 0, high = many.count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (many.first[middle] <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Numbers& numbers = many.numbers[SHARED ? 0 : low];
    Values<E> s(numbers);
    u64 n = many.n[low], pack = (u64)(blockIdx.x - many.first[low]) * MANY_PACKS * blockDim.x + threadIdx.x;
    #pragma unroll
    for (int j = 0; j < MANY_PACKS; j++, pack += blockDim.x) {
        if (pack * W < n) {
            dense_pack<Op, E, CONSTANTS, W, Out, In...>(n, pack * W, many.operands[low], numbers, s.at);
        }
    }
}

// Expressions that the registry does not write: kernels of the CPU under the same names.

#define CT_OPERATOR(name, body) \
    struct name { template <class E> CT_FN static E apply(const E* x, const E* s) { return body; } };
CT_OPERATOR(Copy, x[0])
CT_OPERATOR(Fill, s[0])
CT_OPERATOR(Where, (to<Truth>(x[0]).v ? x[1] : x[2]))
CT_OPERATOR(Clamp, clamp(x[0], x[1], x[2]))
CT_OPERATOR(Power, pow(x[0], x[1]))
CT_OPERATOR(Square, x[0] * x[0])
CT_OPERATOR(Cube, x[0] * x[0] * x[0])
CT_OPERATOR(SquareRoot, sqrt(x[0]))
CT_OPERATOR(ReciprocalRoot, rsqrt(x[0]))
CT_OPERATOR(Reciprocal, reciprocal(x[0]))
CT_OPERATOR(ReciprocalSquare, reciprocal(x[0] * x[0]))
CT_OPERATOR(Rounded, round(x[0]))
CT_OPERATOR(RoundedToPart, (round(x[0] * s[0]) / s[0]))
CT_OPERATOR(RoundedToMultiple, (round(x[0] / s[0]) * s[0]))
CT_OPERATOR(Conjugate, conj(x[0]))
CT_OPERATOR(TrueQuotient, x[0] / x[1])
CT_OPERATOR(FloorQuotient, floor_divide(x[0], x[1]))
CT_OPERATOR(TruncQuotient, trunc_divide(x[0], x[1]))
CT_OPERATOR(Logit, log(x[0] / (lit<E>(1.0) - x[0])))
/// Between two numbers that are checked in this order, whichever is larger.
template <class E> CT_FN E limited(E x, E low, E high) { return lt(x, low) ? low : gt(x, high) ? high : x; }
CT_OPERATOR(LogitClamped, log(limited(x[0], s[0], s[1]) / (lit<E>(1.0) - limited(x[0], s[0], s[1]))))
CT_OPERATOR(Limited, limited(x[0], s[0], s[1]))
CT_OPERATOR(Identity, x[0])
CT_OPERATOR(NanToNum, (is_nan(x[0]) ? s[0] : eq(x[0], lit<E>(CT_INFINITY)) ? s[1]
                       : eq(x[0], lit<E>(-CT_INFINITY)) ? s[2] : x[0]))

// Activation functions. GELU is x Φ(x); with tanh after Hendrycks and Gimpel (2016).

template <class E> CT_FN E gelu_inner(E x) {
    return lit<E>(0.79788456080286535588) * (x + lit<E>(0.044715) * x * x * x);
}
template <class E> CT_FN E gelu_slope(E x) {
    E half = lit<E>(0.5), one = lit<E>(1.0), t = tanh(gelu_inner(x));
    E slope = lit<E>(0.79788456080286535588) * (one + lit<E>(3 * 0.044715) * x * x);
    return half * (one + t) + half * x * (one - t * t) * slope;
}
CT_OPERATOR(Gelu, x[0] * normal_cdf(x[0]))
CT_OPERATOR(GeluTanh, (lit<E>(0.5) * x[0] * (lit<E>(1.0) + tanh(gelu_inner(x[0])))))
CT_OPERATOR(GeluBackward, x[0] * (normal_cdf(x[1]) + x[1] * exp(x[1] * x[1] * lit<E>(-0.5)) * lit<E>(0.39894228040143267794)))
CT_OPERATOR(GeluTanhBackward, x[0] * gelu_slope(x[1]))
CT_OPERATOR(Softshrink, (gt(x[0], s[0]) ? x[0] - s[0] : lt(x[0], -s[0]) ? x[0] + s[0] : x[0] * lit<E>(0.0)))
CT_OPERATOR(LogSigmoid, (min(x[0], lit<E>(0.0)) - log1p(exp(-abs(x[0])))))
CT_OPERATOR(LogSigmoidBackward, (x[0] / (lit<E>(1.0) + exp(x[1]))))
CT_OPERATOR(PreluToSelf, (gt(x[1], lit<E>(0.0)) ? x[0] : x[2] * x[0]))
CT_OPERATOR(PreluToWeight, (gt(x[1], lit<E>(0.0)) ? lit<E>(0.0) : x[1] * x[0]))

}  // namespace ct
