// Dropout: noise, mask and result in one launch.

namespace ct {

/// Thread t has subsequence t of the random stream, and makes its blocks of four numbers into WIDE elements side by
/// side, or into four that are a grid apart where WIDE is 1, as PyTorch does.
template <class S, class V, u32 WIDE>
__global__ void dropout(u64 n, const S* in, S* out, bool* mask, double kept, u64 seed, u64 offset) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, grid = (u64)gridDim.x * blockDim.x, block = offset / 4;
    const u32 COUNT = WIDE == 1 ? 4 : WIDE;
    V limit = (V)kept, scale = (V)1 / limit;
    for (u64 first = thread * WIDE; first < n; first += grid * COUNT, block++) {
        float numbers[4];
        Drawn<float>::uniform(philox(seed, thread, block), numbers);
        #pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            u64 i = WIDE == 1 ? first + k * grid : first + k;
            if (i >= n) break;
            bool keeps = numbers[k] < limit;
            out[i] = narrow<S>((V)widen(in[i]) * (keeps ? (V)1 : (V)0) * scale);
            mask[i] = keeps;
        }
    }
}

template <class S, class V> __global__ void masked_scale(u64 n, const S* in, const bool* mask, S* out, double scale) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = narrow<S>((V)widen(in[i]) * (mask[i] ? (V)1 : (V)0) * (V)scale);
}

}  // namespace ct
