// Positions of the true elements of a mask, in order: counted tile by tile, then written.

namespace ct {

const int SELECT_ITEMS = 16, SELECT_TILE = 256 * SELECT_ITEMS;

/// The true elements that each thread of a block has before its own; `all` is those of the block.
CT_FN i32 before_in_block(i32 own, i32* shared, i32* all) {
    u32 thread = threadIdx.x;
    shared[thread] = own;
    __syncthreads();
    for (u32 distance = 1; distance < 256; distance *= 2) {
        i32 sum = shared[thread] + (thread >= distance ? shared[thread - distance] : 0);
        __syncthreads();
        shared[thread] = sum;
        __syncthreads();
    }
    *all = shared[255];
    i32 before = shared[thread] - own;
    __syncthreads();
    return before;
}

/// With WRITES the positions, from where the tile's begin on; without, how many there are in each tile.
template <u32 WRITES> __global__ void true_places(const bool* mask, u64 n, i64* counts, i64* places) {
    __shared__ i32 shared[256];
    u64 first = (u64)blockIdx.x * SELECT_TILE + (u64)threadIdx.x * SELECT_ITEMS;
    i32 own = 0, all;
    for (int k = 0; k < SELECT_ITEMS; k++) own += first + k < n && mask[first + k] ? 1 : 0;
    i32 before = before_in_block(own, shared, &all);
    if (!WRITES) {
        if (threadIdx.x == 0) counts[blockIdx.x] = all;
        return;
    }
    // `counts` are running sums by now.
    i64 to = counts[blockIdx.x] - all + before;
    for (int k = 0; k < SELECT_ITEMS; k++) {
        if (first + k < n && mask[first + k]) places[to++] = (i64)(first + k);
    }
}

const int MOST_RANK = 64;
struct Extents {
    u32 rank;
    i64 size[MOST_RANK];
};

/// Positions by dimension, each dimension's side by side.
template <u32 UNUSED> __global__ void coordinates(u64 count, const i64* places, i64* out, Extents extents) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    i64 place = places[i];
    for (u32 dim = extents.rank; dim-- > 0;) {
        i64 size = extents.size[dim], rest = place / size;
        out[dim * count + i] = place - rest * size;
        place = rest;
    }
}

}  // namespace ct
