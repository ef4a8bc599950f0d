// Boxes that overlap: which of them are dropped, and by how much rotated ones do.

namespace ct {

/// For each box, in the order of their scores, a bit for each later box that overlaps with it by more than the
/// threshold: words of 64.
template <class S, class V>
__global__ void box_overlaps(u64 n, u64* bits, const S* boxes, u64 words, double threshold) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * words) return;
    u64 box = i / words, word = i - box * words, mask = 0;
    auto at = [&](u64 k, int corner) { return (V)widen(boxes[k * 4 + corner]); };
    V x1 = at(box, 0), y1 = at(box, 1), x2 = at(box, 2), y2 = at(box, 3), area = (x2 - x1) * (y2 - y1);
    for (u64 k = 0; k < 64; k++) {
        u64 other = word * 64 + k;
        if (other <= box || other >= n) continue;
        V u1 = at(other, 0), v1 = at(other, 1), u2 = at(other, 2), v2 = at(other, 3);
        V width = (u2 < x2 ? u2 : x2) - (u1 > x1 ? u1 : x1), height = (v2 < y2 ? v2 : y2) - (v1 > y1 ? v1 : y1);
        V common = (width > 0 ? width : (V)0) * (height > 0 ? height : (V)0);
        if ((double)(common / (area + (u2 - u1) * (v2 - v1) - common)) > threshold) mask |= (u64)1 << k;
    }
    bits[i] = mask;
}

/// The boxes that no better one drops; one block.
template <u32 UNUSED> __global__ void kept_boxes(u64 n, bool* kept, const u64* bits, u64* dropped, u64 words) {
    for (u64 word = threadIdx.x; word < words; word += blockDim.x) dropped[word] = 0;
    __syncthreads();
    for (u64 box = 0; box < n; box++) {
        bool keep = !(dropped[box / 64] >> (box % 64) & 1);
        // The word is read by all before one of them changes it.
        __syncthreads();
        if (!keep) {
            if (threadIdx.x == 0) kept[box] = false;
            continue;
        }
        if (threadIdx.x == 0) kept[box] = true;
        for (u64 word = box / 64 + threadIdx.x; word < words; word += blockDim.x) {
            dropped[word] |= bits[box * words + word];
        }
        __syncthreads();
    }
}

struct Corner { double x, y; };

/// The corners of a box around a centre; the angle is in degrees.
CT_FN void rotated_corners(const double* box, Corner centre, Corner* out) {
    double angle = box[4] * (3.14159265358979323846 / 180), s = ::sin(angle), c = ::cos(angle);
    for (int k = 0; k < 4; k++) {
        double u = (k == 1 || k == 2 ? 0.5 : -0.5) * box[2], v = (k >= 2 ? 0.5 : -0.5) * box[3];
        out[k] = {box[0] - centre.x + u * c + v * s, box[1] - centre.y - u * s + v * c};
    }
}

/// The intersection over the union: one side after the other of the second box cuts off what is beyond it.
CT_FN double rotated_overlap(const double* first, const double* second) {
    double one = first[2] * first[3], other = second[2] * second[3];
    if (one < 1e-14 || other < 1e-14) return 0;
    // Coordinates that are small leave more digits to the area.
    Corner centre = {(first[0] + second[0]) / 2, (first[1] + second[1]) / 2}, window[4], kept[8], before[8];
    rotated_corners(first, centre, kept);
    rotated_corners(second, centre, window);
    int count = 4;
    for (int i = 0; i < 4; i++) {
        Corner from = window[i], to = window[(i + 1) % 4];
        auto side = [&](Corner p) { return (to.x - from.x) * (p.y - from.y) - (to.y - from.y) * (p.x - from.x); };
        int old = count;
        for (int k = 0; k < old; k++) before[k] = kept[k];
        count = 0;
        for (int k = 0; k < old; k++) {
            Corner point = before[k], last = before[(k + old - 1) % old];
            double here = side(point), there = side(last);
            if ((here >= 0) != (there >= 0) && count < 8) {
                double share = there / (there - here);
                kept[count++] = {last.x + share * (point.x - last.x), last.y + share * (point.y - last.y)};
            }
            if (here >= 0 && count < 8) kept[count++] = point;
        }
    }
    double area = 0;
    for (int k = 1; k + 1 < count; k++) {
        area += (kept[k].x - kept[0].x) * (kept[k + 1].y - kept[0].y) - (kept[k].y - kept[0].y) * (kept[k + 1].x - kept[0].x);
    }
    double common = ::fabs(area) / 2;
    return common / (one + other - common);
}

template <class S> __global__ void rotated_overlaps(u64 n, float* out, const S* first, const S* second, u64 columns) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a[5], b[5];
    for (int k = 0; k < 5; k++) a[k] = widen(first[i / columns * 5 + k]), b[k] = widen(second[i % columns * 5 + k]);
    out[i] = (float)rotated_overlap(a, b);
}

}  // namespace ct
