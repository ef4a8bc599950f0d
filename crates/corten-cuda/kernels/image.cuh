// Batches of images: sizes and strides of [samples, channels, depth, height, width].

namespace ct {

struct Image {
    i64 sizes[5], strides[5];

    /// The coordinates of step `n` of a walk in the order of memory.
    CT_FN void place(u64 n, u64 total, i64 (&at)[5]) const {
        bool last = strides[1] == 1 && sizes[1] > 1;
        if (total <= 0xffffffffu) walk((u32)n, last, at);
        else walk(n, last, at);
    }

    template <class N> CT_FN void walk(N n, bool last, i64 (&at)[5]) const {
        if (last) take(n, 1, at);
        take(n, 4, at);
        take(n, 3, at);
        take(n, 2, at);
        if (!last) take(n, 1, at);
        at[0] = (i64)n;
    }

    template <class N> CT_FN void take(N& n, int axis, i64 (&at)[5]) const {
        N size = (N)sizes[axis], rest = n / size;
        at[axis] = (i64)(n - rest * size);
        n = rest;
    }

    /// The distance of a channel's first element.
    CT_FN i64 plane(const i64 (&at)[5]) const { return at[0] * strides[0] + at[1] * strides[1]; }
    CT_FN i64 offset(const i64 (&at)[5]) const {
        return plane(at) + at[2] * strides[2] + at[3] * strides[3] + at[4] * strides[4];
    }
    CT_FN i64 inner(i64 z, i64 y, i64 x) const { return z * strides[2] + y * strides[3] + x * strides[4]; }
};

CT_FN i64 floor_quotient(i64 a, i64 b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
CT_FN i64 ceil_quotient(i64 a, i64 b) { return -floor_quotient(-a, b); }

}  // namespace ct
