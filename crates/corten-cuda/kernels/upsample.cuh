// Interpolation. Results that have one, two or four taps along each dimension are computed at once;
// antialiased ones, and gradients, along one dimension of [outer, source, inner] after the other. Gradients
// are gathered: a thread per element of the source adds up what the results around it give, in their order.

namespace ct {

enum Interpolation { NEAREST = 0, EXACT = 1, LINEAR = 2, CUBIC = 3, ANTIALIAS_LINEAR = 4, ANTIALIAS_CUBIC = 5, ANTIALIAS_LANCZOS = 6 };

/// One dimension: elements of the source, results, and the distance of results in the source.
struct Axis { i64 source, count; double step; u32 align; };

/// Keys' cubic with slope `a` at 1.
template <class C> CT_FN C keys(C x, C a) {
    if (x <= (C)1) return ((a + (C)2) * x - (a + (C)3)) * x * x + (C)1;
    if (x < (C)2) return ((x - (C)5) * a * x + (C)8 * a) * x - (C)4 * a;
    return (C)0;
}

template <class C> CT_FN i64 clamped(C position, i64 source) {
    if (!(position > 0)) return 0;
    return position >= (C)(source - 1) ? source - 1 : (i64)position;
}

/// The elements of the source that a result is made of, and their weights.
template <u32 MODE, class C> struct Taps {
    enum { COUNT = MODE <= EXACT ? 1 : MODE == LINEAR ? 2 : 4 };
    i64 position[COUNT];
    C weight[COUNT];

    CT_FN Taps(const Axis& axis, i64 o) {
        C step = (C)axis.step;
        if constexpr (MODE <= EXACT) {
            position[0] = clamped(floor((MODE == EXACT ? (C)o + (C)0.5 : (C)o) * step), axis.source);
            weight[0] = 1;
        } else {
            C at = axis.align ? step * (C)o : step * ((C)o + (C)0.5) - (C)0.5;
            if constexpr (MODE == LINEAR) {
                if (at < 0) at = 0;
                position[0] = clamped(floor(at), axis.source);
                position[1] = position[0] + 1 < axis.source ? position[0] + 1 : position[0];
                C share = at - (C)position[0];
                weight[1] = share > (C)1 ? (C)1 : share;
                weight[0] = (C)1 - weight[1];
            } else {
                C low = floor(at), t = at - low;
                for (int k = 0; k < 4; k++) {
                    position[k] = clamped(low + (C)(k - 1), axis.source);
                    C distance = k == 0 ? t + (C)1 : k == 1 ? t : k == 2 ? (C)1 - t : (C)2 - t;
                    weight[k] = keys(distance, (C)-0.75);
                }
            }
        }
    }
};

struct Axes { Axis axis[3]; };

/// A thread computes `size` of the `count` planes, one `step` after the other, at one position.
struct Planes { i64 count, size, step_to, step_from; };

/// The planes of group `group`.
CT_FN i64 planes_of(const Planes& planes, i64 group) {
    i64 rest = planes.count - group * planes.size;
    return rest < planes.size ? rest : planes.size;
}

/// The first 3 - RANK dimensions have one element.
template <class T, class C, class I, u32 MODE, u32 RANK>
__global__ void interpolate(Axes axes, Image to, Image from, Planes planes, u64 n, T* out, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5];
    unravel(to, i, at);
    typedef Taps<MODE, C> Own;
    const T* plane = in + channel_offset(from, at);
    Own x(axes.axis[2], at[4]), y(axes.axis[RANK >= 2 ? 1 : 2], at[RANK >= 2 ? 3 : 4]);
    Own z(axes.axis[RANK == 3 ? 0 : 2], at[RANK == 3 ? 2 : 4]);
    const int depths = RANK == 3 ? Own::COUNT : 1, heights = RANK >= 2 ? Own::COUNT : 1;
    T* target = out + image_offset(to, at);
    for (i64 rest = planes_of(planes, at[0]); rest > 0; rest--, plane += planes.step_from, target += planes.step_to) {
        if constexpr (MODE <= EXACT) {
            I offset = (I)x.position[0] * (I)from.strides[4];
            if (RANK >= 2) offset += (I)y.position[0] * (I)from.strides[3];
            if (RANK == 3) offset += (I)z.position[0] * (I)from.strides[2];
            *target = plane[offset];
        } else {
            C sum = 0;
            for (int d = 0; d < depths; d++) {
                C slab = 0;
                const T* at_depth = RANK == 3 ? plane + (I)z.position[d] * (I)from.strides[2] : plane;
                for (int h = 0; h < heights; h++) {
                    C line = 0;
                    const T* row = RANK >= 2 ? at_depth + (I)y.position[h] * (I)from.strides[3] : at_depth;
                    for (int w = 0; w < Own::COUNT; w++) {
                        line = mul_add(x.weight[w], (C)widen(row[(I)x.position[w] * (I)from.strides[4]]), line);
                    }
                    slab = RANK >= 2 ? mul_add(y.weight[h], line, slab) : line;
                }
                sum = RANK == 3 ? mul_add(z.weight[d], slab, sum) : slab;
            }
            *target = narrow<T>(sum);
        }
    }
}

/// The results that an element of the source may take part in: those from `below` elements before it to
/// `above` after it, and at the borders those beyond, whose taps were moved there. Centres of elements are at
/// `shift`; one result more on either side allows for rounding.
CT_FN void results_around(
    const Axis& axis, i64 position, double below, double above, double shift, i64& first, i64& end
) {
    first = 0, end = axis.count;
    if (!(axis.step > 0)) return;
    double own = axis.align ? 0 : shift, rounding = 1e-6 * ((double)position + above + 1);
    double low = ((double)position - below + own - rounding) / axis.step - own - 1;
    double high = ((double)position + above + own + rounding) / axis.step - own + 2;
    if (position > 0 && low > 0) first = low < (double)axis.count ? (i64)low : axis.count;
    if (position + 1 < axis.source && high < (double)axis.count) end = high < 0 ? 0 : (i64)high;
}

/// The gradient of the nearest modes: the sum over a box of results.
template <class T, class V, class I, u32 MODE>
__global__ void nearest_backward(Axes axes, Image to, Image from, Planes planes, u64 n, T* out, const T* grad) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    I at[5];
    i64 first[3], end[3];
    unravel(to, i, at);
    for (int k = 0; k < 3; k++) {
        const Axis& axis = axes.axis[k];
        const i64 own = at[2 + k];
        results_around(axis, own, 0, 1, 0, first[k], end[k]);
        while (first[k] < end[k] && Taps<MODE, float>(axis, first[k]).position[0] != own) first[k]++;
        while (first[k] < end[k] && Taps<MODE, float>(axis, end[k] - 1).position[0] != own) end[k]--;
    }
    const T* plane = grad + channel_offset(from, at);
    T* target = out + image_offset(to, at);
    for (i64 rest = planes_of(planes, at[0]); rest > 0; rest--, plane += planes.step_from, target += planes.step_to) {
        V sum = 0;
        for (I d = (I)first[0]; d < (I)end[0]; d++) {
            for (I h = (I)first[1]; h < (I)end[1]; h++) {
                const T* row = plane + (d * (I)from.strides[2] + h * (I)from.strides[3]);
                for (I w = (I)first[2]; w < (I)end[2]; w++) sum = sum + (V)widen(row[w * (I)from.strides[4]]);
            }
        }
        *target = narrow<T>(sum);
    }
}

/// A pass along the middle dimension of [outer, source, inner]; `width` is that of the table of weights.
struct Pass { Axis axis; i64 inner, width; u64 n; };

/// The coordinates of element `i` of [outer, size, inner].
CT_FN void split(u64 i, u64 n, i64 size, i64 inner, u64& outer, i64& middle, u64& side) {
    if (n <= 0xffffffffu) {
        u32 line = (u32)i / (u32)inner, own = line / (u32)size;
        side = (u32)i - line * (u32)inner, middle = line - own * (u32)size, outer = own;
    } else {
        u64 line = i / (u64)inner;
        outer = line / (u64)size, side = i - line * (u64)inner, middle = (i64)(line - outer * (u64)size);
    }
}

/// The gradient along one dimension.
template <class Out, class In, class C, u32 MODE>
__global__ void interpolate_backward(Pass pass, Out* out, const In* grad) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, outer, side;
    if (i >= pass.n) return;
    i64 own, first, end;
    split(i, pass.n, pass.axis.source, pass.inner, outer, own, side);
    const In* from = grad + outer * pass.axis.count * pass.inner + side;
    const double reach = MODE == CUBIC ? 2 : 1;
    results_around(pass.axis, own, reach, reach, 0.5, first, end);
    C sum = 0;
    for (i64 o = first; o < end; o++) {
        Taps<MODE, C> taps(pass.axis, o);
        for (int k = 0; k < taps.COUNT; k++) {
            if (taps.position[k] == own) sum = mul_add(taps.weight[k], (C)widen(from[o * pass.inner]), sum);
        }
    }
    out[i] = narrow<Out>(sum);
}

// Antialiasing: filters are as wide as the distance of results where that is more than an element. Their
// weights are in a table [count, width], the first and the end of the elements that they belong to in another.

template <u32 MODE> CT_FN double antialias_reach() { return MODE == ANTIALIAS_LINEAR ? 1 : MODE == ANTIALIAS_CUBIC ? 2 : 3; }

template <class C> CT_FN C sinc(C x) {
    x *= (C)3.14159265358979323846;
    return x == 0 ? (C)1 : sin(x) / x;
}

template <u32 MODE, class C> CT_FN C antialias_filter(C x) {
    x = abs(x);
    if constexpr (MODE == ANTIALIAS_LINEAR) return x < (C)1 ? (C)1 - x : (C)0;
    else if constexpr (MODE == ANTIALIAS_CUBIC) return keys(x, (C)-0.5);
    else return x < (C)3 ? sinc(x) * sinc(x / (C)3) : (C)0;
}

template <class C> CT_FN i64 antialias_bound(C position, i64 source) {
    if (!(position > 0)) return 0;
    return position >= (C)source ? source : (i64)position;
}

template <class C, u32 MODE>
__global__ void antialias_weights(Pass pass, C* weights, i64* bounds) {
    i64 o = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= pass.axis.count) return;
    C step = (C)pass.axis.step, stretch = step > (C)1 ? step : (C)1, centre = step * ((C)o + (C)0.5), total = 0;
    C reach = stretch * (C)antialias_reach<MODE>();
    i64 first = antialias_bound(centre - reach + (C)0.5, pass.axis.source);
    i64 end = antialias_bound(centre + reach + (C)0.5, pass.axis.source);
    C* row = weights + o * pass.width;
    if (end > first + pass.width) end = first + pass.width;
    for (i64 k = 0; k < end - first; k++) {
        row[k] = antialias_filter<MODE>(((C)(first + k) - centre + (C)0.5) / stretch);
        total += row[k];
    }
    bounds[2 * o] = first, bounds[2 * o + 1] = end;
    if (total == 0) return;
    for (i64 k = 0; k < end - first; k++) row[k] /= total;
}

template <class Out, class In, class C>
__global__ void antialias(Pass pass, Out* out, const In* in, const C* weights, const i64* bounds) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, outer, side;
    if (i >= pass.n) return;
    i64 o;
    split(i, pass.n, pass.axis.count, pass.inner, outer, o, side);
    const i64 first = bounds[2 * o], taps = bounds[2 * o + 1] - first;
    const In* from = in + (outer * pass.axis.source + first) * pass.inner + side;
    const C* row = weights + o * pass.width;
    C sum = 0;
    for (i64 k = 0; k < taps; k++) sum = mul_add(row[k], (C)widen(from[k * pass.inner]), sum);
    out[i] = narrow<Out>(sum);
}

template <class Out, class In, class C, u32 MODE>
__global__ void antialias_backward(Pass pass, Out* out, const In* grad, const C* weights, const i64* bounds) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, outer, side;
    if (i >= pass.n) return;
    i64 own, first, end;
    split(i, pass.n, pass.axis.source, pass.inner, outer, own, side);
    const In* from = grad + outer * pass.axis.count * pass.inner + side;
    // Filters begin at their centres whether corners are aligned or not.
    Axis centred = pass.axis;
    centred.align = 0;
    double reach = antialias_reach<MODE>() * (centred.step > 1 ? centred.step : 1) + 1;
    results_around(centred, own, reach, reach, 0.5, first, end);
    C sum = 0;
    for (i64 o = first; o < end; o++) {
        i64 k = own - bounds[2 * o];
        if (k < 0 || own >= bounds[2 * o + 1]) continue;
        sum = mul_add(weights[o * pass.width + k], (C)widen(from[o * pass.inner]), sum);
    }
    out[i] = narrow<Out>(sum);
}

}  // namespace ct
