"""How the starters on several machines agree, through one store.

Note [Rounds]: processes start together in rounds. One starter, the leader, serves the store and is the
first machine; it opens a round, the others join it, and when there are enough the leader writes down which
ranks each has. A starter whose processes fail, or that sees a machine wait to be let in, writes why the round
stops; all others read that, end their processes, and join the next one. What is written of a round is never
written twice:

- ``round``: the number of the open round
- ``N/joined``, ``N/node/I``: how many joined it, and what the I-th is
- ``N/world``: who has which ranks, once it is closed
- ``N/waiting``: how many came too late
- ``N/stop``: why it stops: ``restart``, ``joined`` or ``failed``
- ``N/done``, ``N/finished``: how many machines are done; all are
"""

from __future__ import annotations

import dataclasses
import json
import socket
import time
from datetime import timedelta

from corten.distributed.distributed_c10d import PrefixStore
from corten.distributed.elastic.rendezvous import (
    RendezvousClosedError, RendezvousConnectionError, RendezvousTimeoutError,
)
from corten.distributed.elastic.rendezvous.utils import _matches_machine_hostname, parse_rendezvous_endpoint

_PAUSE = 0.05
_DEFAULT_PORT = 29400


@dataclasses.dataclass
class Membership:
    """The part of a machine in a round."""

    number: int
    node_rank: int
    nnodes: int
    first_rank: int
    world_size: int
    master_addr: str
    master_port: int


class Rounds:
    """The rounds of a program as one machine sees them.

    Args:
        config: The program's ``LaunchConfig``.

    Raises:
        RendezvousConnectionError: The store cannot be reached.
    """

    def __init__(self, config):
        self.config = config
        self.static = config.rdzv_backend == "static"
        self.timeout = int(config.rdzv_configs.get("timeout", 900))
        self.last_call = float(config.rdzv_configs.get("last_call_timeout", 30))
        self.node_rank = int(config.rdzv_configs.get("rank", 0))
        host, port = parse_rendezvous_endpoint(config.rdzv_endpoint, _DEFAULT_PORT)
        self.leads, server = self._connect(host, port)
        self.address = (config.local_addr or self._own_name(host)) if self.leads else host
        self.port = server.port
        self.server = server
        self.store = PrefixStore(f"/torchelastic/{config.run_id}", server)
        self.number = -1

    def _own_name(self, host):
        """How the other machines reach this one."""
        if self.config.max_nodes == 1:
            return "127.0.0.1" if host in ("localhost", "127.0.0.1") else host
        return socket.getfqdn() if host == "localhost" else host

    def _connect(self, host, port):
        """Serves the store, where that is this machine's part, or finds it."""
        wanted = self.config.rdzv_configs.get("is_host")
        if self.static:
            leads = self.node_rank == 0
        elif wanted is not None:
            leads = str(wanted).lower() in ("1", "true", "t", "yes", "y")
        else:
            leads = _matches_machine_hostname(host)
        if leads:
            try:
                return True, self._tcp_store(host, port, True)
            except Exception as error:
                # Another starter of this machine may serve it.
                if self.static or wanted is not None or port == 0:
                    raise RendezvousConnectionError(
                        f"The store at {host}:{port} cannot be served: {error}"
                    ) from error
        try:
            return False, self._tcp_store(host, port, False)
        except Exception as error:
            raise RendezvousConnectionError(
                "The connection to the C10d store has failed. See inner exception for details."
            ) from error

    def _tcp_store(self, host, port, serves):
        from corten.distributed.distributed_c10d import _native

        return _native.TCPStore(
            host, port, None, serves, timedelta(seconds=min(self.timeout, 60)), wait_for_workers=False
        )

    def join(self, local_world_size):
        """Waits until the next round is full.

        Returns:
            The :class:`Membership` of this machine.

        Raises:
            RendezvousTimeoutError: Too few machines came.
            RendezvousClosedError: The program has ended.
        """
        end = time.monotonic() + self.timeout
        own = json.dumps({"size": local_world_size, "node_rank": self.node_rank})
        if self.leads:
            self.number += 1
            place = self._enter(own)
            self.store.set("round", str(self.number))
            self._fill(end)
        else:
            place = self._enter_next(own, end)
        self._wait_for([f"{self.number}/world"], end)
        world = json.loads(self.store.get(f"{self.number}/world"))
        mine = world["nodes"].get(str(place))
        if mine is None:
            return self._wait_to_be_let_in(local_world_size, end)
        return Membership(
            self.number, mine["node_rank"], len(world["nodes"]), mine["first_rank"], world["size"],
            world["address"], world["port"],
        )

    def _enter(self, own):
        place = self.store.add(f"{self.number}/joined", 1) - 1
        self.store.set(f"{self.number}/node/{place}", own)
        return place

    def _enter_next(self, own, end):
        before = self.number
        while True:
            self._wait_for(["round"], end)
            number = int(self.store.get("round"))
            if self.store.check([f"{number}/finished"]):
                raise RendezvousClosedError("The rendezvous is closed.")
            if number > before:
                self.number = number
                return self._enter(own)
            _pause_until(end)

    def _wait_to_be_let_in(self, local_world_size, end):
        """After a round was closed without this machine."""
        self.store.add(f"{self.number}/waiting", 1)
        return self.join(local_world_size)

    def _wait_for(self, keys, end):
        while not self.store.check(keys):
            _pause_until(end)

    def _fill(self, end):
        """Closes the round when it is full, or when enough machines came and no more did for a while."""
        config, last_call = self.config, None
        while True:
            count = self.store.add(f"{self.number}/joined", 0)
            if count >= config.max_nodes:
                break
            if count >= config.min_nodes:
                last_call = time.monotonic() + self.last_call if last_call is None else last_call
                if time.monotonic() > last_call:
                    break
            elif time.monotonic() > end:
                raise RendezvousTimeoutError(
                    f"{count} of at least {config.min_nodes} machines came within {self.timeout} s"
                )
            time.sleep(_PAUSE)
        self._close(min(count, config.max_nodes))

    def _close(self, count):
        keys = [f"{self.number}/node/{place}" for place in range(count)]
        self._wait_for(keys, time.monotonic() + 10)
        found = [json.loads(self.store.get(key)) for key in keys]
        order = sorted(range(count), key=lambda place: found[place]["node_rank"]) if self.static else range(count)
        nodes, first = {}, 0
        for node_rank, place in enumerate(order):
            nodes[str(place)] = {"node_rank": node_rank, "first_rank": first}
            first += found[place]["size"]
        world = {"nodes": nodes, "size": first, "address": self.address, "port": self.port}
        self.store.set(f"{self.number}/world", json.dumps(world))

    def stop(self, why):
        """Ends the round for all machines: ``restart``, ``joined`` or ``failed``. The first reason counts.

        Returns:
            The reason that counts.
        """
        return self.store.compare_set(f"{self.number}/stop", "", why).decode()

    def stopped(self):
        """Why the round stops, or None.

        Raises:
            RendezvousConnectionError: The store is lost.
        """
        if self.config.max_nodes == 1:
            return None
        try:
            if self.store.check([f"{self.number}/stop"]):
                return self.store.get(f"{self.number}/stop").decode()
            if self.leads and self.store.check([f"{self.number}/waiting"]):
                joined = json.loads(self.store.get(f"{self.number}/world"))["nodes"]
                return self.stop("joined") if len(joined) < self.config.max_nodes else None
        except RuntimeError as error:
            raise RendezvousConnectionError(f"The store of the starters is lost: {error}") from error
        return None

    def done(self, membership, timeout=300.0):
        """Waits until the processes of all machines are done.

        Returns:
            Why the round stops in place of that, or None.
        """
        if membership.nnodes == 1:
            return None
        end = time.monotonic() + timeout
        try:
            count = self.store.add(f"{self.number}/done", 1)
            while time.monotonic() < end:
                if self.leads and count >= membership.nnodes:
                    self.store.set(f"{self.number}/finished", "1")
                    # The others have to read that before the store ends.
                    while self.store.add(f"{self.number}/read", 0) < membership.nnodes - 1 and time.monotonic() < end:
                        time.sleep(_PAUSE)
                    return None
                if self.store.check([f"{self.number}/finished"]):
                    self.store.add(f"{self.number}/read", 1)
                    return None
                if (why := self.stopped()) is not None:
                    return why
                time.sleep(_PAUSE)
                count = self.store.add(f"{self.number}/done", 0)
        except RuntimeError:
            # The leader is done and gone.
            return None
        return None

    def failed(self, membership):
        """Tells the others that the program failed, and gives them time to read it."""
        if membership is None or membership.nnodes == 1:
            return
        try:
            self.stop("failed")
            count = self.store.add(f"{self.number}/left", 1)
            end = time.monotonic() + 10
            while self.leads and count < membership.nnodes and time.monotonic() < end:
                time.sleep(_PAUSE)
                count = self.store.add(f"{self.number}/left", 0)
        except RuntimeError:
            return


def _pause_until(end):
    if time.monotonic() > end:
        raise RendezvousTimeoutError("The other machines did not come in time.")
    time.sleep(_PAUSE)
