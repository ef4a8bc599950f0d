// Values of images and volumes at the points of a grid: a thread per point and some channels.

namespace ct {

/// A thread computes `chunk` channels of a point.
struct GridShape { i64 samples, channels, chunk, sizes[3], points; u32 padding, align; };

const u32 GRID_LINEAR = 0, GRID_NEAREST = 1, GRID_CUBIC = 2;

/// Keys' cubic with slope -3/4 at 1, at a distance, and its slope there.
template <class V> CT_FN void grid_keys(V x, V& value, V& slope) {
    const V a = (V)-0.75;
    if (x <= (V)1) {
        value = ((a + (V)2) * x - (a + (V)3)) * x * x + (V)1;
        slope = ((V)3 * (a + (V)2) * x - (V)2 * (a + (V)3)) * x;
    } else {
        value = ((x - (V)5) * a * x + (V)8 * a) * x - (V)4 * a;
        slope = ((V)3 * a * x - (V)10 * a) * x + (V)8 * a;
    }
}

/// The elements of one dimension that take part; a position of -1 lies outside.
template <class V, u32 RANK, u32 MODE> struct GridAxis {
    enum { TAPS = MODE == GRID_NEAREST ? 1 : MODE == GRID_LINEAR ? 2 : 4 };
    i64 size;
    u32 padding;
    bool align;
    i64 position[TAPS];
    V weight[TAPS], slope[TAPS];

    CT_FN V last() const { return (V)(size - 1); }
    CT_FN i64 inside(V at) const { return at >= 0 && at < (V)size ? (i64)at : -1; }
    CT_FN static V in_range(V at) { return abs(at) <= (V)2147483646 ? at : (V)-100; }

    /// Moves a coordinate into the image; `sign` is multiplied by the slope of that.
    CT_FN V pad(V at, V& sign) const {
        if (padding == 2) {
            V low = align ? (V)0 : (V)-1, high = align ? (V)2 * last() : (V)2 * (V)size - (V)1;
            if (low == high) {
                at = 0, sign = 0;
            } else {
                V start = low / 2, span = (high - low) / 2, distance = abs(at - start);
                V own = at < start ? (V)-1 : (V)1, flips = floor(distance / span);
                V rest = distance - flips * span;
                if (RANK == 3) rest = fmod(distance, span);
                bool odd = fmod(flips, (V)2) != 0;
                at = (odd ? span - rest : rest) + start;
                sign *= odd ? -own : own;
            }
        }
        if (padding != 0) {
            if (at > 0 && at < last()) return at;
            bool beyond = RANK == 2 ? at >= last() : at > 0 || at != at;
            at = beyond ? last() : (V)0;
            sign = 0;
        }
        return at;
    }

    CT_FN GridAxis(i64 length, u32 pads, bool aligned, V x) : size(length), padding(pads), align(aligned) {
        V growth = (V)0.5 * (align ? last() : (V)size), at, sign = 1;
        if (align) at = (x + (V)1) * (V)0.5 * last();
        else if (RANK == 2) at = mul_add(x + (V)1, growth, (V)-0.5);
        else at = ((x + (V)1) * (V)size - (V)1) * (V)0.5;
        if constexpr (MODE == GRID_CUBIC) {
            V t = at - floor(at);
            for (int k = 0; k < 4; k++) {
                V distance = k == 0 ? t + (V)1 : k == 1 ? t : k == 2 ? (V)1 - t : (V)2 - t, ignored = 1;
                grid_keys(distance, weight[k], slope[k]);
                slope[k] *= k < 2 ? growth : -growth;
                position[k] = inside(in_range(pad(floor(at) + (V)(k - 1), ignored)));
            }
        } else if constexpr (MODE == GRID_NEAREST) {
            position[0] = inside(round(in_range(pad(at, sign))));
            weight[0] = 1, slope[0] = 0;
        } else {
            at = pad(at, sign);
            V low = floor(in_range(at)), own = RANK == 2 ? at : in_range(at), below = floor(own);
            position[0] = inside(low), position[1] = inside(low + (V)1);
            weight[0] = below + (V)1 - own, weight[1] = own - below;
            slope[0] = -growth * sign, slope[1] = growth * sign;
        }
    }
};

/// What takes part in the value at a point, the last dimension varying fastest.
template <class V, u32 RANK, u32 MODE> struct GridTaps {
    typedef GridAxis<V, RANK, MODE> Axis;
    enum { COUNT = RANK == 2 ? Axis::TAPS * Axis::TAPS : Axis::TAPS * Axis::TAPS * Axis::TAPS };
    i64 position[COUNT];
    V weight[COUNT];

    /// `along` the dimension whose slopes stand for its weights, or -1.
    template <class T> CT_FN GridTaps(const GridShape& s, const T* at, int along) {
        for (int k = 0; k < COUNT; k++) position[k] = 0, weight[k] = 1;
        int step = COUNT;
        for (int dim = 0; dim < (int)RANK; dim++) {
            step /= Axis::TAPS;
            i64 size = s.sizes[3 - RANK + dim];
            // The grid's coordinates are in the reverse order of the dimensions.
            Axis axis(size, s.padding, s.align != 0, (V)widen(at[RANK - 1 - dim]));
            for (int k = 0; k < COUNT; k++) {
                int own = k / step % Axis::TAPS;
                bool outside = position[k] < 0 || axis.position[own] < 0;
                position[k] = outside ? -1 : position[k] * size + axis.position[own];
                weight[k] *= dim == along ? axis.slope[own] : axis.weight[own];
                if (outside && RANK == 3) weight[k] = 0;
            }
        }
    }
};

CT_FN i64 grid_volume(const GridShape& s) { return s.sizes[0] * s.sizes[1] * s.sizes[2]; }

template <class T, class V, u32 RANK, u32 MODE>
__global__ void grid_values(GridShape s, T* out, const T* in, const T* grid) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.samples * s.points) return;
    GridTaps<V, RANK, MODE> taps(s, grid + i * RANK, -1);
    i64 sample = i / s.points, point = i - sample * s.points, volume = grid_volume(s);
    i64 first = blockIdx.y * s.chunk, end = first + s.chunk < s.channels ? first + s.chunk : s.channels;
    const T* plane = in + (sample * s.channels + first) * volume;
    T* to = out + (sample * s.channels + first) * s.points + point;
    for (i64 c = first; c < end; c++, plane += volume, to += s.points) {
        V sum = 0;
        for (int k = 0; k < taps.COUNT; k++) {
            sum += (taps.position[k] < 0 ? (V)0 : (V)widen(plane[taps.position[k]])) * taps.weight[k];
        }
        *to = narrow<T>(sum);
    }
}

/// The gradient of the coordinates: a thread per point, for all channels.
template <class T, class V, u32 RANK, u32 MODE>
__global__ void grid_coordinates(GridShape s, T* out, const T* grad, const T* in, const T* grid) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.samples * s.points) return;
    i64 sample = i / s.points, point = i - sample * s.points, volume = grid_volume(s);
    for (int along = 0; along < (int)RANK; along++) {
        GridTaps<V, RANK, MODE> taps(s, grid + i * RANK, along);
        const T* plane = in + sample * s.channels * volume;
        const T* from = grad + sample * s.channels * s.points + point;
        V total = 0;
        for (i64 c = 0; c < s.channels; c++, plane += volume, from += s.points) {
            V slope = 0;
            for (int k = 0; k < taps.COUNT; k++) {
                if (taps.position[k] >= 0) slope += (V)widen(plane[taps.position[k]]) * taps.weight[k];
            }
            total += slope * (V)widen(*from);
        }
        out[i * RANK + (RANK - 1 - along)] = narrow<T>(total);
    }
}

/// The gradient of the input, added to `sums` of its shape: by atomic additions; or, where it must not depend
/// on the order of threads, by a thread per channel of a sample, which goes through the points in their order.
template <class T, class V, u32 RANK, u32 MODE, u32 ORDERED>
__global__ void grid_scatter(GridShape s, V* sums, const T* grad, const T* grid) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, volume = grid_volume(s);
    if (i >= s.samples * (ORDERED ? s.channels : s.points)) return;
    if constexpr (ORDERED) {
        i64 sample = i / s.channels;
        for (i64 point = 0; point < s.points; point++) {
            GridTaps<V, RANK, MODE> taps(s, grid + (sample * s.points + point) * RANK, -1);
            V g = widen(grad[i * s.points + point]);
            for (int k = 0; k < taps.COUNT; k++) {
                if (taps.position[k] >= 0) sums[i * volume + taps.position[k]] += g * taps.weight[k];
            }
        }
    } else {
        GridTaps<V, RANK, MODE> taps(s, grid + i * RANK, -1);
        i64 sample = i / s.points, point = i - sample * s.points;
        i64 first = blockIdx.y * s.chunk, end = first + s.chunk < s.channels ? first + s.chunk : s.channels;
        V* plane = sums + (sample * s.channels + first) * volume;
        const T* from = grad + (sample * s.channels + first) * s.points + point;
        for (i64 c = first; c < end; c++, plane += volume, from += s.points) {
            V g = widen(*from);
            for (int k = 0; k < taps.COUNT; k++) {
                if (taps.position[k] >= 0) atomicAdd(plane + taps.position[k], g * taps.weight[k]);
            }
        }
    }
}

}  // namespace ct
