// Counting elements by bins.

namespace ct {

const u32 SHARED_BINS = 2048;

/// Counts in equal bins between the first and the last edge; blocks count in shared memory where there is
/// room.
template <class S, class V>
__global__ void histogram(u64 n, const S* in, const S* edges, u64* counts, u64 bins) {
    __shared__ u32 own[SHARED_BINS];
    bool shared = bins <= SHARED_BINS;
    for (u32 k = threadIdx.x; shared && k < bins; k += blockDim.x) own[k] = 0;
    __syncthreads();
    auto rounded = [](V x) { return (V)widen(narrow<S>(x)); };
    V first = widen(edges[0]), last = widen(edges[bins]), span = rounded(last - first);
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        V x = widen(in[i]);
        if (!(first <= x && x <= last)) continue;
        u64 bin = (u64)rounded(rounded(rounded(x - first) * (V)bins) / span);
        if (bin >= bins) bin = bins - 1;
        if (shared) atomicAdd(own + bin, 1u);
        else atomicAdd(counts + bin, (u64)1);
    }
    __syncthreads();
    for (u32 k = threadIdx.x; shared && k < bins; k += blockDim.x) {
        if (own[k]) atomicAdd(counts + k, (u64)own[k]);
    }
}

const int MAX_AXES = 32;

/// The bins of each axis, and where its edges begin.
struct Axes {
    u32 count;
    u64 bins[MAX_AXES], start[MAX_AXES];
};

/// The first edge above `x` among some.
template <class S, class V> CT_FN u64 edges_up_to(const S* edges, u64 low, u64 high, V x) {
    while (low < high) {
        u64 middle = (low + high) / 2;
        if ((V)widen(edges[middle]) <= x) low = middle + 1;
        else high = middle;
    }
    return low;
}

/// Adds each point to its bin. With LOCAL bins are equal and found by the distance from the first edge, then
/// among the neighbouring edges; without, by bisection.
template <class S, class V, u32 LOCAL>
__global__ void count_points(u64 n, const S* points, const S* edges, const S* weight, S* hist, Axes axes) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 bin = 0;
    for (u32 axis = 0; axis < axes.count; axis++) {
        const S* own = edges + axes.start[axis];
        u64 bins = axes.bins[axis], upper;
        V x = widen(points[i * axes.count + axis]), first = widen(own[0]), last = widen(own[bins]);
        if (bins == 0 || !(first <= x && x <= last)) return;
        if constexpr (LOCAL) {
            u64 guess = (u64)((x - first) * (V)bins / (last - first));
            u64 start = guess < bins ? guess : bins, end = guess + 2 < bins + 1 ? guess + 2 : bins + 1;
            start = start ? start - 1 : 0;
            upper = edges_up_to(own, start, end, x);
        } else {
            upper = edges_up_to(own, 0, bins + 1, x);
        }
        u64 place = upper ? upper - 1 : 0;
        bin = bin * bins + (place < bins ? place : bins - 1);
    }
    combine_atomically<ADD, S, V>(hist + bin, weight ? (V)widen(weight[i]) : (V)1);
}

}  // namespace ct
