// Tensors one after another.

namespace ct {

const int MOST_PARTS = 64;

/// The parts of a result: where they lie, where they begin in a row of the result, and how long their
/// rows are, in words.
struct Parts {
    const char* from[MOST_PARTS];
    u64 start[MOST_PARTS], length[MOST_PARTS];
};

/// One part per row of the grid.
template <class W> __global__ void cat(Parts parts, W* out, u64 outer, u64 row) {
    const W* from = reinterpret_cast<const W*>(parts.from[blockIdx.y]);
    u64 start = parts.start[blockIdx.y], length = parts.length[blockIdx.y], n = outer * length;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        u64 line = i / length;
        out[line * row + start + (i - line * length)] = from[i];
    }
}

}  // namespace ct
