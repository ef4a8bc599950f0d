//! Gradients of recurrent networks.

use crate::formulas::any::{no_derivative, zeros_like};
use corten_core::{Result, Scalar, grad_mode_enabled};
use corten_ops::{Tensor, op};

const ONE: Scalar = Scalar::Int(1);

/// Gradients of a sequence of long short-term memory with respect to gates, states and weight.
///
/// # Errors
/// Those of the operators.
pub fn lstm_sequence_grads(
    needs: &[bool],
    grad_output: &Tensor,
    grad_cy: &Tensor,
    grad_workspace: &Tensor,
    gates: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    workspace: &Tensor,
    reverse: bool,
) -> Result<Vec<Tensor>> {
    if grad_workspace.defined() && workspace.numel() > 0 {
        no_derivative(grad_workspace, "the workspace of lstm_sequence")?;
    }
    let grad_output = match grad_output.defined() {
        true => grad_output.clone(),
        false => zeros_like(&op::narrow(gates, 2, 0, hx.size(1)?)?)?,
    };
    let grad_cy = if grad_cy.defined() { grad_cy.clone() } else { zeros_like(cx)? };
    if grad_mode_enabled() || workspace.numel() == 0 {
        return by_operators(needs, &grad_output, &grad_cy, gates, [hx, cx], w_hh, reverse);
    }
    let (gates, h, c, w) =
        op::lstm_sequence_backward(&grad_output, &grad_cy, hx, cx, w_hh, workspace, reverse)?;
    Ok(vec![gates, h, c, w])
}

/// What a step has computed, and the states before it.
struct Step {
    h: Tensor,
    c: Tensor,
    gates: [Tensor; 4],
    tanh: Tensor,
}

/// The same by operators, for derivatives of derivatives.
fn by_operators(
    needs: &[bool],
    grad_output: &Tensor,
    grad_cy: &Tensor,
    gates: &Tensor,
    [hx, cx]: [&Tensor; 2],
    w_hh: &Tensor,
    reverse: bool,
) -> Result<Vec<Tensor>> {
    let length = gates.size(0)?;
    let place = |step: i64| if reverse { length - 1 - step } else { step };
    let turned = op::t(w_hh)?;
    let (mut h, mut c) = (hx.clone(), cx.clone());
    let mut steps = Vec::new();
    for step in 0..length {
        let sums = op::addmm(&op::select_int(gates, 0, place(step))?, &h, &turned, ONE, ONE)?;
        let [input, forget, new, out] = four(&sums)?;
        let gates = [input.sigmoid()?, forget.sigmoid()?, new.tanh()?, out.sigmoid()?];
        let after = ((&gates[1] * &c)? + (&gates[0] * &gates[2])?)?;
        let tanh = after.tanh()?;
        let output = (&gates[3] * &tanh)?;
        steps.push(Step { h, c, gates, tanh });
        (h, c) = (output, after);
    }
    let (mut grad_h, mut grad_c) = (zeros_like(hx)?, grad_cy.clone());
    // Bounded: as many as steps, which were tensors each.
    let mut of_gates = vec![Tensor::undefined(); steps.len()];
    let mut grad_w = zeros_like(w_hh)?;
    for (index, step) in steps.iter().enumerate().rev() {
        let index = place(index as i64);
        let Step { h, c, gates: [input, forget, new, out], tanh } = step;
        let grad = (op::select_int(grad_output, 0, index)? + &grad_h)?;
        grad_c = (&grad_c + op::tanh_backward(&(&grad * out)?, tanh)?)?;
        let grads = [
            op::sigmoid_backward(&(&grad_c * new)?, input)?,
            op::sigmoid_backward(&(&grad_c * c)?, forget)?,
            op::tanh_backward(&(&grad_c * input)?, new)?,
            op::sigmoid_backward(&(&grad * tanh)?, out)?,
        ];
        let grads = op::cat(&grads, 1)?;
        grad_h = op::mm(&grads, w_hh)?;
        grad_c = (&grad_c * forget)?;
        if needs[3] {
            grad_w = op::addmm(&grad_w, &op::t(&grads)?, h, ONE, ONE)?;
        }
        of_gates[index as usize] = grads;
    }
    let grad_gates = if length > 0 { op::stack(&of_gates, 0)? } else { zeros_like(gates)? };
    Ok(vec![grad_gates, grad_h, grad_c, grad_w])
}

/// The gates.
fn four(sums: &Tensor) -> Result<[Tensor; 4]> {
    let hidden = sums.size(1)? / 4;
    let part = |index: i64| op::narrow(sums, 1, index * hidden, hidden);
    Ok([part(0)?, part(1)?, part(2)?, part(3)?])
}

/// Gradients of a sequence of gated recurrent units with respect to gates, state, weight and bias.
///
/// # Errors
/// Those of the operators.
pub fn gru_sequence_grads(
    needs: &[bool],
    grad_output: &Tensor,
    grad_workspace: &Tensor,
    gates: &Tensor,
    hx: &Tensor,
    w_hh: &Tensor,
    b_hh: Option<&Tensor>,
    workspace: &Tensor,
    reverse: bool,
) -> Result<Vec<Tensor>> {
    if grad_workspace.defined() && workspace.numel() > 0 {
        no_derivative(grad_workspace, "the workspace of gru_sequence")?;
    }
    let grad_output = match grad_output.defined() {
        true => grad_output.clone(),
        false => zeros_like(&op::narrow(gates, 2, 0, hx.size(1)?)?)?,
    };
    if grad_mode_enabled() || workspace.numel() == 0 {
        return gru_by_operators(needs, &grad_output, gates, hx, w_hh, b_hh, reverse);
    }
    let (gates, h, w, b) = op::gru_sequence_backward(&grad_output, hx, w_hh, workspace, reverse)?;
    Ok(vec![gates, h, w, if b_hh.is_some() { b } else { Tensor::undefined() }])
}

/// What a step of gated recurrent units has computed, and the state before it.
struct GruStep {
    h: Tensor,
    reset: Tensor,
    update: Tensor,
    new: Tensor,
    of_new: Tensor,
}

/// The same by operators, for derivatives of derivatives.
fn gru_by_operators(
    needs: &[bool],
    grad_output: &Tensor,
    gates: &Tensor,
    hx: &Tensor,
    w_hh: &Tensor,
    b_hh: Option<&Tensor>,
    reverse: bool,
) -> Result<Vec<Tensor>> {
    let (length, hidden) = (gates.size(0)?, hx.size(1)?);
    let place = |step: i64| if reverse { length - 1 - step } else { step };
    let part = |sums: &Tensor, gate: i64| op::narrow(sums, 1, gate * hidden, hidden);
    let mut h = hx.clone();
    let mut steps = Vec::new();
    for step in 0..length {
        let of_input = op::select_int(gates, 0, place(step))?;
        let of_state = op::linear(&h, w_hh, b_hh)?;
        let reset = (part(&of_input, 0)? + part(&of_state, 0)?)?.sigmoid()?;
        let update = (part(&of_input, 1)? + part(&of_state, 1)?)?.sigmoid()?;
        let of_new = part(&of_state, 2)?;
        let new = (part(&of_input, 2)? + (&reset * &of_new)?)?.tanh()?;
        let output = (&new + ((&h - &new)? * &update)?)?;
        steps.push(GruStep { h, reset, update, new, of_new });
        h = output;
    }
    let mut grad_h = zeros_like(hx)?;
    // Bounded: as many as steps, which were tensors each.
    let mut of_gates = vec![Tensor::undefined(); steps.len()];
    let mut grad_w = zeros_like(w_hh)?;
    let mut grad_b = b_hh.map_or_else(|| Ok(Tensor::undefined()), zeros_like)?;
    for (index, step) in steps.iter().enumerate().rev() {
        let index = place(index as i64);
        let GruStep { h, reset, update, new, of_new } = step;
        let grad = (op::select_int(grad_output, 0, index)? + &grad_h)?;
        let carried = (&grad * update)?;
        let grad_new = op::tanh_backward(&(&grad - &carried)?, new)?;
        let grad_update = op::sigmoid_backward(&(&grad * (h - new)?)?, update)?;
        let grad_reset = op::sigmoid_backward(&(&grad_new * of_new)?, reset)?;
        let through = (&grad_new * reset)?;
        let of_state = op::cat(&[grad_reset.clone(), grad_update.clone(), through], 1)?;
        of_gates[index as usize] = op::cat(&[grad_reset, grad_update, grad_new], 1)?;
        grad_h = op::addmm(&carried, &of_state, w_hh, ONE, ONE)?;
        if needs[2] {
            grad_w = op::addmm(&grad_w, &op::t(&of_state)?, h, ONE, ONE)?;
        }
        if grad_b.defined() {
            grad_b = (&grad_b + op::sum_dim_intlist(&of_state, Some(&[0]), false, None)?)?;
        }
    }
    let grad_gates = if length > 0 { op::stack(&of_gates, 0)? } else { zeros_like(gates)? };
    Ok(vec![grad_gates, grad_h, grad_w, grad_b])
}
