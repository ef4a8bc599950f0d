// Softmax and its logarithm along one dimension, and their gradients: one block per row.
//
// A row is the elements (outer, :, inner) of a contiguous tensor of shape [outer, len, inner].

namespace ct {

/// Combines what the threads of a block have, in a fixed order; every thread gets the result.
template <class V, class F> CT_FN V block_combine(V mine, V* shared, F combine) {
    u32 lane = threadIdx.x;
    shared[lane] = mine;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (lane < half) shared[lane] = combine(shared[lane], shared[lane + half]);
        __syncthreads();
    }
    V result = shared[0];
    __syncthreads();
    return result;
}

struct Largest {
    template <class V> CT_FN V operator()(V a, V b) const { return max(a, b); }
};
struct Added {
    template <class V> CT_FN V operator()(V a, V b) const { return a + b; }
};

/// LOG 1 for the logarithm. Out may be wider than In.
template <class Out, class In, class V, u32 LOG>
__global__ void softmax(Out* out, const In* in, u64 len, u64 inner) {
    CT_DYN_SMEM(V, shared);
    u64 row = blockIdx.x, first = row / inner * len * inner + row % inner;
    V highest = (V)-CT_INFINITY;
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) highest = max(highest, (V)widen(in[first + i * inner]));
    highest = block_combine(highest, shared, Largest());
    V sum = 0;
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) sum += exp((V)widen(in[first + i * inner]) - highest);
    sum = block_combine(sum, shared, Added());
    V logarithm = log(sum);
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) {
        V x = (V)widen(in[first + i * inner]) - highest;
        out[first + i * inner] = narrow<Out>(LOG ? x - logarithm : exp(x) / sum);
    }
}

template <class Out, class In, class V, u32 LOG>
__global__ void softmax_backward(Out* out, const In* grad, const In* output, u64 len, u64 inner) {
    CT_DYN_SMEM(V, shared);
    u64 row = blockIdx.x, first = row / inner * len * inner + row % inner;
    V sum = 0;
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) {
        V g = widen(grad[first + i * inner]);
        sum += LOG ? g : g * (V)widen(output[first + i * inner]);
    }
    sum = block_combine(sum, shared, Added());
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) {
        V g = widen(grad[first + i * inner]), y = widen(output[first + i * inner]);
        out[first + i * inner] = narrow<Out>(LOG ? g - exp(y) * sum : y * (g - sum));
    }
}

}  // namespace ct
