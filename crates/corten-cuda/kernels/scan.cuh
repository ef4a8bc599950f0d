// Running sums, products and extrema along a dimension. A state is what the elements up to a place
// combine to; states are combined in a fixed order.

namespace ct {

enum Scanned { SUMS, PRODUCTS, LOG_SUMS, MAXIMA, MINIMA };

/// Logarithms of sums are accumulated in double precision, as on the CPU: where one element is much larger than
/// others, the gradient is a difference of what rounding leaves.
template <class V, u32 KIND> struct Scan {
    typedef typename choose<KIND == LOG_SUMS && is_same<V, float>::value, double, V>::type State;
    CT_FN static State none() {
        if constexpr (KIND == SUMS) return lit<State>(0.0);
        else if constexpr (KIND == PRODUCTS) return lit<State>(1.0);
        else return lit<State>(-CT_INFINITY);
    }
    CT_FN static State of(V x, i64) { return to<State>(x); }
    CT_FN static State combine(State a, State b) {
        if constexpr (KIND == SUMS) return a + b;
        else if constexpr (KIND == PRODUCTS) return a * b;
        else return log_add_exp(a, b);
    }
    template <class S> CT_FN static void store(State x, S* out, i64*) { *out = narrow<S>(x); }
};

/// An element and its position; of equal ones the last counts, and NaN from the first one on.
template <class V> struct Placed {
    V value;
    i64 at;
};
template <class V, bool LARGER> struct ScanExtremum {
    typedef Placed<V> State;
    CT_FN static State none() {
        State state;
        state.value = lit<V>(0.0), state.at = -1;
        return state;
    }
    CT_FN static State of(V x, i64 at) {
        State state;
        state.value = x, state.at = at;
        return state;
    }
    CT_FN static State combine(State a, State b) {
        if (a.at < 0) return b;
        if (b.at < 0) return a;
        bool later = is_nan(b.value) || (!is_nan(a.value) && (LARGER ? ge(b.value, a.value) : le(b.value, a.value)));
        return later ? b : a;
    }
    template <class S> CT_FN static void store(State x, S* out, i64* places) {
        *out = narrow<S>(x.value);
        *places = x.at;
    }
};
template <class V> struct Scan<V, MAXIMA> : ScanExtremum<V, true> {};
template <class V> struct Scan<V, MINIMA> : ScanExtremum<V, false> {};

const int SCAN_THREADS = 256, SCAN_ITEMS = 4;

/// What the chunks of lines combine to, or with `starts` the results. A block has a chunk of a line:
/// lines along x, chunks along y.
template <class S, class V, u32 KIND>
__global__ void scan_blocks(
    const S* in, S* out, i64* places, typename Scan<V, KIND>::State* totals, u64 length, u64 inner, u64 chunk,
    u32 writes
) {
    typedef Scan<V, KIND> Op;
    typedef typename Op::State State;
    __shared__ State shared[SCAN_THREADS];
    u32 thread = threadIdx.x;
    u64 line = blockIdx.x, part = blockIdx.y, first = line / inner * length * inner + line % inner;
    u64 begin = part * chunk, end = begin + chunk < length ? begin + chunk : length;
    State carry = writes && totals ? totals[line * gridDim.y + part] : Op::none();
    for (u64 tile = begin; tile < end; tile += SCAN_THREADS * SCAN_ITEMS) {
        u64 own = tile + (u64)thread * SCAN_ITEMS;
        State states[SCAN_ITEMS];
        #pragma unroll
        for (int k = 0; k < SCAN_ITEMS; k++) {
            u64 i = own + k;
            State state = i < end ? Op::of(to<V>(widen(in[first + i * inner])), (i64)i) : Op::none();
            states[k] = k ? Op::combine(states[k - 1], state) : state;
        }
        shared[thread] = states[SCAN_ITEMS - 1];
        __syncthreads();
        for (u32 distance = 1; distance < SCAN_THREADS; distance *= 2) {
            State sum = shared[thread];
            if (thread >= distance) sum = Op::combine(shared[thread - distance], sum);
            __syncthreads();
            shared[thread] = sum;
            __syncthreads();
        }
        State before = thread ? Op::combine(carry, shared[thread - 1]) : carry;
        State all = shared[SCAN_THREADS - 1];
        if (writes) {
            #pragma unroll
            for (int k = 0; k < SCAN_ITEMS; k++) {
                u64 i = own + k, at = first + i * inner;
                if (i < end) Op::store(Op::combine(before, states[k]), out + at, places ? places + at : places);
            }
        }
        carry = Op::combine(carry, all);
        __syncthreads();
    }
    if (!writes && thread == 0) totals[line * gridDim.y + part] = carry;
}

/// Replaces what chunks combine to by what all chunks before them do.
template <class V, u32 KIND>
__global__ void scan_starts(typename Scan<V, KIND>::State* totals, u64 lines, u32 parts) {
    typedef Scan<V, KIND> Op;
    u64 line = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    typename Op::State state = Op::none();
    for (u32 part = 0; part < parts; part++) {
        typename Op::State own = totals[line * parts + part];
        totals[line * parts + part] = state;
        state = Op::combine(state, own);
    }
}

/// A line per thread, for many lines side by side.
template <class S, class V, u32 KIND>
__global__ void scan_lines(const S* in, S* out, i64* places, u64 lines, u64 length, u64 inner) {
    typedef Scan<V, KIND> Op;
    u64 line = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    u64 at = line / inner * length * inner + line % inner;
    typename Op::State state = Op::none();
    for (u64 i = 0; i < length; i++, at += inner) {
        state = Op::combine(state, Op::of(to<V>(widen(in[at])), (i64)i));
        Op::store(state, out + at, places ? places + at : places);
    }
}

}  // namespace ct
