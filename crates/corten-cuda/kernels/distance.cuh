// Distances between rows, and their gradients. P is the number of the norm: 0 counts, 1 sums, 2 is Euclid's,
// 3 the largest, 4 any other power.

namespace ct {

struct Rows { u64 n; i64 rows, others, columns; double power; u32 norm; };

template <class V> CT_FN V distance_of(const Rows& s, const V* a, const V* b) {
    V total = 0;
    for (i64 k = 0; k < s.columns; k++) {
        V d = abs(a[k] - b[k]);
        switch (s.norm) {
            case 0: total += d != 0 ? (V)1 : (V)0; break;
            case 1: total += d; break;
            case 2: total += d * d; break;
            case 3: total = max(total, d); break;
            default: total += pow(d, (V)s.power);
        }
    }
    return s.norm == 2 ? sqrt(total) : s.norm == 4 ? pow(total, (V)1 / (V)s.power) : total;
}

/// The slope of a distance in one coordinate.
template <class V> CT_FN V distance_slope(const Rows& s, V d, V distance) {
    V sign = d > 0 ? (V)1 : d < 0 ? (V)-1 : d;
    switch (s.norm) {
        case 0: return 0;
        case 1: return sign;
        case 3: return abs(d) == distance ? sign : (V)0;
        case 2: return distance == 0 ? (V)0 : d / distance;
        default:
            if (distance == 0 || (s.power < 1 && d == 0)) return 0;
            return sign * pow(abs(d) / distance, (V)s.power - (V)1);
    }
}

/// A thread per pair: out [batch, rows, others].
template <class T, class V> __global__ void cdist(Rows s, T* out, const T* first, const T* second) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.n) return;
    u64 row = i / s.others, other = row / s.rows * s.others + i % s.others;
    out[i] = narrow<T>(distance_of<V>(s, first + row * s.columns, second + other * s.columns));
}

/// A thread per element of the first rows, which goes through the others.
template <class T, class V>
__global__ void cdist_backward(Rows s, T* out, const T* first, const T* second, const T* grad, const T* distances) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.n) return;
    u64 row = i / s.columns, k = i % s.columns, start = row / s.rows * s.others;
    V x = first[i], sum = 0;
    for (i64 j = 0; j < s.others; j++) {
        u64 place = row * s.others + j;
        sum += (V)grad[place] * distance_slope<V>(s, x - (V)second[(start + j) * s.columns + k], distances[place]);
    }
    out[i] = narrow<T>(sum);
}

/// The number of the first pair of a row: pairs (i, j) with j > i, row after row.
CT_FN i64 pair_start(i64 rows, i64 i) { return i * (2 * rows - i - 1) / 2; }

template <class T, class V> __global__ void pdist(Rows s, T* out, const T* in) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= s.n) return;
    // The largest row whose first pair is not behind this one.
    i64 low = 0, high = s.rows - 1;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (pair_start(s.rows, middle) <= (i64)n) low = middle;
        else high = middle;
    }
    i64 other = low + 1 + (i64)n - pair_start(s.rows, low);
    out[n] = narrow<T>(distance_of<V>(s, in + low * s.columns, in + other * s.columns));
}

template <class T, class V>
__global__ void pdist_backward(Rows s, T* out, const T* in, const T* grad, const T* distances) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= s.n) return;
    i64 row = (i64)(n / s.columns), k = (i64)(n % s.columns);
    V x = in[n], sum = 0;
    for (i64 j = 0; j < s.rows; j++) {
        if (j == row) continue;
        i64 pair = j < row ? pair_start(s.rows, j) + row - j - 1 : pair_start(s.rows, row) + j - row - 1;
        sum += (V)grad[pair] * distance_slope<V>(s, x - (V)in[j * s.columns + k], distances[pair]);
    }
    out[n] = narrow<T>(sum);
}

}  // namespace ct
