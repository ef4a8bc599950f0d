// Regions of images in bins: means of samples between pixels, means and maxima of pixels. With OWN each bin has a
// channel of the images of its own.

namespace ct {

struct Regions {
    i64 images, channels, height, width, rows, columns;
    double scale;
    i64 ratio;
    u32 aligned;
};

/// Which region, image, channel and bin an element of the result is of.
template <class V> struct Placed {
    i64 region, image, channel, row, column;
    V corners[4];
};

template <bool OWN, class S, class V>
CT_FN bool placed(u64 i, const S* rois, const Regions& shape, Placed<V>& out, u32* failure) {
    u64 bins = (u64)(shape.rows * shape.columns), per_region = OWN ? (u64)shape.channels : shape.channels * bins;
    out.region = (i64)(i / per_region);
    u64 place = i % per_region, bin = place % bins;
    out.channel = (i64)(OWN ? place : place / bins);
    out.row = (i64)(bin / shape.columns), out.column = (i64)(bin % shape.columns);
    const S* own = rois + out.region * 5;
    V image = widen(own[0]);
    if (!(image > -1 && image < (V)shape.images)) { *failure = 1; return false; }
    out.image = (i64)image;
    for (int k = 0; k < 4; k++) out.corners[k] = widen(own[k + 1]);
    return true;
}

/// The samples of a bin along one axis: where the first one is, how far they are apart and how many there are;
/// those far outside of an axis of `size` pixels are left out.
template <class V> struct Samples {
    V first, length;
    i64 count, low, high;
    CT_FN V at(i64 k) const { return first + ((V)k + (V)0.5) * length / (V)count; }
};

template <class V> CT_FN Samples<V> samples_of(V start, V extent, i64 bin, i64 bins, i64 ratio, i64 size) {
    Samples<V> out;
    out.length = extent / (V)bins;
    V whole = ceil(out.length);
    out.count = ratio > 0 ? ratio : whole > 0 && whole < (V)1e9 ? (i64)whole : 0;
    out.first = start + (V)bin * out.length;
    out.low = 0, out.high = out.count;
    double step = (double)out.length / (double)out.count;
    if (!(out.first - out.first == 0) || !(out.length - out.length == 0)) {
        out.high = 0;
    } else if (step > 0) {
        double low = ::floor((-1.0 - (double)out.first) / step - 0.5) - 2;
        double high = ::ceil(((double)size - (double)out.first) / step - 0.5) + 2;
        out.low = low > 0 ? (low < (double)out.count ? (i64)low : out.count) : 0;
        out.high = high > 0 ? (high < (double)out.count ? (i64)high : out.count) : 0;
    }
    return out;
}

/// The pixels beside a place and the share of the second; none for a place outside.
template <class V> CT_FN bool beside(V at, i64 size, i64* low, i64* high, V* share) {
    if (!(at >= -1 && at <= (V)size) || size == 0) return false;
    if (at <= 0) at = 0;
    *low = (i64)at;
    if (*low + 1 >= size) {
        *low = *high = size - 1, *share = 0;
    } else {
        *high = *low + 1, *share = at - (V)*low;
    }
    return true;
}

/// Calls use(offset in the plane, weight) for the four pixels of each sample of a bin; gives their number.
template <bool OWN, class V, class Use>
CT_FN V for_samples(const Placed<V>& place, const Regions& shape, Use use) {
    V scale = (V)shape.scale, offset = OWN || shape.aligned ? (V)0.5 : (V)0;
    V x1 = place.corners[0] * scale - offset, y1 = place.corners[1] * scale - offset;
    V width = place.corners[2] * scale - offset - x1, height = place.corners[3] * scale - offset - y1;
    if (!OWN && !shape.aligned) width = width > 1 ? width : (V)1, height = height > 1 ? height : (V)1;
    Samples<V> rows = samples_of(y1, height, place.row, shape.rows, shape.ratio, shape.height);
    Samples<V> columns = samples_of(x1, width, place.column, shape.columns, shape.ratio, shape.width);
    for (i64 j = rows.low; j < rows.high; j++) {
        i64 top, bottom;
        V down;
        if (!beside(rows.at(j), shape.height, &top, &bottom, &down)) continue;
        for (i64 k = columns.low; k < columns.high; k++) {
            i64 left, right;
            V along;
            if (!beside(columns.at(k), shape.width, &left, &right, &along)) continue;
            use(top * shape.width + left, ((V)1 - down) * ((V)1 - along));
            use(top * shape.width + right, ((V)1 - down) * along);
            use(bottom * shape.width + left, down * ((V)1 - along));
            use(bottom * shape.width + right, down * along);
        }
    }
    V count = (V)((double)rows.count * (double)columns.count);
    return OWN || count > 1 ? count : (V)1;
}

template <class S, class V, u32 OWN>
__global__ void align_regions(u64 n, S* out, i32* channels, const S* in, const S* rois, Regions shape, u32* failure) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Placed<V> place;
    if (!placed<OWN != 0>(i, rois, shape, place, failure)) return;
    const S* plane = in + (place.image * shape.channels + place.channel) * shape.height * shape.width;
    V sum = 0;
    V count = for_samples<OWN != 0>(place, shape, [&](i64 at, V weight) { sum += (V)widen(plane[at]) * weight; });
    out[i] = narrow<S>(sum / count);
    if (OWN) channels[i] = (i32)place.channel;
}

/// Adds gradients to those of the pixels; A is what is added in.
template <class S, class A, u32 OWN>
__global__ void align_regions_gradient(u64 n, A* out, const S* grad, const S* rois, Regions shape, u32* failure) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Placed<A> place;
    if (!placed<OWN != 0>(i, rois, shape, place, failure)) return;
    A* plane = out + (place.image * shape.channels + place.channel) * shape.height * shape.width;
    A share = (A)widen(grad[i]) / for_samples<OWN != 0>(place, shape, [](i64, A) {});
    for_samples<OWN != 0>(place, shape, [&](i64 at, A weight) {
        if (weight != 0) combine_atomically<ADD, A, A>(plane + at, share * weight);
    });
}

/// To the nearest whole number, halves away from zero.
template <class V> CT_FN V half_away(V x) { return x < 0 ? -floor(-x + (V)0.5) : floor(x + (V)0.5); }

/// The pixels of a bin along one axis.
template <bool OWN, class V>
CT_FN void pixels_of(V first, V last, V scale, i64 bin, i64 bins, i64 size, i64* low, i64* high) {
    i64 start = truncated<i64>((double)half_away(first * scale)), end = truncated<i64>((double)half_away(last * scale));
    i64 extent = end - start + (OWN ? 0 : 1), most = OWN ? (size > 0 ? size - 1 : 0) : size;
    V length = (V)(extent > 1 ? extent : 1) / (V)bins;
    i64 from = start + truncated<i64>((double)floor((V)bin * length));
    i64 to = start + truncated<i64>((double)ceil(((V)bin + 1) * length));
    *low = from < 0 ? 0 : from > most ? most : from;
    *high = to < 0 ? 0 : to > most ? most : to;
}

/// The maximum of the pixels of each bin and its place, -1 for none.
template <class S, class V>
__global__ void pool_regions(u64 n, S* out, i32* places, const S* in, const S* rois, Regions shape, u32* failure) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Placed<V> place;
    if (!placed<false>(i, rois, shape, place, failure)) return;
    i64 top, bottom, left, right;
    V scale = (V)shape.scale;
    pixels_of<false>(place.corners[1], place.corners[3], scale, place.row, shape.rows, shape.height, &top, &bottom);
    pixels_of<false>(place.corners[0], place.corners[2], scale, place.column, shape.columns, shape.width, &left, &right);
    const S* plane = in + (place.image * shape.channels + place.channel) * shape.height * shape.width;
    // Bins of NaN alone have the least number.
    V best = top < bottom && left < right ? (V)-3.4028234663852886e38 : (V)0;
    i64 found = -1;
    for (i64 row = top; row < bottom; row++) {
        for (i64 column = left; column < right; column++) {
            V value = widen(plane[row * shape.width + column]);
            if (value > best) best = value, found = row * shape.width + column;
        }
    }
    out[i] = narrow<S>(best);
    places[i] = (i32)found;
}

template <class S, class A>
__global__ void pool_regions_gradient(
    u64 n, A* out, const S* grad, const S* rois, const i32* places, Regions shape, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Placed<A> place;
    i64 at = places[i];
    if (at == -1 || !placed<false>(i, rois, shape, place, failure)) return;
    if (at < 0 || at >= shape.height * shape.width) { *failure = 1; return; }
    A* plane = out + (place.image * shape.channels + place.channel) * shape.height * shape.width;
    combine_atomically<ADD, A, A>(plane + at, (A)widen(grad[i]));
}

/// The mean of the pixels of each bin; with GRADIENT its share is added to those of the pixels of `sums`.
template <class S, class A, u32 GRADIENT>
__global__ void pool_means(
    u64 n, S* values, i32* channels, A* sums, const S* in, const S* rois, Regions shape, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Placed<A> place;
    if (!placed<true>(i, rois, shape, place, failure)) return;
    i64 top, bottom, left, right;
    A scale = (A)shape.scale, sum = 0;
    pixels_of<true>(place.corners[1], place.corners[3], scale, place.row, shape.rows, shape.height, &top, &bottom);
    pixels_of<true>(place.corners[0], place.corners[2], scale, place.column, shape.columns, shape.width, &left, &right);
    i64 start = (place.image * shape.channels + place.channel) * shape.height * shape.width;
    A pixels = bottom > top && right > left ? (A)((bottom - top) * (right - left)) : (A)0;
    A share = GRADIENT ? (A)widen(values[i]) / pixels : (A)0;
    for (i64 row = top; row < bottom; row++) {
        for (i64 column = left; column < right; column++) {
            i64 at = start + row * shape.width + column;
            if constexpr (GRADIENT) combine_atomically<ADD, A, A>(sums + at, share);
            else sum += (A)widen(in[at]);
        }
    }
    if (GRADIENT) return;
    values[i] = narrow<S>(pixels > 0 ? sum / pixels : (A)0);
    channels[i] = (i32)place.channel;
}

}  // namespace ct
