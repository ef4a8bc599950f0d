"""Writes tests/goldens/event_files.txt: the bytes of event files that the Python package writes.

A line is a case: its name, `|`, the bytes of a record in hexadecimal. Times and steps are those of the test in
crates/corten/tests/tensorboard.rs. Sums of the histograms are exact in every order.
"""

from pathlib import Path

import corten
from corten.utils.tensorboard import _records as records
from corten.utils.tensorboard import _summaries as summaries

ROOT = Path(__file__).resolve().parents[3]


def cases():
    values = corten.tensor([0.5, -0.25, 1.0, 0.0, 0.75, 2.0, 0.5])
    edges = [-1.0, 0.0, 0.5, 1.0, 2.0]
    yield "scalar", summaries.scalar("loss/train", 0.1)
    yield "scalar_tensor", summaries.scalar("loss", 0.1, new_style=True)
    yield "scalar_double", summaries.scalar("loss", 0.1, double_precision=True)
    yield "text", summaries.text("notes", "two *words* ä")
    yield "histogram", summaries.histogram("weights", values, "tensorflow")
    yield "histogram_edges", summaries.histogram("weights", values, edges)
    yield "histogram_joined", summaries.histogram("weights", values, "tensorflow", 100)


def main():
    lines = [
        f"{name}|{records.record(records.event(1700000000.25, step, 5, summary)).hex()}"
        for step, (name, summary) in enumerate(cases())
    ]
    version = records.record(records.event(1700000000.25, 0, 3, "brain.Event:2"))
    lines.append(f"version|{version.hex()}")
    (ROOT / "tests/goldens/event_files.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
