"""The tests of gloo between two hosts: network namespaces with a shaped link, which is then cut.

    cargo test -p corten-dist --no-run      # names the executable
    sudo python benches/two_hosts.py target/debug/deps/all-… [REPEATS]
    sudo PYTHONPATH=python python benches/two_hosts.py package [REPEATS]

The programs are those of crates/corten-dist/tests/all/gloo. With the word `package` instead of the executable they are
those of distributed_faults.py, over the package of PYTHONPATH: two ranks on one host and one on the other, of which
each must name one that it cannot reach. Needs root, iproute2 and Linux's veth; says so and ends where it has not got
them. Exits with 1 when a rank does not do what it should.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import distributed_faults

HOSTS = ["corten-host0", "corten-host1"]
LINKS = ["corten0", "corten1"]
ADDRESSES = ["10.213.77.1", "10.213.77.2"]
# A delay and a rate, or, where the kernel has no netem, a rate.
SHAPES = [["netem", "delay", "1ms", "rate", "2gbit"], ["tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"]]
PORT = 29613
NOTICED = 7  # the exit code of a rank that saw an error
TIMEOUT = 3.0  # seconds that a call has
CALLS = ["allreduce", "small_allreduce", "broadcast", "allgather", "reduce", "reduce_scatter", "alltoall", "barrier",
         "ring"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True)


def build():
    """Two namespaces, each with one end of a link."""
    for host in HOSTS:
        run("ip", "netns", "add", host)
    run("ip", "link", "add", LINKS[0], "netns", HOSTS[0], "type", "veth", "peer", "name", LINKS[1], "netns", HOSTS[1])
    for host, link, address in zip(HOSTS, LINKS, ADDRESSES, strict=True):
        within = ["ip", "netns", "exec", host]
        run(*within, "ip", "address", "add", f"{address}/24", "dev", link)
        run(*within, "ip", "link", "set", "lo", "up")
        run(*within, "ip", "link", "set", link, "up")
        for shape in SHAPES:
            shaped = ["tc", "qdisc", "add", "dev", link, "root", *shape]
            if subprocess.run([*within, *shaped], capture_output=True, check=False).returncode == 0:
                print(f"{host}: the link is shaped by {' '.join(shape)}")
                break
        else:
            print(f"{host}: the link has its full speed: the kernel has neither netem nor tbf")


def remove():
    for host in HOSTS:
        subprocess.run(["ip", "netns", "delete", host], capture_output=True, check=False)


def link(state):
    run("ip", "netns", "exec", HOSTS[1], "ip", "link", "set", LINKS[1], state)


class Ranks:
    """A rank on each host, over a TCP store on the first."""

    def __init__(self, executable, program, timeout):
        Ranks.number = getattr(Ranks, "number", 0) + 1
        self.program, self.files, self.ranks = program, [], []
        for rank, (host, name) in enumerate(zip(HOSTS, LINKS, strict=True)):
            store = f"tcp:{ADDRESSES[0]}:{PORT + Ranks.number % 1000}"
            role = f"{program} {rank} 2 {store} {int(timeout * 1000)}"
            environment = os.environ | {"CORTEN_TEST_GLOO_ROLE": role, "GLOO_SOCKET_IFNAME": name}
            command = ["ip", "netns", "exec", host, executable, "gloo::rank_process", "--exact", "--nocapture"]
            file = tempfile.TemporaryFile("w+")
            self.files.append(file)
            self.ranks.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))

    def output(self, rank):
        self.files[rank].seek(0)
        return self.files[rank].read()

    def wait_for(self, text, seconds):
        end = time.monotonic() + seconds
        while not all(text in self.output(rank) for rank in range(2)):
            if time.monotonic() > end:
                self.fail(f"no rank says {text!r}")
            time.sleep(0.01)

    def finish(self, code, seconds):
        end = time.monotonic() + seconds
        for rank, process in enumerate(self.ranks):
            try:
                if process.wait(max(0.01, end - time.monotonic())) != code:
                    self.fail(f"rank {rank} ended with {process.returncode}")
            except subprocess.TimeoutExpired:
                self.fail(f"rank {rank} has not ended after {seconds} s")

    def fail(self, what):
        for process in self.ranks:
            process.kill()
        outputs = "".join(f"\n--- rank {rank}\n{self.output(rank)}" for rank in range(2))
        raise SystemExit(f"two_hosts: {self.program}: {what}{outputs}")


class Package:
    """Two ranks on the first host, with the store, and one on the second."""

    number = 0

    def __init__(self, call, folder):
        Package.number += 1
        self.folder, self.ranks = Path(folder), []
        program = self.folder / "program.py"
        text = distributed_faults.PROGRAM.format(call=distributed_faults.CALLS[call], timeout=TIMEOUT)
        program.write_text(text)
        meeting = f"tcp://{ADDRESSES[0]}:{PORT + 1000 + Package.number % 1000}"
        for rank, host in enumerate([0, 0, 1]):
            environment = os.environ | {"GLOO_SOCKET_IFNAME": LINKS[host], "OMP_NUM_THREADS": "1"}
            command = ["ip", "netns", "exec", HOSTS[host], sys.executable, program, folder, "gloo", str(rank), "3"]
            with open(self.folder / f"output-{rank}", "w") as file:
                self.ranks.append(subprocess.Popen([*command, meeting], env=environment, stdout=file, stderr=file))

    def said(self, name, rank):
        path = self.folder / f"{name}-{rank}"
        return path.read_text() if path.exists() else None

    def wait_for(self, ready, seconds):
        end = time.monotonic() + seconds
        while not ready() and time.monotonic() < end:
            time.sleep(0.01)
        return ready()

    def fault(self):
        """What went wrong, or nothing."""
        if not self.wait_for(lambda: all(self.said("running", rank) for rank in range(3)), 60):
            return "did not start: " + "".join(self.said("output", rank) for rank in range(3))
        link("down")
        self.wait_for(lambda: all(process.poll() is not None for process in self.ranks), TIMEOUT + 5)
        for rank, other in enumerate([2, 2, 0]):
            said, code = self.said("noticed", rank), self.ranks[rank].poll()
            if said is None or not said.startswith("DistBackendError") or f"Rank {other} did not report" not in said:
                return f"rank {rank} says: {said}"
            if code != 0:
                return f"rank {rank} has ended with {code}"
        return None

    def end(self):
        link("up")
        for process in self.ranks:
            process.kill()
            process.wait()


def package(repeats):
    right = 0
    for _ in range(repeats):
        for call in distributed_faults.CALLS:
            with tempfile.TemporaryDirectory() as folder:
                ranks = Package(call, folder)
                try:
                    wrong = ranks.fault()
                finally:
                    ranks.end()
            right += wrong is None
            if wrong is not None:
                print(f"{call}: {wrong}", flush=True)
    tried = repeats * len(distributed_faults.CALLS)
    print(f"the link cut in the middle of a call: {right} of {tried} right: named by all three ranks within "
          f"{TIMEOUT + 5:.0f} s, which then ended by themselves")
    if right != tried:
        raise SystemExit(1)


def main(executable, repeats):
    for program in ["values", "reductions", "agreement", "transfers"]:
        begun = time.monotonic()
        Ranks(executable, program, 60).finish(0, 120)
        print(f"{program}: right, {time.monotonic() - begun:.1f} s")
    cut = 0
    for _ in range(repeats):
        for call in CALLS:
            ranks = Ranks(executable, call, TIMEOUT)
            ranks.wait_for("three rounds done", 60)
            link("down")
            try:
                ranks.finish(NOTICED, TIMEOUT + 5)
            finally:
                link("up")
            cut += 1
    print(f"the link cut in the middle of a call: {cut} of {cut} noticed by both ranks within {TIMEOUT + 5:.0f} s")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    remove()
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as error:
        remove()
        raise SystemExit(f"two_hosts: not run: {getattr(error, 'stderr', None) or error}") from None
    try:
        repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 1
        package(repeats) if sys.argv[1] == "package" else main(os.path.abspath(sys.argv[1]), repeats)
    finally:
        remove()
