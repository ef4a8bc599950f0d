"""The starter on one machine: starts processes, watches them, and starts all again when one fails."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import corten
from corten.distributed.elastic._rounds import Rounds
from corten.distributed.elastic._workers import Workers
from corten.distributed.elastic.multiprocessing import SignalException, _terminate_process_handler
from corten.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from corten.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousError
from corten.distributed.elastic.utils.logging import get_logger

logger = get_logger(__name__)


class Agent:
    """Runs the processes of a program on one machine, see Note [Rounds].

    Args:
        config: The program's ``LaunchConfig``.
        entrypoint: A command or a function.
        args: Its arguments.
    """

    def __init__(self, config, entrypoint, args):
        self.config, self.entrypoint, self.args = config, entrypoint, args
        self.rounds = Rounds(config)
        self.restarts = 0
        self.membership = None

    def run(self):
        """Runs until all processes are done.

        Returns:
            What the functions gave, by global rank.

        Raises:
            ChildFailedError: Processes failed more often than they may.
            RendezvousError: Machines did not meet, or the store was lost.
            SignalException: A signal came.
        """
        while True:
            self.membership = self.rounds.join(self.config.nproc_per_node)
            workers = Workers(self.config, self.entrypoint, self.args, self._environments())
            try:
                why = self._watch(workers)
                if why is None:
                    why = self.rounds.done(self.membership)
                if why is None:
                    workers.close()
                    return {self.membership.first_rank + each.local_rank: each.value() for each in workers.processes}
                failures = self._failures(workers) if why != "joined" else {}
            except SignalException as error:
                workers.close(error.sigval, self.config.shutdown_timeout)
                raise
            except BaseException:
                workers.close(signal.SIGTERM, self.config.shutdown_timeout)
                raise
            workers.close(signal.SIGTERM, self.config.shutdown_timeout)
            if why == "failed":
                self._fail(failures)
            if why == "restart":
                self.restarts += 1
            logger.info("processes start again (%s), restart %d", why, self.restarts)

    def _watch(self, workers):
        """Waits until all processes are done; why the round stops, if it does."""
        pause = max(self.config.monitor_interval, 0.01)
        while True:
            running = workers.running()
            if workers.failed():
                self._tell(workers)
                return self._stop("restart" if self.restarts < self.config.max_restarts else "failed")
            if not running:
                return None
            why = self.rounds.stopped()
            if why is not None:
                return why
            time.sleep(pause)

    def _stop(self, why):
        if self.membership.nnodes == 1:
            return why
        try:
            return self.rounds.stop(why)
        except RuntimeError as error:
            raise RendezvousConnectionError(f"The store of the starters is lost: {error}") from error

    def _tell(self, workers):
        for process in workers.failed():
            logger.error(
                "failed (exitcode: %s) local_rank: %s (pid: %s) of: %s",
                process.poll(), process.local_rank, process.pid, workers._name,
            )

    def _failures(self, workers):
        return {
            self.membership.first_rank + process.local_rank: workers.failure(process)
            for process in workers.failed()
        }

    def _fail(self, failures):
        self.rounds.failed(self.membership)
        if not failures:
            failures = {self.membership.first_rank: ProcessFailure(0, os.getpid(), 1, "")}
            failures[self.membership.first_rank].message = "processes of another machine failed"
        raise ChildFailedError(self._program(), failures)

    def _program(self):
        """The name of the program as failures tell it."""
        if not isinstance(self.entrypoint, str):
            return getattr(self.entrypoint, "__qualname__", repr(self.entrypoint))
        rest = [each for each in self.args if each not in ("-u", "-m", "corten.run")]
        is_python = os.path.basename(self.entrypoint).startswith("python")
        return str(rest[0]) if is_python and rest else self.entrypoint

    def _environments(self):
        return {rank: self._environment(rank) for rank in range(self.config.nproc_per_node)}

    def _environment(self, local_rank):
        member, config = self.membership, self.config
        rank = member.first_rank + local_rank
        env = {
            "LOCAL_RANK": local_rank, "RANK": rank, "GROUP_RANK": member.node_rank, "ROLE_RANK": rank,
            "ROLE_NAME": config.role, "LOCAL_WORLD_SIZE": config.nproc_per_node,
            "WORLD_SIZE": member.world_size, "GROUP_WORLD_SIZE": member.nnodes,
            "ROLE_WORLD_SIZE": member.world_size, "MASTER_ADDR": member.master_addr,
            "MASTER_PORT": member.master_port, "TORCHELASTIC_RESTART_COUNT": self.restarts,
            "TORCHELASTIC_MAX_RESTARTS": config.max_restarts, "TORCHELASTIC_RUN_ID": config.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_ROUND": member.number,
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        }
        if config.virtual_local_rank and corten.cuda.is_available():
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            env["CUDA_VISIBLE_DEVICES"] = visible.split(",")[local_rank] if visible else local_rank
            env["LOCAL_RANK"] = 0
        return {name: str(value) for name, value in env.items()}


@contextlib.contextmanager
def signals_as_exceptions(names):
    """Within the block signals raise :class:`SignalException`; in other threads than the main one they do
    not come."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        number = getattr(signal, name, None)
        if number is None:
            logger.warning("there is no signal %s", name)
            continue
        before[number] = signal.signal(number, _terminate_process_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["Agent", "RendezvousError", "signals_as_exceptions"]
