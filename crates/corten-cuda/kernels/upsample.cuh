// Resampling along one dimension of [outer, source, inner]: forward a thread per result, backward a thread
// per element of the source, which adds up what the results around it give.

namespace ct {

enum Resampling { NEAREST = 0, EXACT = 1, LINEAR = 2, CUBIC = 3, WIDE_LINEAR = 4, WIDE_CUBIC = 5, WIDE_SINE = 6 };

struct Resample {
    u64 n;
    i64 source, count, inner;
    double step;
    u32 align;
};

/// Keys' cubic with slope `a` at 1.
template <class C> CT_FN C keys(C x, C a) {
    if (x <= (C)1) return ((a + (C)2) * x - (a + (C)3)) * x * x + (C)1;
    if (x < (C)2) return ((x - (C)5) * a * x + (C)8 * a) * x - (C)4 * a;
    return (C)0;
}
template <class C> CT_FN C sinc(C x) {
    x *= (C)3.14159265358979323846;
    return x == 0 ? (C)1 : sin(x) / x;
}

/// The taps of a result: those of fixed width, or first ... end - 1 with weights that sum to `total`.
template <u32 MODE, class C> struct Taps {
    i64 source, first, end;
    C at, stretch, total;

    CT_FN i64 clamped(C place) const {
        if (!(place > 0)) return 0;
        return place >= (C)(source - 1) ? source - 1 : (i64)place;
    }

    CT_FN Taps(const Resample& r, i64 o) : source(r.source), first(0), end(0), at(0), stretch(1), total(1) {
        C step = (C)r.step;
        if constexpr (MODE == NEAREST) {
            first = clamped(floor((C)o * step));
        } else if constexpr (MODE == EXACT) {
            first = clamped(floor(((C)o + (C)0.5) * step));
        } else if constexpr (MODE == LINEAR || MODE == CUBIC) {
            at = r.align ? step * (C)o : step * ((C)o + (C)0.5) - (C)0.5;
            if (MODE == LINEAR) {
                if (r.source == r.count) at = (C)o;
                if (at < 0) at = 0;
                first = clamped(floor(at));
            }
        } else {
            at = step * ((C)o + (C)0.5);
            stretch = step > (C)1 ? step : (C)1;
            C reach = stretch * (C)(MODE == WIDE_LINEAR ? 1 : MODE == WIDE_CUBIC ? 2 : 3);
            first = bounded(at - reach + (C)0.5), end = bounded(at + reach + (C)0.5);
            total = 0;
            for (i64 place = first; place < end; place++) total += wide(place);
            if (total == 0) total = 1;
        }
    }

    CT_FN i64 bounded(C place) const {
        if (!(place > 0)) return 0;
        return place >= (C)source ? source : (i64)place;
    }

    /// The weight of a place of the wide modes, before division by their sum.
    CT_FN C wide(i64 place) const {
        C x = abs(((C)place - at + (C)0.5) / stretch);
        if constexpr (MODE == WIDE_LINEAR) return x < (C)1 ? (C)1 - x : (C)0;
        else if constexpr (MODE == WIDE_CUBIC) return keys(x, (C)-0.5);
        else return x < (C)3 ? sinc(x) * sinc(x / (C)3) : (C)0;
    }

    CT_FN i64 size() const {
        return MODE <= EXACT ? 1 : MODE == LINEAR ? 2 : MODE == CUBIC ? 4 : end - first;
    }

    CT_FN void tap(i64 k, i64& place, C& weight) const {
        if constexpr (MODE <= EXACT) {
            place = first, weight = 1;
        } else if constexpr (MODE == LINEAR) {
            C share = at - (C)first;
            share = share > (C)1 ? (C)1 : share;
            place = k == 0 || first + 1 >= source ? first : first + 1;
            weight = k == 0 ? (C)1 - share : share;
        } else if constexpr (MODE == CUBIC) {
            C low = floor(at), t = at - low;
            place = clamped(low - (C)1 + (C)k);
            weight = keys(k == 0 ? t + (C)1 : k == 1 ? t : k == 2 ? (C)1 - t : (C)2 - t, (C)-0.75);
        } else {
            place = first + k, weight = wide(place) / total;
        }
    }
};

template <class Out, class In, class V, class C, u32 MODE>
__global__ void resample(Resample r, Out* out, const In* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= r.n) return;
    u64 line, side;
    i64 o;
    if (r.n <= 0xffffffffu) {
        u32 rest = (u32)i / (u32)r.inner;
        side = (u32)i - rest * (u32)r.inner;
        line = rest / (u32)r.count;
        o = rest - (u32)line * (u32)r.count;
    } else {
        u64 rest = i / r.inner;
        side = i % r.inner, line = rest / r.count, o = rest % r.count;
    }
    const In* from = in + line * r.source * r.inner + side;
    Taps<MODE, C> taps(r, o);
    if constexpr (MODE <= EXACT) {
        out[i] = narrow<Out>(widen(from[taps.first * r.inner]));
    } else {
        V sum = 0;
        i64 size = taps.size();
        for (i64 k = 0; k < size; k++) {
            i64 place;
            C weight;
            taps.tap(k, place, weight);
            sum = mul_add((V)weight, to<V>(widen(from[place * r.inner])), sum);
        }
        out[i] = narrow<Out>(sum);
    }
}

/// The results that an element of the source may take part in: those that lie around it, and at the
/// borders those beyond, which were moved there.
template <u32 MODE> CT_FN void resample_holders(const Resample& r, i64 x, i64& first, i64& end) {
    first = 0, end = r.count;
    if (!(r.step > 0)) return;
    double reach = MODE <= LINEAR ? 1 : MODE == CUBIC ? 2 : MODE == WIDE_LINEAR ? 1 : MODE == WIDE_CUBIC ? 2 : 3;
    if (MODE >= WIDE_LINEAR && r.step > 1) reach *= r.step;
    // Generous by a result on either side, which then has no weight here.
    double low = ((double)x - reach - 1) / r.step - 2, high = ((double)x + reach + 1) / r.step + 2;
    if (x > 0 && low > 0) first = low < (double)r.count ? (i64)low : r.count;
    if (x + 1 < r.source && high < (double)r.count) end = high < 0 ? 0 : (i64)high + 1;
    if (end > r.count) end = r.count;
}

template <class Out, class In, class V, class C, u32 MODE>
__global__ void resample_backward(Resample r, Out* out, const In* grad) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= r.n) return;
    u64 rest = i / r.inner, side = i % r.inner, line = rest / r.source;
    i64 x = (i64)(rest % r.source), first, end;
    const In* from = grad + line * r.count * r.inner + side;
    resample_holders<MODE>(r, x, first, end);
    V sum = 0;
    for (i64 o = first; o < end; o++) {
        Taps<MODE, C> taps(r, o);
        if constexpr (MODE >= WIDE_LINEAR) {
            if (x >= taps.first && x < taps.end) {
                sum = mul_add((V)(taps.wide(x) / taps.total), to<V>(widen(from[o * r.inner])), sum);
            }
        } else {
            for (i64 k = 0; k < taps.size(); k++) {
                i64 place;
                C weight;
                taps.tap(k, place, weight);
                if (place == x) sum = mul_add((V)weight, to<V>(widen(from[o * r.inner])), sum);
            }
        }
    }
    out[i] = narrow<Out>(sum);
}

}  // namespace ct
