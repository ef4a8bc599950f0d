// Whole steps of optimizers: each number is read and written once, many tensors in a launch.

namespace ct {

const int MOST_TENSORS = 32;

/// Parameters, gradients and up to three states of tensors, and their counts of steps.
struct Lists {
    u64 numel[MOST_TENSORS];
    char* at[5][MOST_TENSORS];
    const float* steps[MOST_TENSORS];
};

struct Settings {
    double lr, beta1, beta2, weight_decay, eps, dampening;
    u32 decoupled, maximize, nesterov, is_first;
};

enum Optimizer { SGD, SGD_MOMENTUM, ADAM, ADAM_LARGEST, ADADELTA };

template <class V> CT_FN V decayed(V param, V grad, double weight_decay, const Settings& s) {
    if (s.maximize) grad = -grad;
    return weight_decay == 0 ? grad : mul_add(param, (V)weight_decay, grad);
}

template <class V> CT_FN V mean_square(V mean, V value, double rho) {
    return mul_add((V)(1 - rho) * value, value, mean * (V)rho);
}

template <class V, u32 KIND> CT_FN void moved(V* x, const Settings& s, double rate, double root) {
    if constexpr (KIND == SGD || KIND == SGD_MOMENTUM) {
        V own = decayed(x[0], x[1], s.weight_decay, s);
        if constexpr (KIND == SGD_MOMENTUM) {
            x[2] = s.is_first ? own : mul_add(own, (V)(1 - s.dampening), x[2] * (V)s.beta1);
            own = s.nesterov ? mul_add(x[2], (V)s.beta1, own) : x[2];
        }
        x[0] = mul_add(own, (V)-s.lr, x[0]);
    } else if constexpr (KIND == ADADELTA) {
        V own = decayed(x[0], x[1], s.weight_decay, s), eps = (V)s.eps;
        x[2] = mean_square(x[2], own, s.beta1);
        V delta = sqrt(x[3] + eps) / sqrt(x[2] + eps) * own;
        x[3] = mean_square(x[3], delta, s.beta1);
        x[0] = mul_add(delta, (V)-s.lr, x[0]);
    } else {
        if (s.decoupled) x[0] = x[0] * (V)(1 - s.lr * s.weight_decay);
        V own = decayed(x[0], x[1], s.decoupled ? 0 : s.weight_decay, s);
        double weight = 1 - s.beta1;
        // As lerp does.
        x[2] = weight < 0.5 ? mul_add((V)weight, own - x[2], x[2]) : mul_add((V)weight - (V)1, own - x[2], own);
        x[3] = mean_square(x[3], own, s.beta2);
        if constexpr (KIND == ADAM_LARGEST) x[4] = max(x[4], x[3]);
        V divisor = sqrt(x[KIND == ADAM_LARGEST ? 4 : 3]) / (V)root + (V)s.eps;
        x[0] = x[0] + (V)-rate * x[2] / divisor;
    }
}

/// Tensors along y, their elements along x.
template <class S, class V, u32 KIND>
__global__ void optimizer_step(Lists lists, Settings s, const float* grad_scale, const float* found_inf) {
    const int COUNT = KIND == SGD ? 2 : KIND == SGD_MOMENTUM ? 3 : KIND == ADAM_LARGEST ? 5 : 4;
    if (found_inf && *found_inf == 1.0f) return;
    u32 tensor = blockIdx.y;
    double rate = 0, root = 1;
    if constexpr (KIND == ADAM || KIND == ADAM_LARGEST) {
        double step = *lists.steps[tensor];
        rate = s.lr / (1 - ::pow(s.beta1, step));
        root = ::sqrt(1 - ::pow(s.beta2, step));
    }
    S* at[COUNT];
    #pragma unroll
    for (int k = 0; k < COUNT; k++) at[k] = reinterpret_cast<S*>(lists.at[k][tensor]);
    u64 n = lists.numel[tensor];
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        V x[COUNT];
        #pragma unroll
        for (int k = 0; k < COUNT; k++) x[k] = (V)widen(at[k][i]);
        if (grad_scale) {
            x[1] = x[1] / (V)*grad_scale;
            at[1][i] = narrow<S>(x[1]);
        }
        moved<V, KIND>(x, s, rate, root);
        #pragma unroll
        for (int k = 0; k < COUNT; k++) {
            if (k != 1) at[k][i] = narrow<S>(x[k]);
        }
    }
}

}  // namespace ct
