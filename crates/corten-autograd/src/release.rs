//! The end of nodes: chains of any length are freed without recursion.

use crate::backward::Gradients;
use crate::hooks::NodeHooks;
use crate::node::{Body, Edges, Node, NodeDef};
use crate::saved::Saved;
use crate::slots::SavedSlots;
use std::cell::{Cell, RefCell};

/// What a dying node owns and what may own further nodes.
struct Remains {
    _body: Body,
    _edges: Edges,
    _saved: SavedSlots,
    _hooks: Option<Box<NodeHooks>>,
}

thread_local! {
    /// How many nodes are being dropped on this thread, each inside of the one before.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// `Some` while a node at the greatest depth is being dropped on this thread.
    static GRAVEYARD: RefCell<Option<Vec<Remains>>> = const { RefCell::new(None) };
}

/// Nodes that are dropped inside of each other before the rest has to wait.
const DEEPEST: u32 = 32;

// Note [Iterative destruction]: dropping the last node of a chain drops its edges, which drop the
// next node, and so on: a recursion as deep as the graph, which overflows the stack at some ten
// thousand nodes. So from a certain depth on only the outermost drop on a thread frees anything;
// the inner ones leave what they own to it. This also covers the ways through a saved tensor, its
// metadata and its `grad_fn`, which a walk over edges alone would miss.
impl Drop for Node {
    fn drop(&mut self) {
        let freed = DEPTH.try_with(|depth| {
            let above = depth.get();
            if above < DEEPEST {
                depth.set(above + 1);
                self.free();
                depth.set(above);
            }
            above < DEEPEST
        });
        match freed {
            Ok(true) => {}
            Ok(false) => self.bury(),
            // The thread ends and its locals are gone: what is left is freed recursively.
            Err(_) => self.free(),
        }
    }
}

impl Node {
    fn free(&mut self) {
        for edge in &mut *self.edges {
            edge.node = None;
        }
        for slot in &mut **self.saved.slots_mut() {
            *slot = Saved::default();
        }
        if self.has_hooks() {
            drop(self.hooks.take());
        }
        if !matches!(self.body, Body::Generated(_)) {
            drop(self.take_body());
        }
    }

    #[cold]
    fn bury(&mut self) {
        bury(Remains {
            _body: self.take_body(),
            _edges: std::mem::take(&mut self.edges),
            _saved: std::mem::take(self.saved.slots_mut()),
            _hooks: self.hooks.take(),
        });
    }

    fn take_body(&mut self) -> Body {
        std::mem::replace(&mut self.body, Body::Generated(&GONE))
    }
}

static GONE: NodeDef =
    NodeDef { name: "freed", saved: &[], outputs: 0, backward: |ctx, _| Ok(Gradients::new(ctx)) };

fn bury(remains: Remains) {
    let mut outermost = Some(remains);
    // While the thread ends its locals may be gone; what is left then is freed recursively.
    let _ = GRAVEYARD.try_with(|graveyard| {
        let mut waiting = graveyard.borrow_mut();
        match &mut *waiting {
            Some(waiting) => waiting.extend(outermost.take()),
            None => *waiting = Some(Vec::new()),
        }
    });
    let Some(first) = outermost else { return };
    drop(first);
    loop {
        let next = GRAVEYARD.try_with(|graveyard| {
            let mut waiting = graveyard.borrow_mut();
            let next = waiting.as_mut().and_then(Vec::pop);
            if next.is_none() {
                *waiting = None;
            }
            next
        });
        match next {
            Ok(Some(remains)) => drop(remains),
            _ => return,
        }
    }
}
