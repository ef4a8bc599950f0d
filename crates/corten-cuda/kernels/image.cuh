// Batches of images: sizes and strides of [samples, channels, depth, height, width]. Coordinates and offsets
// are integers of type I, which has 64 bits only where 32 are not enough.

namespace ct {

struct Image { i64 sizes[5], strides[5]; };

template <class I> CT_FN I split_index(typename choose<sizeof(I) == 4, u32, u64>::type& index, i64 size) {
    typedef typename choose<sizeof(I) == 4, u32, u64>::type U;
    U quotient = index / (U)size, rest = index - quotient * (U)size;
    index = quotient;
    return (I)rest;
}

/// The coordinates of an element by its number in the order of memory, contiguous or with channels last.
template <class I> CT_FN void unravel(const Image& image, u64 number, I (&at)[5]) {
    typename choose<sizeof(I) == 4, u32, u64>::type index = number;
    bool channels_last = image.strides[1] == 1 && image.sizes[1] > 1;
    if (channels_last) at[1] = split_index<I>(index, image.sizes[1]);
    for (int axis = 4; axis >= 2; axis--) at[axis] = split_index<I>(index, image.sizes[axis]);
    if (!channels_last) at[1] = split_index<I>(index, image.sizes[1]);
    at[0] = (I)index;
}

/// The offset of the first element of a channel.
template <class I> CT_FN I channel_offset(const Image& image, const I (&at)[5]) {
    return at[0] * (I)image.strides[0] + at[1] * (I)image.strides[1];
}

template <class I> CT_FN I image_offset(const Image& image, const I (&at)[5]) {
    return channel_offset(image, at) + at[2] * (I)image.strides[2] + at[3] * (I)image.strides[3] +
           at[4] * (I)image.strides[4];
}

template <class I> CT_FN I floor_quotient(I a, I b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace ct
