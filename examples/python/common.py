"""What the demonstrations share: the framework, data, a progress bar, a curve, the saved model."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

if "--torch" in sys.argv:  # the same programs on the other framework
    import torch
    from safetensors.torch import save_file
else:
    import corten as torch
    from corten.safetensors import save_file

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"


def arguments(description, argv=None, **numbers):
    """The command line (or `argv`): `--out` and one option per named number."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--torch", action="store_true", help="run on the real torch")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for model and curve")
    parser.add_argument("--threads", type=int, default=0, help="threads of the kernels")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


def digits():
    """Images (n, 1, 8, 8) in [0, 1] and labels, split in random order into train and test."""
    rows = [[int(x) for x in line.split(",")] for line in (DATA / "digits.csv").open()]
    table = torch.tensor(rows)
    images = table[:, :64].float().view(-1, 1, 8, 8) / 16
    data = torch.utils.data.TensorDataset(images, table[:, 64])
    order = torch.Generator().manual_seed(0)
    return torch.utils.data.random_split(data, [1437, 360], generator=order)


class Progress:
    """A bar on stderr with the latest numbers."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.perf_counter()

    def step(self, text):
        self.done += 1
        filled = 30 * self.done // self.total
        seconds = time.perf_counter() - self.start
        end = "\n" if self.done == self.total else ""
        bar = "█" * filled + "·" * (30 - filled)
        print(f"\r{bar} {self.done}/{self.total} {seconds:5.1f} s  {text}", end=end, file=sys.stderr, flush=True)


def accuracy(model, data):
    """The fraction of samples whose most probable class is the label."""
    model.eval()
    images, labels = (torch.stack(list(column)) for column in zip(*data))
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return right


def train_classifier(model, train, args, limit=None):
    """Trains with AdamW and a one-cycle schedule, for `limit` steps at most; returns the losses."""
    loader = torch.utils.data.DataLoader(train, batch_size=64, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    steps = args.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=steps)
    progress, losses = Progress(steps), []
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if len(losses) == limit:
                return losses
            progress.step(f"epoch {epoch + 1}  loss {losses[-1]:.4f}")
    return losses


def save(model, losses, args, name):
    """Writes the weights and the curve of the losses."""
    save_file(model.state_dict(), str(args.out / f"{name}.safetensors"))
    (args.out / f"{name}.svg").write_text(curve(losses, name))
    print(f"saved {args.out / name}.safetensors and .svg")


def curve(losses, title, width=640, height=320, margin=44):
    """The losses as an SVG picture, with a running mean."""
    top = max(losses)
    inner_w, inner_h = width - 2 * margin, height - 2 * margin

    def points(values):
        scale = inner_w / max(1, len(values) - 1)
        return " ".join(
            f"{margin + i * scale:.1f},{margin + inner_h * (1 - v / top):.1f}"
            for i, v in enumerate(values)
        )

    mean, means = losses[0], []
    for loss in losses:
        mean += 0.1 * (loss - mean)
        means.append(mean)
    ticks = "".join(
        f'<text x="{margin - 6}" y="{margin + inner_h * (1 - k / 4) + 4:.0f}" text-anchor="end">'
        f"{top * k / 4:.2f}</text>"
        for k in range(5)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<text x="{width / 2}" y="24" text-anchor="middle" font-size="14">{title}: loss by step</text>
{ticks}<text x="{width - margin}" y="{height - margin + 18}" text-anchor="end">{len(losses)}</text>
<path d="M{margin} {margin}V{height - margin}H{width - margin}" fill="none" stroke="black"/>
<polyline points="{points(losses)}" fill="none" stroke="#bbb"/>
<polyline points="{points(means)}" fill="none" stroke="#b7410e" stroke-width="2"/>
</svg>
"""
