"""What compiled functions log: ``TORCH_LOGS`` and ``torch._logging.set_logs``."""

import logging
import os
import subprocess
import sys
import unittest

import corten as torch


def chain(x):
    y = x * 2 + 1
    if float(y.sum()) > 1e9:
        return y
    return y.exp() - x


class Logs(unittest.TestCase):
    def tearDown(self):
        torch._logging.set_logs()

    def logged(self, **settings):
        torch._logging.set_logs(**settings)
        compiled = torch.compile(lambda x: chain(x))
        x = torch.linspace(0, 1, 4096)
        compiled(x)  # operators run at once the first time they get a dtype
        with self.assertLogs("torch", level=logging.DEBUG) as caught:
            compiled(x)
        return "\n".join(caught.output)

    def test_breaks(self):
        text = self.logged(graph_breaks=True)
        self.assertIn("Graph break", text)
        self.assertIn("test_compile_logs.py:", text)
        self.assertNotIn("program 0", text)

    def test_programs_and_groups(self):
        text = self.logged(graph=True, fusion=True)
        self.assertIn("aten::exp", text)
        self.assertIn("bytes of memory traffic saved", text)

    def test_unknown_names(self):
        with self.assertRaisesRegex(ValueError, "Unrecognized log or artifact name"):
            torch._logging.set_logs(no_such_thing=True)
        with self.assertRaisesRegex(ValueError, "Expected bool value"):
            torch._logging.set_logs(graph_breaks=3)
        with self.assertRaisesRegex(ValueError, "not registered"):
            torch._logging.getArtifactLogger("torch", "no_such_thing")

    def test_variable(self):
        program = (
            "import corten as torch\n"
            "f = torch.compile(lambda x: (x * 2 + 1).exp().sum().item() + 1)\n"
            "x = torch.ones(4096)\nf(x); f(x)\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TORCH_LOGS": "graph_breaks,+dynamo"},
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("Graph break in <lambda>", ran.stderr)


if __name__ == "__main__":
    unittest.main()
