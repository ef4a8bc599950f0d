"""Starting the processes of a program: their environment, restarts, signals, files, and reports."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

RUN = [sys.executable, "-m", "corten.distributed.run"]
NAMES = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE TORCHELASTIC_RESTART_COUNT".split()


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def program(self, text):
        """The path of a program, which says what its environment is."""
        path = self.folder / "program.py"
        head = f"import json, os, sys, time\nenv = {{name: os.environ[name] for name in {NAMES!r}}}\n"
        # One write a line: lines of several processes do not mix.
        head += "def say(*words, to=1):\n    os.write(to, (' '.join(map(str, words)) + '\\n').encode())\n"
        path.write_text(head + textwrap.dedent(text))
        return str(path)

    def start(self, *arguments, **env):
        command = [*RUN, *map(str, arguments)]
        # Ranks of a user's own program would be told by these.
        clean = {name: value for name, value in os.environ.items() if name not in NAMES}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={**clean, "TMPDIR": str(self.folder), **env},
        )
        self.started.append(process)
        return process

    def run_program(self, *arguments, **env):
        process = self.start(*arguments, **env)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors


class Starting(Programs):
    def test_environment(self):
        program = self.program("say(json.dumps([env, sys.argv[1:], os.environ['MASTER_PORT'] != '']))")
        code, output, errors = self.run_program("--nproc-per-node", 2, program, "a", "--b")
        self.assertEqual(code, 0, errors)
        found = sorted((json.loads(line) for line in output.splitlines()), key=lambda each: each[0]["RANK"])
        for rank, (env, arguments, _) in enumerate(found):
            self.assertEqual(env, dict(zip(NAMES, [str(rank), str(rank), "0", "2", "2", "0"], strict=True)))
            self.assertEqual(arguments, ["a", "--b"])

    def test_settings_from_the_environment(self):
        program = self.program("say(env['WORLD_SIZE'])")
        code, output, errors = self.run_program(program, PET_NPROC_PER_NODE="2")
        self.assertEqual((code, output.split()), (0, ["2", "2"]), errors)

    def test_restart(self):
        program = self.program("""
            say(env["RANK"], env["TORCHELASTIC_RESTART_COUNT"])
            if env["TORCHELASTIC_RESTART_COUNT"] == "0":
                time.sleep(30) if env["RANK"] == "0" else sys.exit(3)
        """)
        code, output, errors = self.run_program("--nproc-per-node", 2, "--max-restarts", 1, program)
        self.assertEqual(code, 0, errors)
        self.assertEqual(sorted(output.split("\n"))[-2:], ["1 0", "1 1"])
        self.assertIn("0 1", output)

    def test_report(self):
        program = self.program("""
            from corten.distributed.elastic.multiprocessing.errors import record
            @record
            def main():
                raise ValueError("only here") if env["RANK"] == "1" else time.sleep(30)
            main()
        """)
        code, _, errors = self.run_program("--nproc-per-node", 2, program)
        self.assertEqual(code, 1)
        for text in (
            "program.py FAILED", "Root Cause (first observed failure):", "rank      : 1 (local_rank: 1)",
            "exitcode  : 1 (pid: ", "ValueError: only here", "ChildFailedError",
        ):
            self.assertIn(text, errors)

    def test_killed(self):
        program = self.program("os.kill(os.getpid(), 9) if env['RANK'] == '0' else time.sleep(30)")
        code, _, errors = self.run_program("--nproc-per-node", 2, program)
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"exitcode  : -9 \(pid: \d+\)  \(SIGKILL\)")
        self.assertRegex(errors, r"traceback : Signal 9 \(SIGKILL\) received by PID \d+")

    def test_signals(self):
        program = self.program("""
            import signal
            def end(number, frame):
                say("told")
                sys.exit(0)
            signal.signal(signal.SIGTERM, end)
            open(f"pid{env['RANK']}.part", "w").write(str(os.getpid()))
            os.rename(f"pid{env['RANK']}.part", f"pid{env['RANK']}")
            time.sleep(60)
        """)
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = self.start("--nproc-per-node", 2, program)
            pids = [self.number_in(self.folder / f"pid{rank}") for rank in range(2)]
            process.send_signal(number)
            output, errors = process.communicate(timeout=40)
            self.assertNotEqual(process.returncode, 0)
            if number == signal.SIGTERM:
                self.assertIn("SignalException", errors)
            self.assertEqual(output.split(), ["told", "told"])
            for pid in pids:
                self.until(lambda pid=pid: not alive(pid))

    def number_in(self, path):
        self.until(path.exists)
        number = int(path.read_text())
        path.unlink()
        return number

    def until(self, condition):
        end = time.monotonic() + 40
        while not condition():
            self.assertLess(time.monotonic(), end, "not in time")
            time.sleep(0.05)

    def test_files(self):
        program = self.program("say('out', env['RANK']); say('err', env['RANK'], to=2)")
        logs = self.folder / "logs"
        code, output, errors = self.run_program(
            "--nproc-per-node", 2, "--log-dir", logs, "--redirects", "0:1,1:3", "--tee", "0:1", program
        )
        self.assertEqual((code, output.splitlines()), (0, ["[default0]:out 0"]), errors)
        self.assertIn("err 0", errors)
        found = {str(path.relative_to(logs)).partition("/")[2]: path.read_text() for path in logs.rglob("*.log")}
        self.assertEqual(found["attempt_0/0/stdout.log"], "out 0\n")
        self.assertEqual(found["attempt_0/1/stderr.log"], "err 1\n")
        code, output, errors = self.run_program("--nproc-per-node", 2, "--local-ranks-filter", 1, program)
        self.assertEqual((code, output.splitlines()), (0, ["out 1"]), errors)

    def test_other_programs(self):
        (self.folder / "pieces.py").write_text("import os\nprint('module', os.environ['RANK'])\n")
        code, output, errors = self.run_program("-m", "pieces")
        self.assertEqual((code, output), (0, "module 0\n"), errors)
        code, output, errors = self.run_program("--no-python", "/bin/sh", "-c", "echo shell $RANK")
        self.assertEqual((code, output), (0, "shell 0\n"), errors)
        code, _, errors = self.run_program("--nproc-per-node", "many", "x.py")
        self.assertEqual(code, 1)
        self.assertIn("Unsupported nproc_per_node value: many", errors)


class Machines(Programs):
    """Several starters on one machine."""

    def meet(self, *arguments):
        program = self.program("""
            from datetime import timedelta
            import corten.distributed as dist
            store, rank, size = next(dist.rendezvous("env://", timeout=timedelta(seconds=20)))
            if env["TORCHELASTIC_RESTART_COUNT"] == "0" and len(sys.argv) > 1:
                time.sleep(30) if rank == 0 else sys.exit(1)
            store.set(f"rank {rank}", "here")
            store.wait([f"rank {other}" for other in range(size)])
            say(env["GROUP_RANK"], rank, size)
        """)
        processes = [self.start(*each, *arguments[1:], program, *arguments[0]) for each in self.each]
        for process in processes:
            output, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, errors)
            yield output.split("\n")

    def test_static(self):
        port = free_port()
        self.each = [
            ["--node-rank", rank, "--nproc-per-node", rank + 1, "--master-addr", "127.0.0.1", "--master-port", port]
            for rank in (1, 0)
        ]
        second, first = self.meet([], "--nnodes", 2)
        self.assertEqual((sorted(second), first), (["", "1 1 3", "1 2 3"], ["0 0 3", ""]))

    def test_restart_of_all(self):
        port = free_port()
        where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test"]
        self.each = [where, where]
        found = list(self.meet(["fail"], "--nnodes", 2, "--max-restarts", 1))
        self.assertEqual(sorted(map(sorted, found)), [["", "0 0 2"], ["", "1 1 2"]])


class Functions(unittest.TestCase):
    def test_functions(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "functions.py"
            path.write_text(textwrap.dedent("""
                import os
                from corten.distributed.launcher.api import LaunchConfig, elastic_launch
                def square(x):
                    return int(os.environ["RANK"]), x * x
                if __name__ == "__main__":
                    config = LaunchConfig(1, 1, 2, rdzv_endpoint="localhost:0", start_method="fork")
                    print(elastic_launch(config, square)(3))
            """))
            done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.stdout, "{0: (0, 9), 1: (1, 9)}\n", done.stderr)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    unittest.main()
