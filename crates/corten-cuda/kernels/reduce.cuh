// Reductions of any dimensions at any strides, in one pass or two, always in the same order.
//
// R is what is accumulated: start(), add(x, index), merge(other), and first(), second() for the results.
// INNER: the threads of a block's x go along the reduction (its elements are neighbours in memory);
// otherwise they go along the outputs, and those of y along the reduction. With more than one block in y
// the accumulators go to `partial`, and reduce_partials finishes. Every block adds in a fixed order, so
// that results do not change from run to run.

namespace ct {

struct ReduceShape {
    u64 outputs;      // numbers of results
    u64 steps;        // elements per result
    u64 chunk;        // elements per result and block
    double number;    // the order of a norm, the correction of a variance
};

template <class R, class E, bool INNER, class Out0, class Out1, class In>
__global__ void reduce(
    ReduceShape shape, Pointers<3> at, R* partial, Geometry<3> kept, Geometry<1> reduced, u32 direct
) {
    CT_DYN_SMEM(R, shared);
    u32 lane = INNER ? threadIdx.x : threadIdx.y, lanes = INNER ? blockDim.x : blockDim.y;
    u32 local = INNER ? threadIdx.y : threadIdx.x, width = INNER ? blockDim.y : blockDim.x;
    u64 output = (u64)blockIdx.x * width + local;
    bool exists = output < shape.outputs;
    i64 offset[3] = {0, 0, 0};
    if (exists) {
        if (kept.dims <= 1) {
            #pragma unroll
            for (int k = 0; k < 3; k++) offset[k] = (i64)output * kept.strides[0][k];
        } else {
            offsets(kept, (u32)output, offset);
        }
    }
    const char* base = at.at[2] + offset[2];
    u64 begin = shape.chunk * blockIdx.y, end = begin + shape.chunk;
    if (end > shape.steps) end = shape.steps;
    R mine;
    mine.start();
    if (exists) {
        i64 stride = reduced.strides[0][0];
        if (direct) {
            // Four loads are under way at a time.
            u64 i = begin + lane;
            for (; i + 3 * (u64)lanes < end; i += 4 * (u64)lanes) {
                In x[4];
                #pragma unroll
                for (int j = 0; j < 4; j++) {
                    x[j] = *reinterpret_cast<const In*>(base + (i64)(i + j * (u64)lanes) * stride);
                }
                #pragma unroll
                for (int j = 0; j < 4; j++) mine.add(to<E>(widen(x[j])), i + j * (u64)lanes, shape.number);
            }
            for (; i < end; i += lanes) {
                mine.add(to<E>(widen(*reinterpret_cast<const In*>(base + (i64)i * stride))), i, shape.number);
            }
        } else {
            for (u64 i = begin + lane; i < end; i += lanes) {
                i64 step[1];
                offsets(reduced, (u32)i, step);
                mine.add(to<E>(widen(*reinterpret_cast<const In*>(base + step[0]))), i, shape.number);
            }
        }
    }
    shared[local * lanes + lane] = mine;
    __syncthreads();
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        if (lane < half) {
            R merged = shared[local * lanes + lane];
            merged.merge(shared[local * lanes + lane + half]);
            shared[local * lanes + lane] = merged;
        }
        __syncthreads();
    }
    if (lane != 0 || !exists) return;
    R result = shared[local * lanes];
    if (gridDim.y > 1) {
        partial[(u64)blockIdx.y * shape.outputs + output] = result;
        return;
    }
    *reinterpret_cast<Out0*>(at.at[0] + offset[0]) = narrow<Out0>(result.first(shape));
    if (at.at[1]) *reinterpret_cast<Out1*>(at.at[1] + offset[1]) = narrow<Out1>(result.second(shape));
}

template <class R, class Out0, class Out1>
__global__ void reduce_partials(ReduceShape shape, Pointers<3> at, const R* partial, Geometry<3> kept, u32 parts) {
    u64 output = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (output >= shape.outputs) return;
    R result = partial[output];
    for (u32 part = 1; part < parts; part++) result.merge(partial[part * shape.outputs + output]);
    i64 offset[3] = {0, 0, 0};
    if (kept.dims <= 1) {
        for (int k = 0; k < 3; k++) offset[k] = (i64)output * kept.strides[0][k];
    } else {
        offsets(kept, (u32)output, offset);
    }
    *reinterpret_cast<Out0*>(at.at[0] + offset[0]) = narrow<Out0>(result.first(shape));
    if (at.at[1]) *reinterpret_cast<Out1*>(at.at[1] + offset[1]) = narrow<Out1>(result.second(shape));
}

const int MANY_REDUCTIONS = 64;

/// Reductions of elements side by side to one number each: elements, addresses, the number of all, the first
/// block of each.
struct ManyReductions {
    u64 steps[MANY_REDUCTIONS];
    const char* in[MANY_REDUCTIONS];
    char* out[MANY_REDUCTIONS];
    double number;
    u32 first[MANY_REDUCTIONS + 1], count;
};

/// Merges the accumulators of a block's threads.
template <class R> CT_FN R merged_block(R mine, R* shared) {
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            R merged = shared[threadIdx.x];
            merged.merge(shared[threadIdx.x + half]);
            shared[threadIdx.x] = merged;
        }
        __syncthreads();
    }
    return shared[0];
}

/// As `merged_block`, of the `lanes` threads of row `local` of a block, in the order of `reduce`. Every one of them
/// gets the result.
template <class R> CT_FN R merged_rows(R mine, R* shared, u32 lane, u32 lanes, u32 local) {
    shared += local * lanes;
    shared[lane] = mine;
    __syncthreads();
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        if (lane < half) {
            R merged = shared[lane];
            merged.merge(shared[lane + half]);
            shared[lane] = merged;
        }
        __syncthreads();
    }
    R result = shared[0];
    __syncthreads();
    return result;
}

/// A block takes 2^14 elements of one of the reductions.
template <class R, class E, class In> __global__ void reduce_many(ManyReductions many, R* partial) {
    CT_DYN_SMEM(R, shared);
    u32 low = 0, high = many.count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (many.first[middle] <= blockIdx.x) low = middle;
        else high = middle;
    }
    const In* in = reinterpret_cast<const In*>(many.in[low]);
    u64 begin = (u64)(blockIdx.x - many.first[low]) << 14, end = begin + (1 << 14);
    if (end > many.steps[low]) end = many.steps[low];
    R mine;
    mine.start();
    for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) mine.add(to<E>(widen(in[i])), i, many.number);
    mine = merged_block(mine, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

template <class R, class Out> __global__ void reduce_many_ends(ManyReductions many, const R* partial) {
    CT_DYN_SMEM(R, shared);
    u32 own = blockIdx.x;
    R mine;
    mine.start();
    for (u32 i = many.first[own] + threadIdx.x; i < many.first[own + 1]; i += blockDim.x) mine.merge(partial[i]);
    mine = merged_block(mine, shared);
    ReduceShape shape = {1, many.steps[own], many.steps[own], many.number};
    if (threadIdx.x == 0) *reinterpret_cast<Out*>(many.out[own]) = narrow<Out>(mine.first(shape));
}

#define CT_ACCUMULATOR \
    CT_FN auto second(const ReduceShape& shape) const { return this->first(shape); }

template <class E> struct Sum {
    E v;
    CT_FN void start() { v = lit<E>(0.0); }
    CT_FN void add(E x, u64, double) { v = v + x; }
    CT_FN void merge(const Sum& other) { v = v + other.v; }
    CT_FN E first(const ReduceShape&) const { return v; }
    CT_ACCUMULATOR
};
template <class E> struct NanSum : Sum<E> {
    CT_FN void add(E x, u64, double) { if (!is_nan(x)) this->v = this->v + x; }
    CT_FN void merge(const NanSum& other) { this->v = this->v + other.v; }
};
template <class E> struct Mean : Sum<E> {
    CT_FN E first(const ReduceShape& shape) const { return this->v / lit<E>((double)shape.steps); }
    CT_ACCUMULATOR
};
template <class E> struct Product {
    E v;
    CT_FN void start() { v = lit<E>(1.0); }
    CT_FN void add(E x, u64, double) { v = v * x; }
    CT_FN void merge(const Product& other) { v = v * other.v; }
    CT_FN E first(const ReduceShape&) const { return v; }
    CT_ACCUMULATOR
};
/// Truth values: also of numbers.
template <class E> struct Any {
    u32 v;
    CT_FN void start() { v = 0; }
    CT_FN void add(E x, u64, double) { v |= to<Truth>(x).v; }
    CT_FN void merge(const Any& other) { v |= other.v; }
    CT_FN Truth first(const ReduceShape&) const { return v != 0; }
    CT_ACCUMULATOR
};
template <class E> struct All {
    u32 v;
    CT_FN void start() { v = 1; }
    CT_FN void add(E x, u64, double) { v &= to<Truth>(x).v; }
    CT_FN void merge(const All& other) { v &= other.v; }
    CT_FN Truth first(const ReduceShape&) const { return v != 0; }
    CT_ACCUMULATOR
};
/// The largest (SIGN 1) or smallest (SIGN -1) and the position of the first such; NaN wins.
template <class E, int SIGN> struct Extremum {
    E v;
    i64 at;
    CT_FN void start() { at = -1; }
    CT_FN bool loses_to(E x, i64 position) const {
        if (at < 0) return true;
        if (is_nan(v)) return is_nan(x) && position < at;
        if (is_nan(x) || (SIGN > 0 ? lt(v, x) : lt(x, v))) return true;
        return eq(v, x) && position < at;
    }
    CT_FN void add(E x, u64 position, double) {
        if (loses_to(x, (i64)position)) { v = x; at = (i64)position; }
    }
    CT_FN void merge(const Extremum& other) {
        if (other.at >= 0 && loses_to(other.v, other.at)) *this = other;
    }
    CT_FN E first(const ReduceShape&) const { return v; }
    CT_FN Int<i64> second(const ReduceShape&) const { return at; }
};
template <class E, int SIGN> struct Position : Extremum<E, SIGN> {
    CT_FN void merge(const Position& other) { Extremum<E, SIGN>::merge(other); }
    CT_FN Int<i64> first(const ReduceShape&) const { return this->at; }
};
template <class E> struct Extrema {
    Extremum<E, -1> low;
    Extremum<E, 1> high;
    CT_FN void start() { low.start(); high.start(); }
    CT_FN void add(E x, u64 position, double number) { low.add(x, position, number); high.add(x, position, number); }
    CT_FN void merge(const Extrema& other) { low.merge(other.low); high.merge(other.high); }
    CT_FN E first(const ReduceShape&) const { return low.v; }
    CT_FN E second(const ReduceShape&) const { return high.v; }
};
/// Welford's algorithm; merged as by Chan, Golub and LeVeque (1979).
template <class E, bool ROOT> struct Variance {
    E mean, squares;
    double count;
    CT_FN void start() { mean = 0; squares = 0; count = 0; }
    CT_FN void add(E x, u64, double) {
        count += 1;
        E difference = x - mean;
        mean += difference / (E)count;
        squares += difference * (x - mean);
    }
    CT_FN void merge(const Variance& other) {
        if (other.count == 0) return;
        if (count == 0) { *this = other; return; }
        double total = count + other.count;
        E difference = other.mean - mean;
        mean += difference * (E)(other.count / total);
        squares += other.squares + difference * difference * (E)(count * other.count / total);
        count = total;
    }
    CT_FN E first(const ReduceShape& shape) const {
        double divisor = count - shape.number;
        E variance = squares / (E)(divisor > 0 ? divisor : 0);
        return ROOT ? sqrt(variance) : variance;
    }
    CT_FN E second(const ReduceShape&) const { return count > 0 ? mean : (E)CT_NAN; }
};
/// The norm whose order is the shape's number, of magnitudes.
template <class E> struct Norm {
    typedef typename real_of<E>::type T;
    T v;
    double order;
    CT_FN void start() { v = 0; order = -1; }
    CT_FN static T combined(T a, T b, double order) {
        if (order - order == 0) return a + b;
        return order > 0 ? max(a, b) : min(a, b);
    }
    CT_FN void add(E z, u64, double number) {
        T x;
        if constexpr (is_complex<E>::value) x = abs(z).re; else x = abs(z);
        T y = x;
        if (number == 2) y = x * x;
        else if (number == 0) y = x != 0;
        else if (number != 1 && number - number == 0) y = pow(x, (T)number);
        v = order == -1 ? y : combined(v, y, number);
        order = number == -1 ? -2 : number;
    }
    CT_FN void merge(const Norm& other) {
        if (other.order == -1) return;
        if (order == -1) { *this = other; return; }
        v = combined(v, other.v, order);
    }
    CT_FN T first(const ReduceShape& shape) const {
        double number = shape.number;
        if (order == -1) return number < 0 ? (T)CT_INFINITY : (T)0;
        if (number == 2) return sqrt(v);
        if (number == 0 || number == 1 || number - number != 0) return v;
        return pow(v, (T)(1 / number));
    }
    CT_ACCUMULATOR
};

}  // namespace ct
