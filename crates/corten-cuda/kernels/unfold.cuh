// Images as matrices of sliding blocks, and back.

namespace ct {

struct Blocks { i64 image[2], kernel[2], blocks[2], stride[2], padding[2], dilation[2]; };

/// A thread per element of the matrices [samples, channels * kernel, blocks].
template <class T> __global__ void im2col(Blocks s, u64 n, T* out, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 rest = i;
    i64 x = (i64)(rest % s.blocks[1]);
    rest /= s.blocks[1];
    i64 y = (i64)(rest % s.blocks[0]);
    rest /= s.blocks[0];
    i64 kx = (i64)(rest % s.kernel[1]);
    rest /= s.kernel[1];
    i64 ky = (i64)(rest % s.kernel[0]);
    u64 plane = rest / s.kernel[0];
    i64 h = y * s.stride[0] + ky * s.dilation[0] - s.padding[0];
    i64 w = x * s.stride[1] + kx * s.dilation[1] - s.padding[1];
    bool inside = h >= 0 && w >= 0 && h < s.image[0] && w < s.image[1];
    typedef typename Value<T>::type V;
    out[i] = inside ? in[(plane * s.image[0] + h) * s.image[1] + w] : narrow<T>(lit<V>(0.0));
}

/// A thread per pixel, which adds up the elements of the columns that lie there.
template <class T, class V> __global__ void col2im(Blocks s, u64 n, T* out, const T* in) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 w = (i64)(i % s.image[1]), h = (i64)(i / s.image[1] % s.image[0]);
    u64 plane = i / s.image[1] / s.image[0];
    i64 count = s.blocks[0] * s.blocks[1];
    const T* columns = in + plane * s.kernel[0] * s.kernel[1] * count;
    V sum = lit<V>(0.0);
    for (i64 ky = 0; ky < s.kernel[0]; ky++) {
        i64 y = h + s.padding[0] - ky * s.dilation[0];
        if (y < 0 || y % s.stride[0] != 0 || y / s.stride[0] >= s.blocks[0]) continue;
        for (i64 kx = 0; kx < s.kernel[1]; kx++) {
            i64 x = w + s.padding[1] - kx * s.dilation[1];
            if (x < 0 || x % s.stride[1] != 0 || x / s.stride[1] >= s.blocks[1]) continue;
            i64 block = y / s.stride[0] * s.blocks[1] + x / s.stride[1];
            sum = sum + to<V>(widen(columns[(ky * s.kernel[1] + kx) * count + block]));
        }
    }
    out[i] = narrow<T>(sum);
}

}  // namespace ct
