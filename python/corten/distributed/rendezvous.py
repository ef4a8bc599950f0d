"""How the processes of a program meet: an address gives each a store, its rank and their number."""

from __future__ import annotations

import numbers
import os
from urllib.parse import urlparse, urlunparse

from corten._C._distributed_c10d import FileStore, PrefixStore, TCPStore
from corten.distributed.constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

_rendezvous_handlers = {}

#: What starters of MPI programs call the rank and the number of processes.
_OF_MPI = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
}


def register_rendezvous_handler(scheme, handler):
    """Gives addresses ``scheme://…`` a meaning.

    Args:
        scheme: The name before ``://``.
        handler: ``handler(url, **options)``, an iterator over ``(store, rank, world_size)``.

    Raises:
        RuntimeError: The scheme has one.
    """
    if scheme in _rendezvous_handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _rendezvous_handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """An iterator over ``(store, rank, world_size)`` for an address.

    Args:
        url: ``env://``, ``tcp://host:port`` or ``file:///path``, with ``?rank=…&world_size=…`` where the
            next arguments do not say them.
        rank: The rank of this process.
        world_size: How many there are.

    Raises:
        RuntimeError: The scheme is not known, or an argument is of another type.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, numbers.Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, numbers.Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    return _rendezvous_helper(url, rank, world_size, **kwargs)


def _rendezvous_helper(url, rank, world_size_opt, **kwargs):
    parts = urlparse(url)
    dynamic = world_size_opt is None
    world_size = -1 if dynamic else world_size_opt
    if dynamic and parts.scheme == "env":
        rank = int(os.environ.get("RANK", rank))
        world_size = int(os.environ.get("WORLD_SIZE", world_size))
    if rank != -1 or world_size != -1 or dynamic:
        query = _query_to_dict(parts.query)
        if "rank" in query or "world_size" in query:
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        if rank != -1:
            query["rank"] = str(rank)
        if world_size != -1 or dynamic:
            query["world_size"] = str(world_size)
        url = urlunparse(parts._replace(query="&".join(f"{key}={value}" for key, value in query.items())))
    if parts.scheme not in _rendezvous_handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _rendezvous_handlers[parts.scheme](url, **kwargs)


def _create_store_from_options(backend_options, rank):
    store, _, _ = next(_rendezvous_helper(backend_options.init_method, rank, None))
    return store


def _query_to_dict(query):
    return dict(pair.split("=") for pair in query.split("&") if pair)


def _rendezvous_error(message):
    return ValueError("Error initializing torch.distributed using " + message)


def _of_query(query, scheme):
    """The rank and the number of processes that an address says."""
    if "rank" not in query:
        raise _rendezvous_error(f"{scheme}:// rendezvous: rank parameter missing")
    if "world_size" not in query:
        raise _rendezvous_error(f"{scheme}:// rendezvous: world size parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _once(store, rank, world_size, scheme):
    yield store, rank, world_size
    raise RuntimeError(f"Unable to perform re-rendezvous using {scheme}:// method")


def _file_rendezvous_handler(url, **kwargs):
    parts = urlparse(url)
    if not parts.path:
        raise _rendezvous_error("file:// rendezvous: path missing")
    rank, world_size = _of_query(_query_to_dict(parts.query), "file")
    return _once(FileStore(parts.path, world_size), rank, world_size, "file")


def _tcp_rendezvous_handler(url, timeout=default_pg_timeout, **kwargs):
    parts = urlparse(url)
    if parts.port is None:
        raise _rendezvous_error("tcp:// rendezvous: port number missing")
    rank, world_size = _of_query(_query_to_dict(parts.query), "tcp")
    if parts.hostname is None:
        raise AssertionError("hostname cannot be None")
    store = _create_c10d_store(parts.hostname, parts.port, rank, world_size, timeout)
    return _once(store, rank, world_size, "tcp")


def _env_rendezvous_handler(url, timeout=default_pg_timeout, **kwargs):
    query = _query_to_dict(urlparse(url).query)
    rank = int(query["rank"] if "rank" in query else _of_environment("RANK"))
    world_size = int(query["world_size"] if "world_size" in query else _of_environment("WORLD_SIZE"))
    address, port = _of_environment("MASTER_ADDR"), int(_of_environment("MASTER_PORT"))
    store = _create_c10d_store(address, port, rank, world_size, timeout)
    return _once(store, rank, world_size, "env")


def _of_environment(name):
    """A variable, or the one of ``mpirun`` that says the same."""
    for each in (name, *_OF_MPI.get(name, ())):
        if os.environ.get(each):
            return os.environ[each]
    raise _rendezvous_error(f"env:// rendezvous: environment variable {name} expected, but not set")


def _torchelastic_use_agent_store():
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)


def _agent_store_serves(hostname, port):
    """Whether ``torchrun`` has a store at this address."""
    return (
        _torchelastic_use_agent_store()
        and os.environ.get("MASTER_ADDR") == hostname
        and os.environ.get("MASTER_PORT") == str(port)
    )


def _create_c10d_store(hostname, port, rank, world_size, timeout, use_libuv=True):
    """The store at an address, which the first rank serves unless ``torchrun`` does."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    if not _agent_store_serves(hostname, port):
        return TCPStore(
            host_name=hostname, port=port, world_size=world_size, is_master=rank == 0, timeout=timeout,
            multi_tenant=True,
        )
    store = TCPStore(host_name=hostname, port=port, world_size=world_size, is_master=False, timeout=timeout)
    # The store outlives restarts, whose keys must not meet.
    return PrefixStore(f"/worker/round_{os.environ.get('TORCHELASTIC_ROUND', '0')}", store)


register_rendezvous_handler("tcp", _tcp_rendezvous_handler)
register_rendezvous_handler("env", _env_rendezvous_handler)
register_rendezvous_handler("file", _file_rendezvous_handler)
