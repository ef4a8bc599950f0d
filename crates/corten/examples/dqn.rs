//! Deep Q-learning of the pole on a cart (Barto, Sutton and Anderson, 1983).
//!
//! `cargo run --release --example dqn -- [--steps 3000] [--lr 0.001] [--batch 32] [--out out]`
#![allow(clippy::print_stdout)]

mod common;

use common::{Progress, option, save};
use corten::prelude::*;

type State = [f64; 4];

/// Place, speed, angle and its speed; a push to the left or to the right every 20 ms.
#[derive(Default)]
struct Cart {
    state: State,
    steps: usize,
}

impl Cart {
    fn reset(&mut self) -> Result<State> {
        for (place, number) in self.state.iter_mut().zip(Tensor::rand([4])?.to_vec::<f64>()?) {
            *place = 0.1 * number - 0.05;
        }
        self.steps = 0;
        Ok(self.state)
    }

    /// The state after a push, whether the pole fell, and whether the episode is over.
    fn step(&mut self, action: i64) -> (State, bool, bool) {
        let [x, speed, angle, turn] = self.state;
        let force = if action == 1 { 10.0 } else { -10.0 };
        let (sine, cosine) = angle.sin_cos();
        let push = (force + 0.05 * turn * turn * sine) / 1.1;
        let bend = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1));
        let pull = push - 0.05 * bend * cosine / 1.1;
        self.state =
            [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * bend];
        self.steps += 1;
        let fell = self.state[0].abs() > 2.4 || self.state[2].abs() > 0.2095;
        (self.state, fell, fell || self.steps == 200)
    }
}

/// A state, what was done, the state behind it, and whether the pole still stood.
struct Transition {
    before: State,
    action: i64,
    after: State,
    is_alive: bool,
}

/// Values of both actions in a state.
fn network() -> Result<Sequential> {
    Ok(Sequential::new()
        .with(Linear::new(4, 32)?)
        .with(Relu)
        .with(Linear::new(32, 32)?)
        .with(Relu)
        .with(Linear::new(32, 2)?))
}

/// States as the rows of a matrix.
fn rows(states: impl Iterator<Item = State>) -> Result<Tensor> {
    let numbers: Vec<f32> = states.flatten().map(|number| number as f32).collect();
    let count = numbers.len() as i64 / 4;
    Tensor::from_vec(numbers, &[count, 4])
}

/// A network, the older copy that it learns from, and what has been seen.
struct Agent {
    net: Sequential,
    target: Sequential,
    optimizer: Adam,
    memory: Vec<Transition>,
    cart: Cart,
    state: State,
    lengths: Vec<usize>,
}

impl Agent {
    fn new(lr: f64) -> Result<Self> {
        let (net, target) = (network()?, network()?);
        target.load_state_dict(net.state_dict()?, true)?;
        let optimizer = Adam::new(net.parameters(), AdamOptions { lr, ..Default::default() })?;
        let mut cart = Cart::default();
        let state = cart.reset()?;
        Ok(Self { net, target, optimizer, memory: Vec::new(), cart, state, lengths: Vec::new() })
    }

    /// One step in the world: at random with probability `exploration`.
    fn act(&mut self, exploration: f64) -> Result<()> {
        let action = if Tensor::rand([1])?.to_element::<f64>()? < exploration {
            Tensor::randint(0, 2, [1])?.to_element()?
        } else {
            let state = rows([self.state].into_iter())?;
            let values = no_grad(|| self.net.forward(&state))?;
            values.argmax_with(Some(1), false)?.to_element()?
        };
        let before = self.state;
        let (after, fell, is_over) = self.cart.step(action);
        self.memory.push(Transition { before, action, after, is_alive: !fell });
        self.state = after;
        if is_over {
            self.lengths.push(self.cart.steps);
            self.state = self.cart.reset()?;
        }
        Ok(())
    }

    /// One step of the optimizer on remembered transitions; returns the loss.
    fn learn(&mut self, batch: i64) -> Result<f32> {
        let picked = Tensor::randint(0, self.memory.len() as i64, [batch])?.to_vec::<i64>()?;
        let seen: Vec<&Transition> = picked.iter().map(|i| &self.memory[*i as usize]).collect();
        let actions = Tensor::try_from(seen.iter().map(|t| t.action).collect::<Vec<_>>())?;
        let alive =
            Tensor::try_from(seen.iter().map(|t| f32::from(t.is_alive)).collect::<Vec<_>>())?;
        let (before, after) =
            (rows(seen.iter().map(|t| t.before))?, rows(seen.iter().map(|t| t.after))?);
        let wanted = no_grad(|| {
            let best = op::amax(&self.target.forward(&after)?, &[1], false)?;
            &alive + 0.98 * &alive * best
        })?;
        let values =
            self.net.forward(&before)?.gather(1, &actions.unsqueeze(1)?)?.squeeze_dim(1)?;
        let loss = loss::smooth_l1_loss(&values, &wanted, 1.0, Reduction::Mean)?;
        self.optimizer.zero_grad()?;
        loss.backward()?;
        self.optimizer.step()?;
        loss.to_element()
    }
}

fn main() -> Result<()> {
    let (steps, batch) = (option("steps", 3000usize), option("batch", 32i64));
    corten::manual_seed(0);
    let mut agent = Agent::new(option("lr", 1e-3))?;
    for _ in 0..64 {
        agent.act(1.0)?;
    }
    let (mut progress, mut losses) = (Progress::new(steps), Vec::with_capacity(steps));
    for step in 0..steps {
        agent.act((1.0 - step as f64 / 1000.0).max(0.05))?;
        losses.push(agent.learn(batch)?);
        if losses.len() % 100 == 0 {
            agent.target.load_state_dict(agent.net.state_dict()?, true)?;
        }
        progress.step(&format!("loss {:.4}", losses[step]));
    }
    let last = &agent.lengths[agent.lengths.len().saturating_sub(10)..];
    let mean = last.iter().sum::<usize>() as f64 / last.len().max(1) as f64;
    println!("the last {} episodes had {mean:.1} steps", last.len());
    save(&agent.net, &losses, "dqn")
}
