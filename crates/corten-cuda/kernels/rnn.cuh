// Steps of recurrent networks: what is left of one after its product with the weight of the states. An element
// of the state per thread; gates lie side by side in rows, and so does what is kept of a step.

namespace ct {

template <class V> CT_FN V gate_of(V x) { return (V)1 / ((V)1 + exp(-x)); }

/// Long short-term memory: input, forget, cell and output gate; kept are these and the cell state.
template <class S, class V>
__global__ void lstm_step(
    u64 elements, u32 hidden, const S* of_input, const S* of_state, const S* before, S* cell, S* output, S* kept
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    u64 row = i / hidden, unit = i % hidden, first = row * 4 * hidden + unit;
    V gates[4];
    #pragma unroll
    for (int gate = 0; gate < 4; gate++) {
        u64 at = first + gate * (u64)hidden;
        V sum = (V)widen(of_input[at]) + (V)widen(of_state[at]);
        gates[gate] = gate == 2 ? tanh(sum) : gate_of(sum);
    }
    V state = gates[1] * (V)widen(before[i]) + gates[0] * gates[2];
    cell[i] = narrow<S>(state);
    output[i] = narrow<S>(gates[3] * tanh(state));
    if (!kept) return;
    S* at = kept + row * 5 * hidden + unit;
    #pragma unroll
    for (int gate = 0; gate < 4; gate++) at[gate * (u64)hidden] = narrow<S>(gates[gate]);
    at[4 * (u64)hidden] = narrow<S>(state);
}

/// Gradients of a step's gates; `carried` is the gradient of the cell state. `through` is the gradient that comes
/// from the step behind. The step's output, computed again, goes to `output`.
template <class S, class V>
__global__ void lstm_step_backward(
    u64 elements, u32 hidden, const S* grad, const S* through, const S* kept, const S* before, u32 before_row,
    S* carried, S* grad_gates, S* output
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    u64 row = i / hidden, unit = i % hidden;
    const S* at = kept + row * 5 * hidden + unit;
    V input = widen(at[0]), forget = widen(at[hidden]), fresh = widen(at[2 * (u64)hidden]);
    V out = widen(at[3 * (u64)hidden]), squashed = tanh((V)widen(at[4 * (u64)hidden]));
    V slope = widen(grad[i]);
    if (through) slope += (V)widen(through[i]);
    V of_cell = (V)widen(carried[i]) + slope * out * ((V)1 - squashed * squashed);
    V past = widen(before[row * before_row + unit]);
    S* to = grad_gates + row * 4 * hidden + unit;
    to[0] = narrow<S>(of_cell * fresh * (input * ((V)1 - input)));
    to[hidden] = narrow<S>(of_cell * past * (forget * ((V)1 - forget)));
    to[2 * (u64)hidden] = narrow<S>(of_cell * input * ((V)1 - fresh * fresh));
    to[3 * (u64)hidden] = narrow<S>(slope * squashed * (out * ((V)1 - out)));
    carried[i] = narrow<S>(of_cell * forget);
    if (output) output[i] = narrow<S>(out * squashed);
}

/// Gated recurrent units: reset, update and new gate; kept are these, what the state contributes to the new one,
/// and the state before.
template <class S, class V>
__global__ void gru_step(
    u64 elements, u32 hidden, const S* of_input, const S* of_state, const S* bias, const S* before, S* output, S* kept
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    u64 row = i / hidden, unit = i % hidden, first = row * 3 * hidden + unit;
    V inputs[3], states[3];
    #pragma unroll
    for (int gate = 0; gate < 3; gate++) {
        u64 at = first + gate * (u64)hidden;
        inputs[gate] = widen(of_input[at]), states[gate] = widen(of_state[at]);
        if (bias) states[gate] += (V)widen(bias[gate * (u64)hidden + unit]);
    }
    V reset = gate_of(inputs[0] + states[0]), update = gate_of(inputs[1] + states[1]);
    V fresh = tanh(inputs[2] + reset * states[2]), past = widen(before[i]);
    output[i] = narrow<S>((past - fresh) * update + fresh);
    if (!kept) return;
    S* at = kept + row * 5 * hidden + unit;
    at[0] = narrow<S>(reset);
    at[hidden] = narrow<S>(update);
    at[2 * (u64)hidden] = narrow<S>(fresh);
    at[3 * (u64)hidden] = narrow<S>(states[2]);
    at[4 * (u64)hidden] = before[i];
}

/// Gradients of a step's gates with respect to what the input and what the state contribute; `carried` is the part
/// of the state's gradient that passes by the gates.
template <class S, class V>
__global__ void gru_step_backward(
    u64 elements, u32 hidden, const S* grad, const S* through, const S* kept, S* carried, S* of_input, S* of_state
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    u64 row = i / hidden, unit = i % hidden, first = row * 3 * hidden + unit;
    const S* at = kept + row * 5 * hidden + unit;
    V reset = widen(at[0]), update = widen(at[hidden]), fresh = widen(at[2 * (u64)hidden]);
    V of_new = widen(at[3 * (u64)hidden]), past = widen(at[4 * (u64)hidden]);
    V slope = (V)widen(grad[i]);
    if (through) slope += (V)widen(through[i]) + (V)widen(carried[i]);
    V of_fresh = slope * ((V)1 - update) * ((V)1 - fresh * fresh);
    V slopes[3] = {of_fresh * of_new * (reset * ((V)1 - reset)), slope * (past - fresh) * (update * ((V)1 - update)), of_fresh};
    #pragma unroll
    for (int gate = 0; gate < 3; gate++) {
        u64 to = first + gate * (u64)hidden;
        of_input[to] = narrow<S>(slopes[gate]);
        of_state[to] = narrow<S>(gate == 2 ? of_fresh * reset : slopes[gate]);
    }
    carried[i] = narrow<S>(slope * update);
}

}  // namespace ct
