// Sorting rows by their elements, and where equal rows begin.

namespace ct {

/// Whether one row comes before another: the first elements that differ decide, NaN last.
template <class S> CT_FN int compare_rows(const S* a, const S* b, u64 length) {
    for (u64 k = 0; k < length; k++) {
        auto x = key_of(a[k]), y = key_of(b[k]);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

/// Merges neighbouring runs of sorted rows: a row's place is its own in its run, and how many of the other run
/// come before it.
template <class S>
__global__ void merge_rows(u64 n, const S* data, const i64* order, i64* to, u64 length, u64 run) {
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    u64 pair = at / (2 * run) * 2 * run, middle = pair + run < n ? pair + run : n;
    u64 end = pair + 2 * run < n ? pair + 2 * run : n;
    const S* own = data + (u64)order[at] * length;
    bool first = at < middle;
    u64 low = first ? middle : pair, high = first ? end : middle, begin = low;
    while (low < high) {
        u64 probe = (low + high) / 2;
        int side = compare_rows(data + (u64)order[probe] * length, own, length);
        if (first ? side < 0 : side <= 0) low = probe + 1;
        else high = probe;
    }
    to[pair + (low - begin) + (first ? at - pair : at - middle)] = order[at];
}

/// Whether each row differs from the one before; a row with NaN differs from all.
template <class S>
__global__ void row_begins(u64 n, const S* data, const i64* order, bool* begins, u64 length) {
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    bool differs = at == 0;
    if (!differs) {
        const S *own = data + (u64)order[at] * length, *before = data + (u64)order[at - 1] * length;
        for (u64 k = 0; k < length && !differs; k++) differs = !eq(widen(own[k]), widen(before[k]));
    }
    begins[at] = differs;
}

}  // namespace ct
