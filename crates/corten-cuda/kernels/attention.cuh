// Attention over tiles, without storing the weights, and its gradients.
//
// A warp has 16 rows of queries (or of keys, for the gradients of keys and values); a block's warps share the
// tiles of the other side in shared memory. The softmax is computed online: what was summed is rescaled when a
// larger score comes. Gradients compute the weights again from the logarithms of the sums, in one pass for
// keys and values and one for queries, so that nothing is added atomically.

namespace ct {

/// Sizes, and the distances of batches, heads and rows; elements of a row are neighbours.
struct Attention {
    u32 heads, queries, keys, width, value_width;
    /// Heads of queries that share a head of keys.
    u32 shared_by;
    u32 causal, wide;
    i64 query[3], key[3], value[3], out[3], grad[3];
    i64 logs[3];
    i64 bias[4];
    double scale;
    /// Dropout keeps where random bits are below `kept`, scaled; without dropout `drops` is 0.
    double kept_scale;
    u64 seed, offset;
    u32 drops, kept;
};

CT_FN u32 larger(u32 a, u32 b) { return a < b ? b : a; }
CT_FN u32 padded(u32 width) { return (width + 15) / 16 * 16; }
template <class T> CT_FN u32 row_of(u32 cols) { return cols + 16 / sizeof(T); }

/// The exponential; of 16-bit attention by the fast instruction, whose error is below what weights keep.
template <class T, class V> CT_FN V weight_exp(V x) {
#ifndef CT_SIM
    if constexpr (is_half<T>::value) return __expf(x);
#endif
    return exp(x);
}

/// What a batch and a head begin at.
template <class T> CT_FN T* head_of(T* at, const i64* strides, u32 batch, u32 head) {
    return at + batch * strides[0] + head * strides[1];
}

/// Whether dropout keeps a weight: 4 neighbours of a row share a block of the random stream.
CT_FN bool keeps(const Attention& g, u64 row, u32 key) {
    return philox(g.seed, row, g.offset / 4 + key / 4).v[key % 4] < g.kept;
}

/// Scales a fragment of scores and adds the bias; scores that do not count become minus infinity. Rows of the
/// fragment are queries, or keys where KEYS_FIRST.
template <bool KEYS_FIRST, class B, class V>
CT_FN void finish_scores(const Attention& g, V* scores, u32 row, u32 col, const B* bias) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 down = row + i / 2 * 8, right = col + i % 2;
        u32 query = KEYS_FIRST ? right : down, key = KEYS_FIRST ? down : right;
        bool counts = query < g.queries && key < g.keys && !(g.causal && key > query);
        V score = scores[i] * (V)g.scale;
        if (counts && bias) score += to<V>(widen(bias[query * g.bias[2] + key * g.bias[3]]));
        scores[i] = counts ? score : (V)-CT_INFINITY;
    }
}

/// The largest or the sum over the four threads that have a row.
template <class V> CT_FN V row_max(V x) {
    x = max(x, __shfl_xor_sync(~0u, x, 1));
    return max(x, __shfl_xor_sync(~0u, x, 2));
}
template <class V> CT_FN V row_sum(V x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/// Outputs and the logarithms of the softmax sums. Tiles have 8 * K keys, values at most 8 * N columns.
template <class T, class B, class V, u32 K, u32 N>
__global__ void __launch_bounds__(128) attention_forward(
    Attention g, const T* query, const T* key, const T* value, const B* bias, T* out, V* logs
) {
    CT_DYN_SMEM(T, shared);
    u32 own_rows = blockDim.x / 32 * 16, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 depth = padded(g.width), key_row = row_of<T>(depth), value_row = row_of<T>(8 * N);
    u32 tiles = (g.queries + own_rows - 1) / own_rows, index = blockIdx.x / tiles;
    // The longest rows of causal attention begin first.
    u32 first = (tiles - 1 - blockIdx.x % tiles) * own_rows;
    u32 batch = index / g.heads, head = index % g.heads;
    query = head_of(query, g.query, batch, head);
    key = head_of(key, g.key, batch, head / g.shared_by);
    value = head_of(value, g.value, batch, head / g.shared_by);
    if (bias) bias = head_of(bias, g.bias, batch, head);
    T *queries = shared, *keys = queries + own_rows * key_row, *values = keys + 8 * K * key_row;
    load_rows(
        queries, key_row, query + first * g.query[2], g.query[2],
        g.queries - first, own_rows, g.width, depth, g.wide & 1
    );
    V sums[N][4] = {}, largest[2] = {(V)-CT_INFINITY, (V)-CT_INFINITY}, total[2] = {0, 0};
    u32 row = first + warp * 16 + lane / 4, col = lane % 4 * 2;
    u32 end = g.causal && first + own_rows < g.keys ? first + own_rows : g.keys;
    for (u32 start = 0; start < end; start += 8 * K) {
        __syncthreads();
        load_rows(keys, key_row, key + start * g.key[2], g.key[2], g.keys - start, 8 * K, g.width, depth, g.wide & 2);
        load_rows(
            values, value_row, value + start * g.value[2], g.value[2],
            g.keys - start, 8 * K, g.value_width, 8 * N, g.wide & 4
        );
        __syncthreads();
        V scores[K][4] = {};
        multiply_rows<K>(scores, queries + warp * 16 * key_row, key_row, keys, key_row, depth);
        V high[2] = {largest[0], largest[1]};
        #pragma unroll
        for (int k = 0; k < K; k++) {
            finish_scores<false>(g, scores[k], row, start + 8 * k + col, bias);
            #pragma unroll
            for (int i = 0; i < 4; i++) high[i / 2] = max(high[i / 2], scores[k][i]);
        }
        V shift[2];
        #pragma unroll
        for (int half = 0; half < 2; half++) {
            high[half] = row_max(high[half]);
            // Where every key so far is masked out, weights are zero.
            shift[half] = high[half] == (V)-CT_INFINITY ? (V)0 : high[half];
            V factor = weight_exp<T>(largest[half] - shift[half]);
            largest[half] = high[half];
            total[half] *= factor;
            #pragma unroll
            for (int n = 0; n < N; n++) sums[n][2 * half] *= factor, sums[n][2 * half + 1] *= factor;
        }
        #pragma unroll
        for (int k = 0; k < K; k++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                V weight = weight_exp<T>(scores[k][i] - shift[i / 2]);
                total[i / 2] += weight;
                if (g.drops) {
                    u64 line = (u64)index * g.queries + row + i / 2 * 8;
                    weight = keeps(g, line, start + 8 * k + col + i % 2) ? weight * (V)g.kept_scale : (V)0;
                }
                scores[k][i] = weight;
            }
        }
        multiply_fragments<N, K>(sums, scores, values, value_row);
    }
    out = head_of(out, g.out, batch, head);
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 line = row + half * 8;
        V sum = row_sum(total[half]);
        bool masked = largest[half] == (V)-CT_INFINITY;
        V factor = masked ? (V)0 : (V)1 / sum;
        if (line >= g.queries) continue;
        #pragma unroll
        for (int n = 0; n < N; n++) {
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                u32 at = n * 8 + col + i;
                if (at < g.value_width) out[line * g.out[2] + at] = narrow<T>(sums[n][2 * half + i] * factor);
            }
        }
        if (logs && lane % 4 == 0) {
            logs[batch * g.logs[0] + head * g.logs[1] + line * g.logs[2]] = masked ? (V)-CT_INFINITY : largest[half] + log(sum);
        }
    }
}

/// The products of gradients and outputs, row by row: what every slope of a row is reduced by. A row per warp.
template <class T, class V> __global__ void attention_inner(Attention g, const T* grad, const T* out, V* inner, u64 rows) {
    u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    u32 lane = threadIdx.x % 32, batch = row / g.queries / g.heads, head = row / g.queries % g.heads;
    const T* a = head_of(grad, g.grad, batch, head) + row % g.queries * g.grad[2];
    const T* b = head_of(out, g.out, batch, head) + row % g.queries * g.out[2];
    V sum = 0;
    for (u32 i = lane; i < g.value_width; i += 32) sum = mul_add((V)widen(a[i]), (V)widen(b[i]), sum);
    for (u32 half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (lane == 0) inner[row] = sum;
}

/// Scores become weights, and `slopes`, the gradients of the weights, those of the scores. Dropout is applied to
/// the weights that values are multiplied by.
template <bool KEYS_FIRST, class T, class V>
CT_FN void finish_slopes(
    const Attention& g, V* scores, V* slopes, u32 row, u32 col, const V* logs, const V* inner, u64 lines
) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 down = row + i / 2 * 8, right = col + i % 2;
        u32 query = KEYS_FIRST ? right : down, key = KEYS_FIRST ? down : right;
        V log = query < g.queries ? logs[query * g.logs[2]] : (V)0;
        V less = query < g.queries ? inner[query] : (V)0;
        V weight = log == (V)-CT_INFINITY ? (V)0 : weight_exp<T>(scores[i] - log);
        V kept = 1;
        if (g.drops) kept = keeps(g, lines + query, key) ? (V)g.kept_scale : (V)0;
        slopes[i] = weight * (slopes[i] * kept - less);
        scores[i] = weight * kept;
    }
}

/// Gradients of keys and values. A block has rows of keys of one head, and 8 * N columns of the results from
/// 8 * N * blockIdx.y on; tiles have 8 * K queries.
template <class T, class B, class V, u32 K, u32 N>
__global__ void __launch_bounds__(128) attention_backward_keys(
    Attention g, const T* query, const T* key, const T* value, const B* bias, const T* grad, const V* logs,
    const V* inner, T* grad_key, T* grad_value
) {
    CT_DYN_SMEM(T, shared);
    u32 own_rows = blockDim.x / 32 * 16, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 depth = padded(g.width), value_depth = padded(g.value_width), left = blockIdx.y * 8 * N;
    u32 tiles = (g.keys + own_rows - 1) / own_rows, index = blockIdx.x / tiles, first = blockIdx.x % tiles * own_rows;
    u32 key_heads = g.heads / g.shared_by, batch = index / key_heads, key_head = index % key_heads;
    // Columns beyond a row's end are read, and not written: rows end with a block of columns.
    u32 key_row = row_of<T>(padded(larger(depth, left + 8 * N))), value_row = row_of<T>(padded(larger(value_depth, left + 8 * N)));
    T *keys = shared, *values = keys + own_rows * key_row;
    T *queries = values + own_rows * value_row, *grads = queries + 8 * K * key_row;
    key = head_of(key, g.key, batch, key_head) + first * g.key[2];
    value = head_of(value, g.value, batch, key_head) + first * g.value[2];
    load_rows(keys, key_row, key, g.key[2], g.keys - first, own_rows, g.width, depth, g.wide & 2);
    load_rows(values, value_row, value, g.value[2], g.keys - first, own_rows, g.value_width, value_depth, g.wide & 4);
    V of_keys[N][4] = {}, of_values[N][4] = {};
    u32 row = first + warp * 16 + lane / 4, col = lane % 4 * 2, begin = g.causal ? first / (8 * K) * 8 * K : 0;
    for (u32 head = key_head * g.shared_by; head < (key_head + 1) * g.shared_by; head++) {
        const T* own_query = head_of(query, g.query, batch, head);
        const T* own_grad = head_of(grad, g.grad, batch, head);
        const B* own_bias = bias ? head_of(bias, g.bias, batch, head) : bias;
        u64 lines = ((u64)batch * g.heads + head) * g.queries;
        for (u32 start = begin; start < g.queries; start += 8 * K) {
            __syncthreads();
            load_rows(
                queries, key_row, own_query + start * g.query[2], g.query[2],
                g.queries - start, 8 * K, g.width, key_row - row_of<T>(0), g.wide & 1
            );
            load_rows(
                grads, value_row, own_grad + start * g.grad[2], g.grad[2],
                g.queries - start, 8 * K, g.value_width, value_row - row_of<T>(0), g.wide & 8
            );
            __syncthreads();
            V scores[K][4] = {}, slopes[K][4] = {};
            multiply_rows<K>(scores, keys + warp * 16 * key_row, key_row, queries, key_row, depth);
            multiply_rows<K>(slopes, values + warp * 16 * value_row, value_row, grads, value_row, value_depth);
            #pragma unroll
            for (int k = 0; k < K; k++) {
                u32 across = start + 8 * k + col;
                finish_scores<true>(g, scores[k], row, across, own_bias);
                finish_slopes<true, T>(
                    g, scores[k], slopes[k], row, across, logs + batch * g.logs[0] + head * g.logs[1], inner + lines, lines
                );
            }
            multiply_fragments<N, K>(of_values, scores, grads + left, value_row);
            multiply_fragments<N, K>(of_keys, slopes, queries + left, key_row);
        }
    }
    // Results are contiguous.
    #pragma unroll
    for (int n = 0; n < N; n++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 line = row + i / 2 * 8, at = left + n * 8 + col + i % 2;
            if (line >= g.keys) continue;
            u64 place = (u64)index * g.keys + line;
            if (at < g.width) grad_key[place * g.width + at] = narrow<T>(of_keys[n][i] * (V)g.scale);
            if (at < g.value_width) grad_value[place * g.value_width + at] = narrow<T>(of_values[n][i]);
        }
    }
}

/// Gradients of queries, and with `grad_bias` those of scores; otherwise as `attention_backward_keys`.
template <class T, class B, class V, u32 K, u32 N>
__global__ void __launch_bounds__(128) attention_backward_queries(
    Attention g, const T* query, const T* key, const T* value, const B* bias, const T* grad, const V* logs,
    const V* inner, T* grad_query, B* grad_bias
) {
    CT_DYN_SMEM(T, shared);
    u32 own_rows = blockDim.x / 32 * 16, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 depth = padded(g.width), value_depth = padded(g.value_width), left = blockIdx.y * 8 * N;
    u32 tiles = (g.queries + own_rows - 1) / own_rows, index = blockIdx.x / tiles;
    u32 first = (tiles - 1 - blockIdx.x % tiles) * own_rows;
    u32 batch = index / g.heads, head = index % g.heads;
    u32 key_row = row_of<T>(padded(larger(depth, left + 8 * N))), value_row = row_of<T>(value_depth);
    T *queries = shared, *grads = queries + own_rows * key_row;
    T *keys = grads + own_rows * value_row, *values = keys + 8 * K * key_row;
    query = head_of(query, g.query, batch, head) + first * g.query[2];
    grad = head_of(grad, g.grad, batch, head) + first * g.grad[2];
    key = head_of(key, g.key, batch, head / g.shared_by);
    value = head_of(value, g.value, batch, head / g.shared_by);
    if (bias) bias = head_of(bias, g.bias, batch, head);
    logs += batch * g.logs[0] + head * g.logs[1];
    u64 lines = (u64)index * g.queries;
    load_rows(queries, key_row, query, g.query[2], g.queries - first, own_rows, g.width, depth, g.wide & 1);
    load_rows(grads, value_row, grad, g.grad[2], g.queries - first, own_rows, g.value_width, value_depth, g.wide & 8);
    V sums[N][4] = {};
    u32 row = first + warp * 16 + lane / 4, col = lane % 4 * 2;
    // Gradients of scores are written for all keys.
    u32 end = g.causal && !grad_bias && first + own_rows < g.keys ? first + own_rows : g.keys;
    for (u32 start = 0; start < end; start += 8 * K) {
        __syncthreads();
        load_rows(
            keys, key_row, key + start * g.key[2], g.key[2],
            g.keys - start, 8 * K, g.width, key_row - row_of<T>(0), g.wide & 2
        );
        load_rows(
            values, value_row, value + start * g.value[2], g.value[2],
            g.keys - start, 8 * K, g.value_width, value_depth, g.wide & 4
        );
        __syncthreads();
        V scores[K][4] = {}, slopes[K][4] = {};
        multiply_rows<K>(scores, queries + warp * 16 * key_row, key_row, keys, key_row, depth);
        multiply_rows<K>(slopes, grads + warp * 16 * value_row, value_row, values, value_row, value_depth);
        #pragma unroll
        for (int k = 0; k < K; k++) {
            u32 across = start + 8 * k + col;
            finish_scores<false>(g, scores[k], row, across, bias);
            finish_slopes<false, T>(g, scores[k], slopes[k], row, across, logs, inner + lines, lines);
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 line = row + i / 2 * 8, at = across + i % 2;
                bool inside = grad_bias && left == 0 && line < g.queries && at < g.keys;
                if (inside) grad_bias[(lines + line) * g.keys + at] = narrow<B>(slopes[k][i]);
            }
        }
        multiply_fragments<N, K>(sums, slopes, keys + left, key_row);
    }
    #pragma unroll
    for (int n = 0; n < N; n++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 line = row + i / 2 * 8, at = left + n * 8 + col + i % 2;
            if (line >= g.queries || at >= g.width) continue;
            grad_query[(lines + line) * g.width + at] = narrow<T>(sums[n][i] * (V)g.scale);
        }
    }
}

}  // namespace ct
