// Convolutions whose taps are moved by offsets: what the taps read as columns of a matrix, and the gradients.

namespace ct {

struct Deform {
    i64 channels, height, width, offset_groups;
    i64 kernel[2], output[2], stride[2], padding[2], dilation[2];
};

/// A place between four pixels: their offsets in the plane, -1 for those that do not exist.
template <class T> struct DeformSample {
    i64 pixels[4];
    T down, right;
    CT_FN T weight(int k) const { return (k & 2 ? down : 1 - down) * (k & 1 ? right : 1 - right); }
    CT_FN T pixel(const T* plane, int k) const { return pixels[k] < 0 ? (T)0 : plane[pixels[k]]; }
    CT_FN T value(const T* plane) const {
        T sum = 0;
        for (int k = 0; k < 4; k++) sum += weight(k) * pixel(plane, k);
        return sum;
    }
};

/// `at` is the place of the tap among those of all images, groups of offsets, taps and places.
template <class T>
CT_FN DeformSample<T> deform_sample(const T* offset, const Deform& shape, u64 at) {
    u64 places = (u64)(shape.output[0] * shape.output[1]), taps = (u64)(shape.kernel[0] * shape.kernel[1]);
    u64 place = at % places, tap = at / places % taps, first = at / places * 2 * places + place;
    i64 step[2] = {(i64)(tap / shape.kernel[1]), (i64)(tap % shape.kernel[1])};
    i64 out[2] = {(i64)(place / shape.output[1]), (i64)(place % shape.output[1])};
    T y = (T)(out[0] * shape.stride[0] - shape.padding[0] + step[0] * shape.dilation[0]) + offset[first];
    T x = (T)(out[1] * shape.stride[1] - shape.padding[1] + step[1] * shape.dilation[1]) + offset[first + places];
    DeformSample<T> sample;
    for (int k = 0; k < 4; k++) sample.pixels[k] = -1;
    T top = floor(y), left = floor(x);
    sample.down = y - top, sample.right = x - left;
    if (!(y > -1 && y < (T)shape.height && x > -1 && x < (T)shape.width)) return sample;
    for (int k = 0; k < 4; k++) {
        i64 row = (i64)top + (k >> 1), column = (i64)left + (k & 1);
        bool inside = row >= 0 && column >= 0 && row < shape.height && column < shape.width;
        sample.pixels[k] = inside ? row * shape.width + column : -1;
    }
    return sample;
}

/// The tap of an element of the columns, which are ordered by image, channel, tap and place.
CT_FN u64 deform_tap(u64 i, const Deform& shape, u64* plane) {
    u64 inner = (u64)(shape.output[0] * shape.output[1] * shape.kernel[0] * shape.kernel[1]);
    u64 channel = i / inner % shape.channels, image = i / inner / shape.channels;
    *plane = image * shape.channels + channel;
    return (image * shape.offset_groups + channel / (shape.channels / shape.offset_groups)) * inner + i % inner;
}

template <class T>
__global__ void deform_columns(u64 n, T* columns, const T* in, const T* offset, const T* mask, Deform shape) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, plane;
    if (i >= n) return;
    u64 at = deform_tap(i, shape, &plane);
    T value = deform_sample(offset, shape, at).value(in + plane * shape.height * shape.width);
    columns[i] = mask ? value * mask[at] : value;
}

/// Adds the gradients of what taps read to those of the pixels.
template <class T>
__global__ void deform_to_input(u64 n, T* out, const T* grad, const T* offset, const T* mask, Deform shape) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, plane;
    if (i >= n) return;
    u64 at = deform_tap(i, shape, &plane);
    DeformSample<T> sample = deform_sample(offset, shape, at);
    T share = mask ? grad[i] * mask[at] : grad[i];
    for (int k = 0; k < 4; k++) {
        if (sample.pixels[k] < 0) continue;
        combine_atomically<ADD, T, T>(out + plane * shape.height * shape.width + sample.pixels[k], share * sample.weight(k));
    }
}

/// The gradients of offsets and mask, a tap of a group of offsets per thread.
template <class T>
__global__ void deform_to_offsets(
    u64 n, T* to_offset, T* to_mask, const T* grad, const T* in, const T* offset, const T* mask, Deform shape
) {
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    u64 places = (u64)(shape.output[0] * shape.output[1]), inner = places * shape.kernel[0] * shape.kernel[1];
    u64 group = at / inner, per_group = (u64)(shape.channels / shape.offset_groups);
    DeformSample<T> sample = deform_sample(offset, shape, at);
    T share = mask ? mask[at] : (T)1, down = 0, right = 0, of_mask = 0;
    for (u64 k = 0; k < per_group; k++) {
        // Groups of all images follow each other as their channels do.
        u64 channel = group * per_group + k;
        const T* plane = in + channel * shape.height * shape.width;
        T g = grad[channel * inner + at % inner];
        T a = sample.pixel(plane, 0), b = sample.pixel(plane, 1), c = sample.pixel(plane, 2), d = sample.pixel(plane, 3);
        down += g * share * ((1 - sample.right) * (c - a) + sample.right * (d - b));
        right += g * share * ((1 - sample.down) * (b - a) + sample.down * (d - c));
        of_mask += g * sample.value(plane);
    }
    u64 first = at / places * 2 * places + at % places;
    to_offset[first] = down, to_offset[first + places] = right;
    if (to_mask) to_mask[at] = of_mask;
}

}  // namespace ct
