"""Programs with operators that take functions, whose graphs `make_fx` records: shared by the test and the script that
has PyTorch record them."""

import importlib


def functions(torch):
    """``cond`` and its relatives of a library."""
    operators = f"{torch.__name__}._higher_order_ops"
    scan = importlib.import_module(f"{operators}.scan").scan
    while_loop = importlib.import_module(f"{operators}.while_loop").while_loop
    mapped = importlib.import_module(f"{operators}.map").map
    return torch.cond, mapped, scan, while_loop


def programs(torch):
    """The programs by name: a function and its arguments."""
    cond, mapped, scan, while_loop = functions(torch)
    x, i = torch.arange(6.0).reshape(3, 2), torch.tensor(0)

    def gradient_of_cond(x):
        made = cond(x.sum() > 0, lambda a: (a.sin() * 2,), lambda a: (a.cos() + 1,), (x,))
        return torch.autograd.grad(made[0].sum(), x)[0]

    return {
        "cond": (lambda x: cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos() + 1, (x,)), (x,)),
        "gradient_of_cond": (gradient_of_cond, (x.clone().requires_grad_(),)),
        "while_loop": (
            lambda i, x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (i, x)), (i, x),
        ),
        "map": (lambda x, y: mapped(lambda a, b: a + b.sin(), x, y), (x, torch.ones(2))),
        "scan": (lambda x: scan(lambda c, a: (c + a, c * a), torch.zeros(2) + x[0], x), (x,)),
    }


def codes(module):
    """The code of a module and of the graphs in it."""
    return {"": module.code, **{name: child.code for name, child in module.named_children()}}
