// Reductions of neighbouring slices, segment by segment, and their gradients.

namespace ct {

enum SegmentReduce { SEGMENT_MAX, SEGMENT_MEAN, SEGMENT_MIN, SEGMENT_SUM, SEGMENT_PROD };

/// Rows of `size` slices of `inner` elements, each row in `count` segments between its offsets.
struct Segments {
    u64 count, size, inner;
    double initial;
    u32 has_initial;
};

/// A segment's first slice and the one behind its last.
CT_FN void segment_bounds(
    const i64* offsets, u64 row, u64 segment, const Segments& shape, u64* begin, u64* end, u32* failure
) {
    const i64* own = offsets + row * (shape.count + 1) + segment;
    bool inside = own[0] >= 0 && own[0] <= own[1] && own[1] <= (i64)shape.size;
    if (!inside) *failure = 1;
    *begin = inside ? (u64)own[0] : 0, *end = inside ? (u64)own[1] : 0;
}

template <u32 KIND, class V> CT_FN V segment_combined(V value, V next) {
    if constexpr (KIND == SEGMENT_SUM || KIND == SEGMENT_MEAN) return value + next;
    else if constexpr (KIND == SEGMENT_PROD) return value * next;
    else if (next != next || value != value) return value + next;
    else if constexpr (KIND == SEGMENT_MAX) return next > value ? next : value;
    else return next < value ? next : value;
}

template <class S, class V, u32 KIND>
__global__ void segment_reduce(u64 n, S* out, const S* data, const i64* offsets, Segments shape, u32* failure) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 inner = i % shape.inner, rest = i / shape.inner, row = rest / shape.count, begin, end;
    segment_bounds(offsets, row, rest % shape.count, shape, &begin, &end, failure);
    V value = (V)shape.initial;
    for (u64 k = begin; k < end; k++) {
        value = segment_combined<KIND>(value, (V)widen(data[(row * shape.size + k) * shape.inner + inner]));
    }
    if (KIND == SEGMENT_MEAN && end > begin) value = value / (V)(end - begin);
    if (KIND == SEGMENT_MEAN && end == begin && !shape.has_initial) value = (V)CT_NAN;
    out[i] = narrow<S>(value);
}

/// Slices outside of segments keep the zeros that are there. Of maxima and minima only a positive gradient is
/// shared, as in PyTorch.
template <class S, class V, u32 KIND>
__global__ void segment_gradient(
    u64 n, S* out, const S* grad, const S* output, const S* data, const i64* offsets, Segments shape, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 inner = i % shape.inner, rest = i / shape.inner, row = rest / shape.count, begin, end;
    segment_bounds(offsets, row, rest % shape.count, shape, &begin, &end, failure);
    V g = widen(grad[i]), y = widen(output[i]);
    auto at = [&](u64 k) { return (row * shape.size + k) * shape.inner + inner; };
    u64 count = 0;
    if constexpr (KIND == SEGMENT_MAX || KIND == SEGMENT_MIN) {
        for (u64 k = begin; k < end; k++) {
            V x = widen(data[at(k)]);
            count += x != x || x == y;
        }
        if (count > 1 && g > 0) g = g / (V)count;
    }
    for (u64 k = begin; k < end; k++) {
        V x = widen(data[at(k)]);
        if constexpr (KIND == SEGMENT_SUM) {
            out[at(k)] = narrow<S>(g);
        } else if constexpr (KIND == SEGMENT_MEAN) {
            out[at(k)] = narrow<S>(g / (V)(end - begin));
        } else if constexpr (KIND == SEGMENT_PROD) {
            V slope = g * y / x;
            if (x != x || x == 0) {
                V others = (V)shape.initial;
                for (u64 j = begin; j < end; j++) {
                    if (j != k) others = others * (V)widen(data[at(j)]);
                }
                slope = g * others;
            }
            out[at(k)] = narrow<S>(slope);
        } else if (x != x || x == y) {
            out[at(k)] = narrow<S>(g);
        }
    }
}

}  // namespace ct
