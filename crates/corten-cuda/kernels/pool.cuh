// Pooling over windows. Gradients are gathered: a thread per element of the input adds up what the windows
// around it give, in the order of the windows.

namespace ct {

/// The windows of each axis: sliding ones, or those of an adaptive pooling.
struct Pool { i64 kernel[3], stride[3], padding[3], dilation[3]; };

/// Elements start, start + step, ... below end; `padded` is the length with padding.
template <class I> struct Window {
    I start, end, step, padded;
    CT_FN I length() const { return end <= start ? 0 : (end - start + step - 1) / step; }
};

template <u32 ADAPTIVE, class I> CT_FN Window<I> pool_window(const Pool& pool, int axis, I at, I size, I count) {
    Window<I> w;
    if constexpr (ADAPTIVE) {
        w.start = at * size / count;
        w.end = ((at + 1) * size + count - 1) / count;
        w.step = 1;
        w.padded = w.end - w.start;
    } else {
        I first = at * (I)pool.stride[axis] - (I)pool.padding[axis], step = (I)pool.dilation[axis];
        I end = first + ((I)pool.kernel[axis] - 1) * step + 1;
        if (end > size + (I)pool.padding[axis]) end = size + (I)pool.padding[axis];
        w.padded = end - first;
        w.start = first < 0 ? first + (step == 1 ? -first : (-first + step - 1) / step * step) : first;
        w.end = end < size ? end : size;
        w.step = step;
    }
    return w;
}

/// The windows that may hold an element: the first, and the end.
template <u32 ADAPTIVE, class I>
CT_FN void pool_windows_of(const Pool& pool, int axis, I at, I size, I count, I& first, I& end) {
    if constexpr (ADAPTIVE) {
        first = at * count / size;
        end = ((at + 1) * count + size - 1) / size;
    } else {
        I stride = (I)pool.stride[axis], padded = at + (I)pool.padding[axis];
        I reach = ((I)pool.kernel[axis] - 1) * (I)pool.dilation[axis];
        first = padded <= reach ? 0 : (padded - reach + stride - 1) / stride;
        end = padded / stride + 1;
    }
    if (end > count) end = count;
}

/// What the sum of a window is divided by.
enum PoolDivisor { WITH_PADDING = 0, INSIDE = 1, GIVEN = 2 };

template <class I>
CT_FN i64 pool_divisor(i64 given, u32 divisor, const Window<I>& z, const Window<I>& y, const Window<I>& x) {
    i64 inside = (i64)z.length() * y.length() * x.length();
    // Windows without an element give zero, not NaN.
    if (inside == 0) return 1;
    if (divisor == WITH_PADDING) return (i64)z.padded * y.padded * x.padded;
    return divisor == INSIDE ? inside : given;
}

/// A number of elements as a value.
template <class V> CT_FN V to_value(i64 x) { return to<V>(Int<i64>(x)); }

/// The value that is less than all others: what a window without an element gives.
template <class V> CT_FN V lowest() {
    if constexpr (is_int<V>::value) {
        typedef decltype(V::v) T;
        const bool is_signed = (T)-1 < (T)0;
        return V(is_signed ? (T)((u64)1 << (8 * sizeof(T) - 1)) : (T)0);
    } else {
        return (V)-CT_INFINITY;
    }
}

/// The largest element of a window so far, and its position in its plane; the last NaN counts as largest.
template <class T, class V, class I> struct Largest {
    bool any;
    T kept;
    V best;
    I position;

    CT_FN Largest(I first) : any(false), kept(narrow<T>(lowest<V>())), best(lowest<V>()), position(first) {}
    CT_FN void take(T element, I at) {
        V value = widen(element);
        if (!any || lt(best, value) || is_nan(value)) any = true, best = value, kept = element, position = at;
    }
};

template <class T, class V, class I, u32 ADAPTIVE>
__global__ void pool_max(Pool pool, Image to, Image from, Image positions, u64 n, T* out, i64* indices, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5];
    unravel(to, i, at);
    const I depth = (I)from.sizes[2], height = (I)from.sizes[3], width = (I)from.sizes[4];
    Window<I> z = pool_window<ADAPTIVE, I>(pool, 0, at[2], depth, (I)to.sizes[2]);
    Window<I> y = pool_window<ADAPTIVE, I>(pool, 1, at[3], height, (I)to.sizes[3]);
    Window<I> x = pool_window<ADAPTIVE, I>(pool, 2, at[4], width, (I)to.sizes[4]);
    const T* plane = in + channel_offset(from, at);
    Largest<T, V, I> largest((z.start * height + y.start) * width + x.start);
    for (I d = z.start; d < z.end; d += z.step) {
        for (I h = y.start; h < y.end; h += y.step) {
            const T* row = plane + (d * (I)from.strides[2] + h * (I)from.strides[3]);
            I position = (d * height + h) * width;
            for (I w = x.start; w < x.end; w += x.step) largest.take(row[w * (I)from.strides[4]], position + w);
        }
    }
    out[image_offset(to, at)] = largest.kept;
    indices[image_offset(positions, at)] = largest.position;
}

template <class T, class V, class I, u32 ADAPTIVE>
__global__ void pool_max_backward(
    Pool pool, Image to, Image from, Image positions, u64 n, T* out, const T* grad, const i64* indices
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5], first[3], end[3];
    unravel(to, i, at);
    for (int axis = 0; axis < 3; axis++) {
        I size = (I)to.sizes[2 + axis], count = (I)from.sizes[2 + axis];
        pool_windows_of<ADAPTIVE, I>(pool, axis, at[2 + axis], size, count, first[axis], end[axis]);
    }
    const i64 own = (at[2] * (I)to.sizes[3] + at[3]) * (I)to.sizes[4] + at[4];
    const T* plane = grad + channel_offset(from, at);
    const i64* chosen = indices + channel_offset(positions, at);
    V sum = 0;
    for (I d = first[0]; d < end[0]; d++) {
        for (I h = first[1]; h < end[1]; h++) {
            const i64* row = chosen + (d * (I)positions.strides[2] + h * (I)positions.strides[3]);
            const T* values = plane + (d * (I)from.strides[2] + h * (I)from.strides[3]);
            for (I w = first[2]; w < end[2]; w++) {
                if (row[w * (I)positions.strides[4]] == own) sum += (V)widen(values[w * (I)from.strides[4]]);
            }
        }
    }
    out[image_offset(to, at)] = narrow<T>(sum);
}

template <class T, class V, class I, u32 ADAPTIVE>
__global__ void pool_average(Pool pool, Image to, Image from, i64 given, u32 divisor, u64 n, T* out, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5];
    unravel(to, i, at);
    Window<I> z = pool_window<ADAPTIVE, I>(pool, 0, at[2], (I)from.sizes[2], (I)to.sizes[2]);
    Window<I> y = pool_window<ADAPTIVE, I>(pool, 1, at[3], (I)from.sizes[3], (I)to.sizes[3]);
    Window<I> x = pool_window<ADAPTIVE, I>(pool, 2, at[4], (I)from.sizes[4], (I)to.sizes[4]);
    const T* plane = in + channel_offset(from, at);
    V sum = lit<V>(0);
    for (I d = z.start; d < z.end; d++) {
        for (I h = y.start; h < y.end; h++) {
            const T* row = plane + (d * (I)from.strides[2] + h * (I)from.strides[3]);
            for (I w = x.start; w < x.end; w++) sum = sum + (V)widen(row[w * (I)from.strides[4]]);
        }
    }
    V share = to_value<V>(pool_divisor(given, divisor, z, y, x));
    out[image_offset(to, at)] = narrow<T>(sum / share);
}

template <class T, class V, class I, u32 ADAPTIVE>
__global__ void pool_average_backward(
    Pool pool, Image to, Image from, i64 given, u32 divisor, u64 n, T* out, const T* grad
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5], first[3], end[3];
    unravel(to, i, at);
    for (int axis = 0; axis < 3; axis++) {
        I size = (I)to.sizes[2 + axis], count = (I)from.sizes[2 + axis];
        pool_windows_of<ADAPTIVE, I>(pool, axis, at[2 + axis], size, count, first[axis], end[axis]);
    }
    const T* plane = grad + channel_offset(from, at);
    V sum = 0;
    for (I d = first[0]; d < end[0]; d++) {
        Window<I> z = pool_window<ADAPTIVE, I>(pool, 0, d, (I)to.sizes[2], (I)from.sizes[2]);
        for (I h = first[1]; h < end[1]; h++) {
            Window<I> y = pool_window<ADAPTIVE, I>(pool, 1, h, (I)to.sizes[3], (I)from.sizes[3]);
            const T* row = plane + (d * (I)from.strides[2] + h * (I)from.strides[3]);
            for (I w = first[2]; w < end[2]; w++) {
                Window<I> x = pool_window<ADAPTIVE, I>(pool, 2, w, (I)to.sizes[4], (I)from.sizes[4]);
                sum += (V)widen(row[w * (I)from.strides[4]]) / (V)pool_divisor(given, divisor, z, y, x);
            }
        }
    }
    out[image_offset(to, at)] = narrow<T>(sum);
}

/// The first element of a window at a random position of an axis.
template <class V, class I> CT_FN I fractional_start(V sample, I at, I size, I count, I kernel) {
    I last = size - kernel;
    if (at + 1 == count) return last;
    V alpha = count > 1 ? (V)last / (V)(count - 1) : (V)0;
    I start = (I)(((V)at + sample) * alpha) - (I)(sample * alpha);
    return start < 0 ? 0 : start > last ? last : start;
}

/// Maxima of windows that begin at random positions: samples [planes, rank] in the order of the axes, those of
/// images (FLAT) in the reverse one. The results are contiguous.
template <class T, class V, class I, u32 FLAT>
__global__ void pool_fractional(Pool pool, Image to, Image from, u64 n, T* out, i64* indices, const T* in, const T* samples) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5], start[3];
    unravel(to, i, at);
    const T* own = samples + (at[0] * (I)to.sizes[1] + at[1]) * (FLAT ? 2 : 3);
    for (int axis = 0; axis < 3; axis++) {
        if (FLAT && axis == 0) {
            start[0] = 0;
            continue;
        }
        V sample = widen(own[FLAT ? 2 - axis : axis]);
        I size = (I)from.sizes[2 + axis], count = (I)to.sizes[2 + axis];
        start[axis] = fractional_start(sample, at[2 + axis], size, count, (I)pool.kernel[axis]);
    }
    const I height = (I)from.sizes[3], width = (I)from.sizes[4];
    const T* plane = in + channel_offset(from, at);
    Largest<T, V, I> largest(0);
    for (I d = start[0]; d < start[0] + (I)pool.kernel[0]; d++) {
        for (I h = start[1]; h < start[1] + (I)pool.kernel[1]; h++) {
            const T* row = plane + (d * (I)from.strides[2] + h * (I)from.strides[3]);
            for (I w = start[2]; w < start[2] + (I)pool.kernel[2]; w++) {
                largest.take(row[w * (I)from.strides[4]], (d * height + h) * width + w);
            }
        }
    }
    out[i] = largest.kept;
    indices[i] = largest.position;
}

}  // namespace ct
