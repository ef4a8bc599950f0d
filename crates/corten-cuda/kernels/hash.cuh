// The exclusive or of the bits of lines, floating-point numbers as doubles and others as 64-bit integers.

namespace ct {

template <class S> __global__ void hash_lines(const S* in, u64* out, u64 length) {
    __shared__ u64 partial[256];
    const S* line = in + (u64)blockIdx.x * length;
    u64 hash = 0;
    for (u64 i = threadIdx.x; i < length; i += blockDim.x) {
        auto x = widen(line[i]);
        typedef decltype(x) V;
        if constexpr (is_same<V, float>::value || is_same<V, double>::value) {
            hash ^= (u64)__double_as_longlong((double)x);
        } else {
            hash ^= (u64)(i64)x.v;
        }
    }
    partial[threadIdx.x] = hash;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] ^= partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

}  // namespace ct
