// Sorting along lines, stable and always with the same result, and searching in sorted lines.
//
// Elements are ranked by keys: unsigned integers in their order, NaN last and zeros of both signs equal.
// Tiles of a line are sorted in shared memory by key and position; then runs are merged, where each
// element finds its place by bisection in the other run.

namespace ct {

template <class S> struct KeyOf {
    typedef typename choose<(sizeof(S) > 4), u64, u32>::type type;
};

/// The key of an element.
template <class S> CT_FN typename KeyOf<S>::type key_of(S x) {
    auto value = widen(x);
    typedef decltype(value) V;
    if constexpr (is_same<V, float>::value) {
        u32 bits = value != value ? 0x7fc00000u : value == 0 ? 0u : bits_of(value);
        return bits >> 31 ? ~bits : bits | 0x80000000u;
    } else if constexpr (is_same<V, double>::value) {
        u64 bits = value != value ? 0x7ff8000000000000ull : value == 0 ? 0ull : (u64)__double_as_longlong(value);
        return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
    } else if constexpr (is_same<V, Truth>::value) {
        return value.v ? 1 : 0;
    } else {
        typedef typename KeyOf<S>::type K;
        const bool is_signed = (S)-1 < (S)0;
        K flip = is_signed ? (K)1 << (8 * sizeof(K) - 1) : (K)0;
        return (K)(i64)value.v ^ flip;
    }
}

const u32 SORT_TILE = 1024;

/// Tiles of lines: keys and positions. Keys of descending order are complements.
template <class S>
__global__ void sort_tiles(const S* in, typename KeyOf<S>::type* keys, u32* places, u64 length, u32 tiles, u32 descending) {
    typedef typename KeyOf<S>::type K;
    __shared__ K key[SORT_TILE];
    __shared__ u32 place[SORT_TILE];
    u64 line = blockIdx.x / tiles, first = (u64)(blockIdx.x % tiles) * SORT_TILE;
    u32 count = length - first < SORT_TILE ? (u32)(length - first) : SORT_TILE, size = 2;
    while (size < count) size *= 2;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x) {
        // What fills the tile up is last, by its position.
        K own = ~(K)0;
        if (i < count) {
            own = key_of(in[line * length + first + i]);
            if (descending) own = ~own;
        }
        key[i] = own, place[i] = i;
    }
    __syncthreads();
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 distance = run / 2; distance > 0; distance /= 2) {
            for (u32 pair = threadIdx.x; pair < size / 2; pair += blockDim.x) {
                u32 a = pair / distance * 2 * distance + pair % distance, b = a + distance;
                bool up = (a & run) == 0;
                bool greater = key[a] > key[b] || (key[a] == key[b] && place[a] > place[b]);
                if (greater == up) {
                    K other = key[a];
                    key[a] = key[b], key[b] = other;
                    u32 moved = place[a];
                    place[a] = place[b], place[b] = moved;
                }
            }
            __syncthreads();
        }
    }
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        keys[line * length + first + i] = key[i];
        places[line * length + first + i] = (u32)first + place[i];
    }
}

/// Merges neighbouring runs: an element's place is its own in its run, and how many of the other run
/// come before it.
template <class K>
__global__ void merge_runs(u64 n, const K* keys, const u32* places, K* to, u32* to_places, u64 length, u64 run) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 line = i / length, at = i - line * length, pair = at / (2 * run) * 2 * run, middle = pair + run;
    const K* keys_of_line = keys + line * length;
    K own = keys_of_line[at];
    u64 end = pair + 2 * run < length ? pair + 2 * run : length;
    if (middle > end) middle = end;
    bool first = at < middle;
    u64 low = first ? middle : pair, high = first ? end : middle, begin = low;
    while (low < high) {
        u64 probe = (low + high) / 2;
        bool before = first ? keys_of_line[probe] < own : keys_of_line[probe] <= own;
        if (before) low = probe + 1;
        else high = probe;
    }
    u64 place = pair + (low - begin) + (first ? at - pair : at - middle);
    to[line * length + place] = own;
    to_places[line * length + place] = places[i];
}

/// The first elements of sorted lines, and their positions.
template <class W>
__global__ void take_first(u64 n, const W* in, const u32* places, W* values, i64* indices, u64 length, u64 count) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 line = i / count;
    u32 place = places[line * length + (i - line * count)];
    values[i] = in[line * length + place];
    indices[i] = place;
}

enum Chosen { KTH, MEDIAN, NAN_MEDIAN, MODE };

/// One element of each sorted line.
template <class S, u32 KIND>
__global__ void take_one(u64 lines, const S* in, const u32* places, S* values, i64* indices, u64 length, u64 k) {
    u64 line = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    const S* own = in + line * length;
    const u32* order = places + line * length;
    u64 at = k;
    if (KIND == MEDIAN || KIND == NAN_MEDIAN) {
        // NaN are at the end.
        u64 low = 0, high = length;
        while (low < high) {
            u64 probe = (low + high) / 2;
            if (is_nan(widen(own[order[probe]]))) high = probe;
            else low = probe + 1;
        }
        at = KIND == MEDIAN && low < length ? low : low ? (low - 1) / 2 : 0;
    }
    if (KIND == MODE) {
        u64 begin = 0, most = 0;
        for (u64 i = 1; i <= length; i++) {
            if (i < length && eq(widen(own[order[i]]), widen(own[order[i - 1]]))) continue;
            if (i - begin > most) most = i - begin, at = i - 1;
            begin = i;
        }
    }
    values[line] = own[order[at]];
    indices[line] = order[at];
}

/// The places of values in sorted lines. RIGHT beyond equal elements.
template <class S, class O, u32 RIGHT>
__global__ void search(
    u64 n, const S* lines, const i64* sorter, const S* values, O* out, u64 length, u64 per_line, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const S* line = lines + (per_line ? i / per_line * length : 0);
    const i64* order = sorter ? sorter + (per_line ? i / per_line * length : 0) : sorter;
    auto value = widen(values[i]);
    u64 low = 0, high = length;
    while (low < high) {
        u64 probe = (low + high) / 2;
        i64 at = order ? order[probe] : (i64)probe;
        if (at < 0 || at >= (i64)length) { *failure = 1; return; }
        // NaN is never greater: its place is at the end.
        auto there = widen(line[at]);
        if (RIGHT ? gt(there, value) : ge(there, value)) high = probe;
        else low = probe + 1;
    }
    out[i] = (O)low;
}

}  // namespace ct
