"""The Python examples of the documents run, and do what they say."""

import contextlib
import io
import pathlib
import re
import unittest

from module_under_test import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples(document):
    """The fenced Python blocks of a document, over the module under test."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block.replace("corten", torch.__name__) for block in blocks]


def printed(example):
    """What an example prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "<example>", "exec"), {"__name__": "__main__"})
    return out.getvalue()


class Documents(unittest.TestCase):
    def test_readme_trains(self):
        training, = examples("README.md")
        self.assertLess(float(printed(training)), 0.05)

    def test_every_example_runs(self):
        for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]:
            for example in examples(document):
                with self.subTest(document.name):
                    printed(example)


if __name__ == "__main__":
    unittest.main()
