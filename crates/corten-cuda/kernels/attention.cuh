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
    /// Tiles in shared memory: with 2 one is loaded while the other one is used.
    u32 stages;
};

CT_FN u32 larger(u32 a, u32 b) { return a < b ? b : a; }
CT_FN u32 padded(u32 width) { return (width + 15) / 16 * 16; }
template <class T> CT_FN u32 row_of(u32 cols) { return cols + 16 / sizeof(T); }

/// Scores of 16-bit attention are logarithms to the base 2, so that a weight is one fast instruction, whose error is
/// below what weights keep; others are natural logarithms.
template <class T, class V> CT_FN V score_unit() { return is_half<T>::value ? (V)1.4426950408889634 : (V)1; }
template <class T, class V> CT_FN V weight_exp(V x) {
    if constexpr (is_half<T>::value) {
#ifdef CT_SIM
        return exp2f(x);
#else
        asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
        return x;
#endif
    } else {
        return exp(x);
    }
}

/// What a batch and a head begin at.
template <class T> CT_FN T* head_of(T* at, const i64* strides, u32 batch, u32 head) {
    return at + batch * strides[0] + head * strides[1];
}

/// Whether dropout keeps a weight: 4 neighbours of a row share a block of the random stream.
CT_FN bool keeps(const Attention& g, u64 row, u32 key) {
    return philox(g.seed, row, g.offset / 4 + key / 4).v[key % 4] < g.kept;
}

/// Scales a fragment of scores and adds the bias. At an edge, scores that do not count become minus infinity. Rows
/// of the fragment are queries, or keys where KEYS_FIRST.
template <bool KEYS_FIRST, class T, class B, class V>
CT_FN void finish_scores(const Attention& g, V* scores, u32 row, u32 col, const B* bias, bool edge) {
    const V scale = (V)g.scale * score_unit<T, V>();
    #pragma unroll
    for (int i = 0; i < 4; i++) scores[i] *= scale;
    if (!edge && !bias) return;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 down = row + i / 2 * 8, right = col + i % 2;
        u32 query = KEYS_FIRST ? right : down, key = KEYS_FIRST ? down : right;
        bool counts = query < g.queries && key < g.keys && !(g.causal && key > query);
        if (counts && bias) {
            scores[i] += to<V>(widen(bias[query * g.bias[2] + key * g.bias[3]])) * score_unit<T, V>();
        }
        if (!counts) scores[i] = (V)-CT_INFINITY;
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

/// Waits for the tile at `start`, and has the one behind it loaded; which of the stages the tile is in.
template <u32 K, class F> CT_FN u32 next_tile(const Attention& g, u32 start, u32 end, F load) {
    u32 stage = start / (8 * K) % 2;
    if (g.stages == 1) {
        __syncthreads();
        load(start, 0);
        stage = 0;
    }
    wait_for_copies();
    __syncthreads();
    if (g.stages == 2 && start + 8 * K < end) load(start + 8 * K, 1 - stage);
    return stage;
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
    u32 tile = 8 * K * (key_row + value_row);
    load_rows(
        queries, key_row, query + first * g.query[2], g.query[2],
        g.queries - first, own_rows, g.width, depth, g.wide & 1
    );
    auto load = [&](u32 start, u32 stage) {
        T *to_keys = keys + stage * tile, *to_values = values + stage * tile;
        load_rows(
            to_keys, key_row, key + start * g.key[2], g.key[2], g.keys - start, 8 * K, g.width, depth, g.wide & 2
        );
        load_rows(
            to_values, value_row, value + start * g.value[2], g.value[2],
            g.keys - start, 8 * K, g.value_width, 8 * N, g.wide & 4
        );
    };
    V sums[N][4] = {}, largest[2] = {(V)-CT_INFINITY, (V)-CT_INFINITY}, total[2] = {0, 0};
    u32 top = first + warp * 16, row = top + lane / 4, col = lane % 4 * 2;
    u32 end = g.causal && first + own_rows < g.keys ? first + own_rows : g.keys;
    if (g.stages == 2) load(0, 0);
    for (u32 start = 0; start < end; start += 8 * K) {
        u32 stage = next_tile<K>(g, start, end, load) * tile;
        V scores[K][4] = {};
        multiply_rows<K>(scores, queries + warp * 16 * key_row, key_row, keys + stage, key_row, depth);
        bool edge = start + 8 * K > g.keys || (g.causal && start + 8 * K > top + 1);
        V high[2] = {largest[0], largest[1]};
        #pragma unroll
        for (int k = 0; k < K; k++) {
            finish_scores<false, T>(g, scores[k], row, start + 8 * k + col, bias, edge);
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
        multiply_fragments<N, K>(sums, scores, values + stage, value_row);
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
            V log_sum = masked ? (V)-CT_INFINITY : largest[half] / score_unit<T, V>() + log(sum);
            logs[batch * g.logs[0] + head * g.logs[1] + line * g.logs[2]] = log_sum;
        }
    }
}

/// The products of gradients and outputs, row by row: what every slope of a row is reduced by. A row per warp.
template <class T, class V>
__global__ void attention_inner(Attention g, const T* grad, const T* out, V* inner, u64 rows) {
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
/// the weights that values are multiplied by. Two queries of the fragment have logarithms and inner products.
template <bool KEYS_FIRST, class T, class V>
CT_FN void finish_slopes(
    const Attention& g, V* scores, V* slopes, u32 row, u32 col, const V* logs, const V* inner, u64 lines
) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        V log = logs[KEYS_FIRST ? i % 2 : i / 2], less = inner[KEYS_FIRST ? i % 2 : i / 2];
        V weight = log == (V)-CT_INFINITY ? (V)0 : weight_exp<T>(scores[i] - log);
        V kept = 1;
        if (g.drops) {
            u32 down = row + i / 2 * 8, right = col + i % 2;
            kept = keeps(g, lines + (KEYS_FIRST ? right : down), KEYS_FIRST ? down : right) ? (V)g.kept_scale : (V)0;
        }
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
    u32 key_cols = padded(larger(depth, left + 8 * N)), value_cols = padded(larger(value_depth, left + 8 * N));
    u32 key_row = row_of<T>(key_cols), value_row = row_of<T>(value_cols), tile = 8 * K * (key_row + value_row);
    T *keys = shared, *values = keys + own_rows * key_row;
    T *queries = values + own_rows * value_row, *grads = queries + 8 * K * key_row;
    __shared__ V tile_logs[2][8 * K], tile_inner[2][8 * K];
    key = head_of(key, g.key, batch, key_head) + first * g.key[2];
    value = head_of(value, g.value, batch, key_head) + first * g.value[2];
    load_rows(keys, key_row, key, g.key[2], g.keys - first, own_rows, g.width, depth, g.wide & 2);
    load_rows(
        values, value_row, value, g.value[2], g.keys - first, own_rows, g.value_width, value_depth, g.wide & 4
    );
    V of_keys[N][4] = {}, of_values[N][4] = {};
    u32 row = first + warp * 16 + lane / 4, col = lane % 4 * 2, bottom = first + warp * 16 + 15;
    u32 begin = g.causal ? first / (8 * K) * 8 * K : 0;
    for (u32 head = key_head * g.shared_by; head < (key_head + 1) * g.shared_by; head++) {
        const T* own_query = head_of(query, g.query, batch, head);
        const T* own_grad = head_of(grad, g.grad, batch, head);
        const B* own_bias = bias ? head_of(bias, g.bias, batch, head) : bias;
        const V* own_logs = logs + batch * g.logs[0] + head * g.logs[1];
        u64 lines = ((u64)batch * g.heads + head) * g.queries;
        auto load = [&](u32 start, u32 stage) {
            load_rows(
                queries + stage * tile, key_row, own_query + start * g.query[2], g.query[2],
                g.queries - start, 8 * K, g.width, key_cols, g.wide & 1
            );
            load_rows(
                grads + stage * tile, value_row, own_grad + start * g.grad[2], g.grad[2],
                g.queries - start, 8 * K, g.value_width, value_cols, g.wide & 8
            );
            for (u32 i = threadIdx.x; i < 8 * K; i += blockDim.x) {
                // Beyond the queries, slopes are zero.
                bool inside = start + i < g.queries;
                tile_logs[stage][i] = inside ? own_logs[(start + i) * g.logs[2]] * score_unit<T, V>() : (V)0;
                tile_inner[stage][i] = inside ? inner[lines + start + i] : (V)0;
            }
        };
        __syncthreads();
        if (g.stages == 2 && begin < g.queries) load(begin, begin / (8 * K) % 2);
        for (u32 start = begin; start < g.queries; start += 8 * K) {
            u32 stage = next_tile<K>(g, start, g.queries, load);
            T *own_queries = queries + stage * tile, *own_grads = grads + stage * tile;
            V scores[K][4] = {}, slopes[K][4] = {};
            multiply_rows<K>(scores, keys + warp * 16 * key_row, key_row, own_queries, key_row, depth);
            multiply_rows<K>(slopes, values + warp * 16 * value_row, value_row, own_grads, value_row, value_depth);
            bool edge = g.causal && bottom > start;
            #pragma unroll
            for (int k = 0; k < K; k++) {
                u32 across = start + 8 * k + col;
                finish_scores<true, T>(g, scores[k], row, across, own_bias, edge);
                finish_slopes<true, T>(
                    g, scores[k], slopes[k], row, across, tile_logs[stage] + 8 * k + col,
                    tile_inner[stage] + 8 * k + col, lines
                );
            }
            multiply_fragments<N, K>(of_values, scores, own_grads + left, value_row);
            multiply_fragments<N, K>(of_keys, slopes, own_queries + left, key_row);
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
    u32 key_cols = padded(larger(depth, left + 8 * N));
    u32 key_row = row_of<T>(key_cols), value_row = row_of<T>(value_depth);
    u32 tile = 8 * K * (key_row + value_row);
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
    load_rows(
        grads, value_row, grad, g.grad[2], g.queries - first, own_rows, g.value_width, value_depth, g.wide & 8
    );
    auto load = [&](u32 start, u32 stage) {
        load_rows(
            keys + stage * tile, key_row, key + start * g.key[2], g.key[2],
            g.keys - start, 8 * K, g.width, key_cols, g.wide & 2
        );
        load_rows(
            values + stage * tile, value_row, value + start * g.value[2], g.value[2],
            g.keys - start, 8 * K, g.value_width, value_depth, g.wide & 4
        );
    };
    V sums[N][4] = {}, own_logs[2], own_inner[2];
    u32 top = first + warp * 16, row = top + lane / 4, col = lane % 4 * 2;
    #pragma unroll
    for (u32 half = 0; half < 2; half++) {
        bool inside = row + 8 * half < g.queries;
        own_logs[half] = inside ? logs[(row + 8 * half) * g.logs[2]] * score_unit<T, V>() : (V)0;
        own_inner[half] = inside ? inner[lines + row + 8 * half] : (V)0;
    }
    // Gradients of scores are written for all keys.
    u32 end = g.causal && !grad_bias && first + own_rows < g.keys ? first + own_rows : g.keys;
    if (g.stages == 2) load(0, 0);
    for (u32 start = 0; start < end; start += 8 * K) {
        u32 stage = next_tile<K>(g, start, end, load) * tile;
        V scores[K][4] = {}, slopes[K][4] = {};
        multiply_rows<K>(scores, queries + warp * 16 * key_row, key_row, keys + stage, key_row, depth);
        multiply_rows<K>(slopes, grads + warp * 16 * value_row, value_row, values + stage, value_row, value_depth);
        bool edge = start + 8 * K > g.keys || (g.causal && start + 8 * K > top + 1);
        #pragma unroll
        for (int k = 0; k < K; k++) {
            u32 across = start + 8 * k + col;
            finish_scores<false, T>(g, scores[k], row, across, bias, edge);
            finish_slopes<false, T>(g, scores[k], slopes[k], row, across, own_logs, own_inner, lines);
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 line = row + i / 2 * 8, at = across + i % 2;
                bool inside = grad_bias && left == 0 && line < g.queries && at < g.keys;
                if (inside) grad_bias[(lines + line) * g.keys + at] = narrow<B>(slopes[k][i]);
            }
        }
        multiply_fragments<N, K>(sums, slopes, keys + stage + left, key_row);
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
