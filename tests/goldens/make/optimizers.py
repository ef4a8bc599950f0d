"""Writes tests/goldens/optimizers.txt: parameters after steps of PyTorch's optimizers, and rates of its schedules; and
tests/goldens/optimizer_names.txt, the names of all of them.

A line is a case: its name, `|`, numbers. Parameters are float64; gradients are functions of the parameters and of
the step, which the test in crates/corten/tests/all/optimizers.rs computes as well.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

OPTIMIZERS = {
    "SGD": [{}, {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.02},
            {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True}],
    "ASGD": [{}, {"lr": 0.05, "t0": 3, "weight_decay": 0.1}],
    "Adam": [{}, {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True}, {"lr": 0.05, "maximize": True}],
    "AdamW": [{}, {"lr": 0.05, "betas": (0.8, 0.95), "amsgrad": True}],
    "Adamax": [{}, {"lr": 0.05, "weight_decay": 0.1}],
    "NAdam": [{}, {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"lr": 0.05, "weight_decay": 0.1}, {"lr": 0.05, "betas": (0.9, 0.7)}],
    "Adadelta": [{}, {"lr": 0.5, "weight_decay": 0.1, "rho": 0.8}],
    "Adagrad": [{}, {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}],
    "RMSprop": [{}, {"lr": 0.02, "momentum": 0.9, "centered": True, "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.05, "etas": (0.4, 1.3), "step_sizes": (1e-3, 0.2)}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1, "d": 2.0}],
    "Muon": [{}, {"lr": 0.05, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}],
    "LBFGS": [{"lr": 0.1, "max_iter": 4}, {"line_search_fn": "strong_wolfe", "max_iter": 6, "history_size": 3}],
}

SCHEDULES = {
    "StepLR": ((3,), {"gamma": 0.5}),
    "MultiStepLR": (([2, 5, 5],), {"gamma": 0.5}),
    "ConstantLR": ((), {"factor": 0.25, "total_iters": 4}),
    "LinearLR": ((), {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 6}),
    "ExponentialLR": ((0.9,), {}),
    "PolynomialLR": ((8, 2.0), {}),
    "CosineAnnealingLR": ((4,), {"eta_min": 0.01}),
    "CosineAnnealingWarmRestarts": ((3,), {"T_mult": 2, "eta_min": 0.01}),
    "LambdaLR": ((lambda epoch: 0.9**epoch,), {}),
    "MultiplicativeLR": ((lambda epoch: 1 - epoch / 20,), {}),
    "CyclicLR": ((0.01, 0.2), {"step_size_up": 3, "step_size_down": 2, "mode": "triangular2"}),
    "OneCycleLR": ((0.5, 15), {}),
    "OneCycleLR three phases": ((0.5, 15), {"three_phase": True, "anneal_strategy": "linear"}),
}


def numbers(values):
    return " ".join(f"{float(value):.17g}" for value in values)


def main():
    import torch

    torch.set_default_dtype(torch.float64)

    def parameters(matrices):
        shapes = [(3, 4), (4, 2)] if matrices else [(3, 4), (5,), ()]
        made = []
        for index, shape in enumerate(shapes):
            count = int(torch.tensor(shape).prod()) if shape else 1
            values = torch.arange(count) * 0.37 + index + 0.11
            made.append(torch.nn.Parameter(torch.sin(values).reshape(shape)))
        return made

    def loss_of(params, step):
        return sum(((p * p).sum() * 0.5 + torch.cos(p * 1.3 + 0.1 * step).sum()) for p in params)

    lines = []
    for name, cases in OPTIMIZERS.items():
        for number, settings in enumerate(cases):
            params = parameters(name == "Muon")
            kind = getattr(torch.optim, name)
            optimizer = kind(params, **({} if name in ("LBFGS", "Muon") else {"foreach": False}), **settings)
            for step in range(6):
                def closure():
                    optimizer.zero_grad()
                    loss = loss_of(params, step)
                    loss.backward()
                    return loss

                optimizer.step(closure)
            values = torch.cat([p.detach().reshape(-1) for p in params])
            lines.append(f"{name} {number}|{numbers(values)}")
            state = optimizer.state_dict()
            names = [*state["state"].get(0, {}), "/", *(key for key in state["param_groups"][0])]
            lines.append(f"{name} {number} names|{' '.join(names)}")
    for name, (args, settings) in SCHEDULES.items():
        first, second = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([{"params": [first], "lr": 0.3}, {"params": [second]}], lr=0.1, momentum=0.5)
        scheduler = getattr(torch.optim.lr_scheduler, name.split()[0])(optimizer, *args, **settings)
        rates, momenta = [], []
        for _ in range(14):
            rates += [group["lr"] for group in optimizer.param_groups]
            momenta.append(optimizer.param_groups[0]["momentum"])
            optimizer.step()
            scheduler.step()
        lines.append(f"{name}|{numbers([*rates, *momenta])}")
        names = [key for key in scheduler.state_dict()]
        lines.append(f"{name} names|{' '.join(names)}")
    lines += chains(torch)
    (ROOT / "tests" / "goldens" / "optimizers.txt").write_text("\n".join(lines) + "\n")
    (ROOT / "tests" / "goldens" / "optimizer_names.txt").write_text("\n".join(public_names(torch)) + "\n")


def public_names(torch):
    """What is public of the modules of optimizers, schedules and averages, and the scaler of losses."""
    optim = torch.optim
    modules = {"optim": optim, "optim.lr_scheduler": optim.lr_scheduler, "optim.swa_utils": optim.swa_utils}
    found = {f"{place}.{name}" for place, module in modules.items() for name in module.__all__
             if callable(getattr(module, name))}
    return sorted(found | {"amp.GradScaler"})


def chains(torch):
    sched = torch.optim.lr_scheduler
    lines = []
    for name in ("SequentialLR", "ChainedScheduler", "ReduceLROnPlateau", "SWALR"):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
        rates = []
        if name == "ReduceLROnPlateau":
            scheduler = sched.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, cooldown=1, min_lr=0.01)
        elif name == "SWALR":
            scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=5)
        elif name == "SequentialLR":
            parts = [sched.ConstantLR(optimizer, 0.1, 3), sched.LinearLR(optimizer, 0.5, 1.0, 4),
                     sched.ExponentialLR(optimizer, 0.8)]
            scheduler = sched.SequentialLR(optimizer, parts, [3, 8])
        else:
            parts = [sched.ConstantLR(optimizer, 0.1, 4), sched.ExponentialLR(optimizer, 0.9)]
            scheduler = sched.ChainedScheduler(parts, optimizer)
        for epoch in range(14):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step(*([max(1.0, 3.0 - epoch)] if name == "ReduceLROnPlateau" else []))
        lines.append(f"{name}|{numbers(rates)}")
    return lines


if __name__ == "__main__":
    main()
