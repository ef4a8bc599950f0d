"""Writes tests/goldens/event_files.txt: the bytes of event files, by the encoder in event_encoder.py.

A line is a case: its name, `|`, the bytes of a record in hexadecimal. Times and steps are those of the test in
crates/corten/tests/all/tensorboard.rs. Sums of the histograms are exact in every order.
"""

from pathlib import Path

import corten
import event_encoder as encoder

ROOT = Path(__file__).resolve().parents[3]


def cases():
    values = corten.tensor([0.5, -0.25, 1.0, 0.0, 0.75, 2.0, 0.5])
    edges = [-1.0, 0.0, 0.5, 1.0, 2.0]
    yield "scalar", encoder.scalar("loss/train", 0.1)
    yield "scalar_tensor", encoder.scalar("loss", 0.1, new_style=True)
    yield "scalar_double", encoder.scalar("loss", 0.1, double_precision=True)
    yield "text", encoder.text("notes", "two *words* ä")
    yield "histogram", encoder.histogram("weights", values, "tensorflow")
    yield "histogram_edges", encoder.histogram("weights", values, edges)
    yield "histogram_joined", encoder.histogram("weights", values, "tensorflow", 100)
    yield "audio", encoder.audio("beep", values - 0.625, 8000)
    labels, predictions = corten.tensor([1, 0, 1, 1, 0]), corten.tensor([0.9, 0.4, 0.35, 0.8, 0.1])
    yield "pr_curve", encoder.pr_curve("pr", labels, predictions, 5)
    weights = corten.tensor([1.0, 2.0, 0.5, 1.0, 4.0])
    yield "pr_curve_weighted", encoder.pr_curve("pr", labels, predictions, 200, weights)
    parameters = {"rate": 0.1, "layers": 3, "net": "small", "bias": True}
    found = encoder.hyperparameters(parameters, {"hp/loss": 1.0}, {"net": ["small", "large"]})
    for name, summary in zip(("experiment", "start", "end"), found):
        yield f"hparams_{name}", summary


def main():
    lines = [
        f"{name}|{encoder.record(encoder.event(1700000000.25, step, 5, summary)).hex()}"
        for step, (name, summary) in enumerate(cases())
    ]
    version = encoder.record(encoder.event(1700000000.25, 0, 3, "brain.Event:2"))
    lines.append(f"version|{version.hex()}")
    (ROOT / "tests/goldens/event_files.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
