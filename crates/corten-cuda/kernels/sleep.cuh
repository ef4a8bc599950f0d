// Work that takes a while and does nothing.

namespace ct {

/// Waits for a number of clock cycles.
template <u32 UNUSED>
__global__ void sleep_cycles(i64 cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
}

}  // namespace ct
