// Pooling over windows. The gradients are gathered: a thread per element of the input adds up what the
// windows around it give, in the order of the windows.

namespace ct {

/// The windows of each axis: sliding ones, or those of an adaptive pooling.
struct Pool { i64 kernel[3], stride[3], padding[3], dilation[3]; };

/// Elements start, start + step, ... below end.
struct Window { i64 start, end, step, padded; };

template <u32 ADAPTIVE> CT_FN Window pool_window(const Pool& pool, int axis, i64 at, i64 size, i64 count) {
    Window w;
    if constexpr (ADAPTIVE) {
        w.start = at * size / count;
        w.end = ((at + 1) * size + count - 1) / count;
        w.step = 1;
        w.padded = w.end - w.start;
    } else {
        i64 first = at * pool.stride[axis] - pool.padding[axis], step = pool.dilation[axis];
        i64 end = first + (pool.kernel[axis] - 1) * step + 1;
        if (end > size + pool.padding[axis]) end = size + pool.padding[axis];
        w.padded = end - first;
        w.start = first < 0 ? first + (-first + step - 1) / step * step : first;
        w.end = end < size ? end : size;
        w.step = step;
    }
    return w;
}

CT_FN i64 pool_length(const Window& w) { return w.end <= w.start ? 0 : (w.end - w.start + w.step - 1) / w.step; }

/// The windows that may hold an element: the first, and the end.
template <u32 ADAPTIVE> CT_FN void pool_holders(const Pool& pool, int axis, i64 at, i64 size, i64 count, i64& first, i64& end) {
    if constexpr (ADAPTIVE) {
        first = at * count / size;
        end = ((at + 1) * count + size - 1) / size;
    } else {
        i64 reach = (pool.kernel[axis] - 1) * pool.dilation[axis];
        first = ceil_quotient(at + pool.padding[axis] - reach, pool.stride[axis]);
        end = floor_quotient(at + pool.padding[axis], pool.stride[axis]) + 1;
    }
    if (first < 0) first = 0;
    if (end > count) end = count;
}

template <class V, class T> CT_FN V to_value(T x) { return to<V>(widen(x)); }
/// An integer as a value, exactly.
template <class V> CT_FN V lit_whole(i64 x) { return to<V>(Int<i64>(x)); }

/// What a window's sum is divided by. Kind 0: the elements with padding, 1: those without, 2: a number.
CT_FN i64 pool_divisor(i64 divisor, u32 kind, const Window& z, const Window& y, const Window& x) {
    i64 inside = pool_length(z) * pool_length(y) * pool_length(x);
    // Windows without an element give zero, not NaN.
    if (inside == 0) return 1;
    if (kind == 0) return z.padded * y.padded * x.padded;
    return kind == 1 ? inside : divisor;
}

template <class T, class V, u32 ADAPTIVE>
__global__ void pool_max(Pool pool, Image to, Image from, Image places, u64 n, T* out, i64* indices, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 at[5];
    to.place(i, n, at);
    Window z = pool_window<ADAPTIVE>(pool, 0, at[2], from.sizes[2], to.sizes[2]);
    Window y = pool_window<ADAPTIVE>(pool, 1, at[3], from.sizes[3], to.sizes[3]);
    Window x = pool_window<ADAPTIVE>(pool, 2, at[4], from.sizes[4], to.sizes[4]);
    const T* plane = in + from.plane(at);
    bool any = false;
    T kept = narrow<T>(lit<V>(0.0));
    V best = lit<V>(0.0);
    i64 place = (z.start * from.sizes[3] + y.start) * from.sizes[4] + x.start;
    for (i64 d = z.start; d < z.end; d += z.step) {
        for (i64 h = y.start; h < y.end; h += y.step) {
            for (i64 w = x.start; w < x.end; w += x.step) {
                T raw = plane[from.inner(d, h, w)];
                V value = widen(raw);
                if (!any || lt(best, value) || is_nan(value)) {
                    any = true, best = value, kept = raw;
                    place = (d * from.sizes[3] + h) * from.sizes[4] + w;
                }
            }
        }
    }
    out[to.offset(at)] = kept;
    indices[places.offset(at)] = place;
}

template <class T, class V, u32 ADAPTIVE>
__global__ void pool_max_backward(
    Pool pool, Image to, Image from, Image places, u64 n, T* out, const T* grad, const i64* indices
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 at[5], first[3], end[3];
    to.place(i, n, at);
    for (int axis = 0; axis < 3; axis++) {
        pool_holders<ADAPTIVE>(pool, axis, at[2 + axis], to.sizes[2 + axis], from.sizes[2 + axis], first[axis], end[axis]);
    }
    i64 own = (at[2] * to.sizes[3] + at[3]) * to.sizes[4] + at[4];
    const T* plane = grad + from.plane(at);
    const i64* chosen = indices + places.plane(at);
    V sum = lit<V>(0.0);
    for (i64 d = first[0]; d < end[0]; d++) {
        for (i64 h = first[1]; h < end[1]; h++) {
            for (i64 w = first[2]; w < end[2]; w++) {
                if (chosen[places.inner(d, h, w)] == own) sum = sum + to_value<V>(plane[from.inner(d, h, w)]);
            }
        }
    }
    out[to.offset(at)] = narrow<T>(sum);
}

template <class T, class V, u32 ADAPTIVE>
__global__ void pool_average(Pool pool, Image to, Image from, i64 divisor, u32 kind, u64 n, T* out, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 at[5];
    to.place(i, n, at);
    Window z = pool_window<ADAPTIVE>(pool, 0, at[2], from.sizes[2], to.sizes[2]);
    Window y = pool_window<ADAPTIVE>(pool, 1, at[3], from.sizes[3], to.sizes[3]);
    Window x = pool_window<ADAPTIVE>(pool, 2, at[4], from.sizes[4], to.sizes[4]);
    const T* plane = in + from.plane(at);
    V sum = lit<V>(0.0);
    for (i64 d = z.start; d < z.end; d++) {
        for (i64 h = y.start; h < y.end; h++) {
            for (i64 w = x.start; w < x.end; w++) sum = sum + to_value<V>(plane[from.inner(d, h, w)]);
        }
    }
    out[to.offset(at)] = narrow<T>(sum / lit_whole<V>(pool_divisor(divisor, kind, z, y, x)));
}

template <class T, class V, u32 ADAPTIVE>
__global__ void pool_average_backward(Pool pool, Image to, Image from, i64 divisor, u32 kind, u64 n, T* out, const T* grad) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 at[5], first[3], end[3];
    to.place(i, n, at);
    for (int axis = 0; axis < 3; axis++) {
        pool_holders<ADAPTIVE>(pool, axis, at[2 + axis], to.sizes[2 + axis], from.sizes[2 + axis], first[axis], end[axis]);
    }
    const T* plane = grad + from.plane(at);
    V sum = lit<V>(0.0);
    for (i64 d = first[0]; d < end[0]; d++) {
        Window z = pool_window<ADAPTIVE>(pool, 0, d, to.sizes[2], from.sizes[2]);
        for (i64 h = first[1]; h < end[1]; h++) {
            Window y = pool_window<ADAPTIVE>(pool, 1, h, to.sizes[3], from.sizes[3]);
            for (i64 w = first[2]; w < end[2]; w++) {
                Window x = pool_window<ADAPTIVE>(pool, 2, w, to.sizes[4], from.sizes[4]);
                V share = lit_whole<V>(pool_divisor(divisor, kind, z, y, x));
                sum = sum + to_value<V>(plane[from.inner(d, h, w)]) / share;
            }
        }
    }
    out[to.offset(at)] = narrow<T>(sum);
}

/// Maxima of windows that begin at random places: samples [planes, rank] in the order of the axes, of
/// images in the reverse one. Tensors are contiguous.
template <class T, class V, u32 FLAT>
__global__ void pool_fractional(Pool pool, Image to, Image from, u64 n, T* out, i64* indices, const T* in, const T* samples) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 at[5], start[3];
    to.place(i, n, at);
    i64 own = at[0] * to.sizes[1] + at[1];
    for (int axis = 0; axis < 3; axis++) {
        i64 size = from.sizes[2 + axis], count = to.sizes[2 + axis], last = size - pool.kernel[axis], o = at[2 + axis];
        if (FLAT && axis == 0) {
            start[0] = 0;
            continue;
        }
        V sample = widen(samples[FLAT ? own * 2 + (2 - axis) : own * 3 + axis]);
        V alpha = count > 1 ? (V)widen(narrow<T>((V)last / (V)(count - 1))) : (V)0;
        V first = trunc((V)widen(narrow<T>(sample * alpha)));
        V moved = (V)widen(narrow<T>((V)o + sample));
        i64 place = (i64)(trunc((V)widen(narrow<T>(moved * alpha))) - first);
        if (o + 1 == count) place = last;
        start[axis] = place < 0 ? 0 : place > last ? last : place;
    }
    const T* plane = in + from.plane(at);
    bool any = false;
    T kept = narrow<T>(lit<V>(0.0));
    V best = lit<V>(0.0);
    i64 where = 0;
    for (i64 d = start[0]; d < start[0] + pool.kernel[0]; d++) {
        for (i64 h = start[1]; h < start[1] + pool.kernel[1]; h++) {
            for (i64 w = start[2]; w < start[2] + pool.kernel[2]; w++) {
                T raw = plane[from.inner(d, h, w)];
                V value = widen(raw);
                if (!any || lt(best, value) || is_nan(value)) {
                    any = true, best = value, kept = raw;
                    where = (d * from.sizes[3] + h) * from.sizes[4] + w;
                }
            }
        }
    }
    out[i] = kept;
    indices[i] = where;
}

}  // namespace ct
