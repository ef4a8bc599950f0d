"""Stores: keys and values that the ranks share."""

from __future__ import annotations

from datetime import timedelta

from corten import _C

_DEFAULT_TIMEOUT = timedelta(seconds=300)


class Store:
    """Base of all stores. Classes of programs may derive from it and give the methods."""

    _handle = None

    def __init__(self):
        self._time = _DEFAULT_TIMEOUT

    def _native(self, name):
        if self._handle is None:
            raise RuntimeError(f'Tried to call pure virtual function "Store::{name}"')
        return self._handle

    def set(self, key, value):
        """Gives a key a value, a str or bytes."""
        self._native("set").set(key, value)

    def get(self, key):
        """The value of a key as bytes, as soon as there is one.

        Raises:
            DistStoreError: There is none within the store's time.
        """
        return self._native("get").get(key)

    def add(self, key, value):
        """Adds to the number that a key has, 0 at first; the sum."""
        return self._native("add").add(key, value)

    def check(self, keys):
        """Whether all keys have values."""
        return self._native("check").check(keys)

    def compare_set(self, key, expected_value, desired_value):
        """Sets a key that has the expected value, or none where that is empty; what it has then, as bytes."""
        return self._native("compare_set").compare_set(key, expected_value, desired_value)

    def delete_key(self, key):
        """Takes a key away; whether there was one."""
        return self._native("delete_key").delete_key(key)

    def num_keys(self):
        """How many keys there are, those of the store itself included."""
        return self._native("num_keys").num_keys()

    def list_keys(self):
        """All keys."""
        return self._native("list_keys").list_keys()

    def wait(self, keys, timeout=None):
        """Waits until all keys have values.

        Raises:
            DistStoreError: One has none in time.
        """
        self._native("wait").wait(keys, None if timeout is None else timeout.total_seconds())

    def append(self, key, value):
        """Puts something behind the value of a key."""
        self._native("append").append(key, value)

    def multi_get(self, keys):
        """The values of several keys."""
        return self._native("multi_get").multi_get(keys)

    def multi_set(self, keys, values):
        """Gives several keys values."""
        self._native("multi_set").multi_set(keys, values)

    def queue_push(self, key, value):
        """Puts a value at the end of a queue."""
        self._native("queue_push").queue_push(key, value)

    def queue_pop(self, key, block=True):
        """Takes the first value of a queue, when there is one.

        Raises:
            QueueEmptyError: There is none, and ``block`` is false.
        """
        return self._native("queue_pop").queue_pop(key, block)

    def queue_len(self, key):
        """How many values a queue has."""
        return self._native("queue_len").queue_len(key)

    def has_extended_api(self):
        """Whether ``append``, ``multi_get`` and ``multi_set`` are one step each."""
        return self._handle is not None and self._handle.has_extended_api()

    def set_timeout(self, timeout):
        """How long the store waits from now on."""
        if self._handle is None:
            self._time = timeout
        else:
            self._handle.set_timeout(timeout.total_seconds())

    @property
    def timeout(self):
        """How long the store waits."""
        return timedelta(seconds=self._seconds())

    def _seconds(self):
        if self._handle is not None:
            return self._handle.timeout
        return getattr(self, "_time", _DEFAULT_TIMEOUT).total_seconds()

    def barrier(self, key, world_size, timeout=None):
        """Waits until so many have come to the barrier of that name."""
        self._native("barrier").barrier(key, world_size, None if timeout is None else timeout.total_seconds())

    def clone(self):
        """Another handle to the same keys, with a connection of its own."""
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        made._handle = self._native("clone").clone()
        return made


class HashStore(Store):
    """A store in the memory of this process."""

    def __init__(self):
        self._handle = _C._dist_hash_store()


class FileStore(Store):
    """A store in a file that all ranks can open.

    Args:
        file_name: Where it is.
        world_size: How many ranks there are; the last removes the file.
    """

    def __init__(self, file_name, world_size=-1):
        self._path = str(file_name)
        self._handle = _C._dist_file_store(self._path, world_size)

    @property
    def path(self):
        """Where the file is."""
        return self._path


class TCPStore(Store):
    """A store that one rank serves over TCP.

    Args:
        host_name: Who serves.
        port: Its port; 0 takes a free one where this rank serves.
        world_size: How many ranks there are, if that is known.
        is_master: Whether this rank serves.
        timeout: How long to wait for connections and for keys.
        wait_for_workers: Whether the rank that serves waits for the others.
        multi_tenant: Whether a server of this process on the same port is used.
        master_listen_fd: A socket that listens, for the rank that serves; the store takes it over.
        use_libuv: Of no meaning here: there is one server.
    """

    def __init__(
        self, host_name, port, world_size=None, is_master=False, timeout=_DEFAULT_TIMEOUT, wait_for_workers=True,
        multi_tenant=False, master_listen_fd=None, use_libuv=True,
    ):
        if world_size is not None and world_size < 0:
            world_size = None
        self._libuv = bool(use_libuv)
        self._handle = _C._dist_tcp_store(
            host_name, port, world_size, is_master, timeout.total_seconds(), wait_for_workers, multi_tenant,
            master_listen_fd,
        )

    @property
    def host(self):
        """Who serves."""
        return self._handle.host

    @property
    def port(self):
        """The port of who serves."""
        return self._handle.port

    @property
    def libuvBackend(self):
        """What was asked for with ``use_libuv``."""
        return self._libuv

    def __repr__(self):
        server = f"TCPServer(port={self.port})" if self._handle.is_server else "<nullptr>"
        return f"TCPStore(client=TCPClient({self.host}:{self.port}), server={server})"


class PrefixStore(Store):
    """The keys of another store that begin with a prefix."""

    def __init__(self, prefix, store):
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore expects a Store, not {type(store).__name__}")
        self._prefix, self._store = prefix, store
        self._handle = _C._dist_prefix_store(prefix, store)

    @property
    def underlying_store(self):
        """The store that this is a part of."""
        return self._store

    @property
    def _underlying_non_prefix_store(self):
        store = self._store
        while isinstance(store, PrefixStore):
            store = store._store
        return store

    def clone(self):
        """The same part of a clone of the store."""
        return type(self)(self._prefix, self._store.clone())


class FakeStore(Store):
    """A store that holds nothing: for groups that do not talk."""

    def set(self, key, value):
        """Does nothing."""

    def get(self, key):
        """Nothing."""
        return b""

    def compare_set(self, key, expected_value, desired_value):
        """Nothing."""
        return b""

    def add(self, key, value):
        """The amount."""
        return value

    def delete_key(self, key):
        """Whether there was one: never."""
        return False

    def check(self, keys):
        """Whether all keys have values: always."""
        return True

    def num_keys(self):
        """How many keys there are: none."""
        return 0

    def wait(self, keys, timeout=None):
        """Does nothing."""

    def clone(self):
        """Itself."""
        return self


def _test_python_store(store):
    """Has the native side use a store that is written in Python."""
    part = _C._dist_prefix_store("", store)
    part.set("key0", "value0")
    part.set("key1", "value1")
    if part.get("key0") != b"value0" or part.get("key1") != b"value1":
        raise RuntimeError("the store does not give back what it was given")
    part.add("key3", 1), part.add("key3", 2)
    if part.add("key3", 3) != 6:
        raise RuntimeError("the store does not add")
