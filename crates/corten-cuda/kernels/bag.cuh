// Bags of rows of a table: their sums, means and maxima, and the gradients.

namespace ct {

enum BagMode { BAG_SUM, BAG_MEAN, BAG_MAX };

/// `starts` offsets are given; a bag without a next one ends at the last index.
struct BagShape {
    u64 bags, columns, rows, indices, starts;
    i64 padding;
};

/// Where a bag begins. Offsets beyond the indices are reported and not followed.
CT_FN u64 bag_start(const i64* offsets, u64 bag, const BagShape& shape, u32* failure) {
    if (bag >= shape.starts) return shape.indices;
    i64 start = offsets[bag];
    if (start >= 0 && start <= (i64)shape.indices) return (u64)start;
    *failure = 1;
    return shape.indices;
}

/// The row that an index names; none for padding and for one that is no row, which is reported.
CT_FN i64 bag_row(i64 index, const BagShape& shape, u32* failure) {
    if (index == shape.padding) return -1;
    if (index >= 0 && index < (i64)shape.rows) return index;
    *failure = 1;
    return -1;
}

/// A column of a bag per thread.
template <class S, class V, u32 MODE>
__global__ void bags(
    u64 n, S* out, i64* places, const S* weight, const i64* indices, const i64* offsets, const S* factors,
    BagShape shape, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 bag = i / shape.columns, column = i - bag * shape.columns, count = 0;
    u64 begin = bag_start(offsets, bag, shape, failure), end = bag_start(offsets, bag + 1, shape, failure);
    V sum = 0;
    i64 place = 0;
    for (u64 k = begin; k < end; k++) {
        i64 row = bag_row(indices[k], shape, failure);
        if (row < 0) continue;
        V value = widen(weight[(u64)row * shape.columns + column]);
        if constexpr (MODE == BAG_MAX) {
            if (count == 0 || value > sum) sum = value, place = row;
        } else {
            sum += factors ? value * (V)widen(factors[k]) : value;
        }
        count++;
    }
    if (MODE == BAG_MEAN && count > 0) sum = sum / (V)count;
    out[i] = narrow<S>(sum);
    if (MODE == BAG_MAX) places[i] = place;
}

/// The bag of each index; -1 for those behind the last bag.
template <u32 UNUSED>
__global__ void bag_of_each(u64 n, i64* out, const i64* offsets, BagShape shape, u32* failure) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 low = 0, high = shape.bags;
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (bag_start(offsets, middle, shape, failure) <= i) low = middle + 1;
        else high = middle;
    }
    bool inside = low > 0 && i < bag_start(offsets, low, shape, failure);
    out[i] = inside ? (i64)low - 1 : -1;
}

/// The rows of each bag, without padding.
template <u32 UNUSED>
__global__ void bag_sizes(u64 n, i64* out, const i64* indices, const i64* offsets, BagShape shape, u32* failure) {
    u64 bag = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (bag >= n) return;
    u64 begin = bag_start(offsets, bag, shape, failure), end = bag_start(offsets, bag + 1, shape, failure);
    i64 count = 0;
    for (u64 k = begin; k < end; k++) count += indices[k] != shape.padding;
    out[bag] = count;
}

/// Adds the gradients of bags to the rows that were read; A is what is added in.
template <class S, class A>
__global__ void bag_gradient(
    u64 n, A* out, const S* grad, const i64* indices, const i64* bag_of, const i64* sizes, const float* frequencies,
    const S* factors, BagShape shape, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 place = i / shape.columns, column = i - place * shape.columns;
    i64 row = bag_row(indices[place], shape, failure), bag = bag_of[place];
    if (row < 0 || bag < 0) return;
    if (bag >= (i64)shape.bags) { *failure = 1; return; }
    A value = widen(grad[(u64)bag * shape.columns + column]), factor = 1;
    if (factors) factor = widen(factors[place]);
    if (sizes) factor = factor / (A)sizes[bag];
    if (frequencies) factor = factor / (A)frequencies[row];
    combine_atomically<ADD, A, A>(out + (u64)row * shape.columns + column, value * factor);
}

/// The product of a bag's gradient with the row of each index, a warp for each.
template <class S, class V>
__global__ void bag_products(
    u64 n, S* out, const S* grad, const S* weight, const i64* indices, const i64* bag_of, BagShape shape, u32* failure
) {
    u64 place = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (place >= n) return;
    u32 lane = threadIdx.x % 32;
    i64 row = bag_row(indices[place], shape, failure), bag = bag_of[place];
    bool inside = row >= 0 && bag >= 0 && bag < (i64)shape.bags;
    V sum = 0;
    for (u64 k = lane; inside && k < shape.columns; k += 32) {
        sum += (V)widen(grad[(u64)bag * shape.columns + k]) * (V)widen(weight[(u64)row * shape.columns + k]);
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0) out[place] = narrow<S>(sum);
}

/// Scales rows down to a norm of at most `most`, a block for each.
template <class S, class V>
__global__ void renorm_rows(S* table, const i64* rows, u64 count, u64 columns, double most, double p, u32* failure) {
    __shared__ double partial[256];
    i64 row = rows[blockIdx.x];
    bool inside = row >= 0 && row < (i64)count;
    if (!inside && threadIdx.x == 0) *failure = 1;
    S* own = table + (inside ? (u64)row * columns : 0);
    double sum = 0;
    for (u64 k = threadIdx.x; inside && k < columns; k += blockDim.x) {
        double size = ::fabs((double)widen(own[k]));
        if (p == CT_INFINITY) sum = size > sum ? size : sum;
        else sum += p == 1 ? size : p == 2 ? size * size : ::pow(size, p);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            double other = partial[threadIdx.x + half], mine = partial[threadIdx.x];
            partial[threadIdx.x] = p == CT_INFINITY ? (other > mine ? other : mine) : mine + other;
        }
        __syncthreads();
    }
    double norm = partial[0];
    if (p != 1 && p != CT_INFINITY) norm = p == 2 ? ::sqrt(norm) : ::pow(norm, 1 / p);
    if (!inside || !(norm > most)) return;
    V factor = (V)(most / (norm + 1e-7));
    for (u64 k = threadIdx.x; k < columns; k += blockDim.x) own[k] = narrow<S>((V)widen(own[k]) * factor);
}

}  // namespace ct
