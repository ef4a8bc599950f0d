// Connectionist temporal classification (Graves et al. 2006): sums over alignments in logarithms. A block has a
// sample and goes from step to step; its threads have states, which are labels between blanks.

namespace ct {

const u32 CTC_SAMPLES = 128;

struct Ctc {
    i64 steps, samples, classes, states, blank;
    /// The first sample of a launch.
    i64 first;
    u32 zero_infinity;
    /// Of the launch's samples: the steps, the labels, and where the labels begin.
    u32 lengths[CTC_SAMPLES], labels[CTC_SAMPLES];
    i64 starts[CTC_SAMPLES];
};

/// The sum of three numbers given by logarithms.
template <class V> CT_FN V log_sum(V a, V b, V c) {
    V most = max(a, max(b, c));
    if (most == (V)-CT_INFINITY) return most;
    return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

/// The class of a state. One that does not exist is reported, and the blank stands for it.
CT_FN i64 ctc_class(const Ctc& g, const i64* labels, i64 state, u32* failure) {
    i64 label = state % 2 ? labels[state / 2] : g.blank;
    if (label >= 0 && label < g.classes) return label;
    *failure = 1;
    return g.blank;
}

/// Whether a state can be reached over a blank between different labels.
CT_FN bool ctc_skips(const i64* labels, i64 state) {
    return state % 2 == 1 && state >= 3 && labels[state / 2] != labels[state / 2 - 1];
}

/// The logarithms of the sums over the beginnings of alignments, and the losses.
template <class S, class V>
__global__ void ctc_beginnings(Ctc g, const S* log_probs, const i64* labels, S* alphas, S* losses, u32* failure) {
    u32 own = blockIdx.x;
    i64 sample = g.first + own, length = g.lengths[own], states = 2 * (i64)g.labels[own] + 1;
    S* alpha = alphas + sample * g.steps * g.states;
    labels += g.starts[own];
    const V none = (V)-CT_INFINITY;
    for (i64 t = 0; t < g.steps; t++) {
        const S *row = log_probs + (t * g.samples + sample) * g.classes, *before = alpha + (t - 1) * g.states;
        for (i64 s = threadIdx.x; s < g.states; s += blockDim.x) {
            V sum = none;
            if (t < length && s < states) {
                if (t == 0) {
                    sum = s < 2 ? (V)0 : none;
                } else {
                    V skipped = ctc_skips(labels, s) ? (V)widen(before[s - 2]) : none;
                    sum = log_sum((V)widen(before[s]), s > 0 ? (V)widen(before[s - 1]) : none, skipped);
                }
                sum += (V)widen(row[ctc_class(g, labels, s, failure)]);
            }
            alpha[t * g.states + s] = narrow<S>(sum);
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    const S* last = alpha + (length - 1) * g.states;
    V total = states == 1 ? (V)0 : none;
    if (length > 0) {
        total = log_sum((V)widen(last[states - 1]), states > 1 ? (V)widen(last[states - 2]) : none, none);
    }
    losses[sample] = narrow<S>(-total);
}

/// The logarithms of the sums over the ends of alignments, of all steps.
template <class S, class V>
__global__ void ctc_ends(Ctc g, const S* log_probs, const i64* labels, S* betas, u32* failure) {
    u32 own = blockIdx.x;
    i64 sample = g.first + own, length = g.lengths[own], states = 2 * (i64)g.labels[own] + 1;
    S* beta = betas + sample * g.steps * g.states;
    labels += g.starts[own];
    const V none = (V)-CT_INFINITY;
    for (i64 t = length - 1; t >= 0; t--) {
        const S *row = log_probs + (t * g.samples + sample) * g.classes, *after = beta + (t + 1) * g.states;
        for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
            V sum;
            if (t == length - 1) {
                sum = s + 2 >= states ? (V)0 : none;
            } else {
                V skipped = s + 2 < states && ctc_skips(labels, s + 2) ? (V)widen(after[s + 2]) : none;
                sum = log_sum((V)widen(after[s]), s + 1 < states ? (V)widen(after[s + 1]) : none, skipped);
            }
            beta[t * g.states + s] = narrow<S>(sum + (V)widen(row[ctc_class(g, labels, s, failure)]));
        }
        __syncthreads();
    }
}

/// Gradients of a step of a sample per block, steps along x. A class that several states have is summed by the
/// thread of the first of them, the blank by all threads.
template <class S, class V>
__global__ void ctc_slopes(
    Ctc g, const S* log_probs, const i64* labels, const S* alphas, const S* betas, const S* losses, const S* grads,
    u32 single, S* out, u32* failure
) {
    __shared__ V sums[256];
    u32 own = blockIdx.y;
    i64 t = blockIdx.x, sample = g.first + own, states = 2 * (i64)g.labels[own] + 1;
    V loss = widen(losses[sample]), grad = widen(grads[single ? 0 : sample]);
    const S* row = log_probs + (t * g.samples + sample) * g.classes;
    out += (t * g.samples + sample) * g.classes;
    bool zero = t >= g.lengths[own] || (g.zero_infinity && loss == (V)CT_INFINITY);
    const V none = (V)-CT_INFINITY;
    for (i64 c = threadIdx.x; c < g.classes; c += blockDim.x) {
        V log = widen(row[c]);
        out[c] = narrow<S>(zero ? (V)0 : (exp(log) - exp(none + loss - log)) * grad);
    }
    if (zero) return;
    labels += g.starts[own];
    const S *alpha = alphas + (sample * g.steps + t) * g.states, *beta = betas + (sample * g.steps + t) * g.states;
    V blank = none;
    for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
        if (ctc_class(g, labels, s, failure) == g.blank) blank = log_sum(blank, (V)widen(alpha[s]) + (V)widen(beta[s]), none);
    }
    sums[threadIdx.x] = blank;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] = log_sum(sums[threadIdx.x], sums[threadIdx.x + half], none);
        __syncthreads();
    }
    for (i64 s = 2 * (i64)threadIdx.x + 1; s < states + 2; s += 2 * (i64)blockDim.x) {
        // Behind the labels comes the blank.
        i64 of = s < states ? ctc_class(g, labels, s, failure) : g.blank;
        V sum = s < states ? none : sums[0];
        bool first = s >= states || of != g.blank;
        for (i64 other = 1; s < states && first && other < states; other += 2) {
            if (labels[other / 2] != of) continue;
            if (other < s) first = false;
            else sum = log_sum(sum, (V)widen(alpha[other]) + (V)widen(beta[other]), none);
        }
        V log = widen(row[of]);
        if (first) out[of] = narrow<S>((exp(log) - exp(sum + loss - log)) * grad);
    }
}

}  // namespace ct
