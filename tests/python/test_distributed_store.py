"""Stores: keys, waits, numbers, queues, and servers in other processes."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import timedelta

from module_under_test import torch

c10d = torch._C._distributed_c10d
SHORT, DEADLINE = timedelta(milliseconds=150), 15


def served(**options):
    return c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, **options)


def new_folder(test):
    """The path of a folder that goes with the test."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return folder.name


class Keys(unittest.TestCase):
    """What all stores do."""

    def stores(self):
        folder = new_folder(self)
        yield "hash", c10d.HashStore()
        yield "file", c10d.FileStore(os.path.join(folder, "store"), 1)
        yield "tcp", served()
        yield "prefix", c10d.PrefixStore("part", c10d.HashStore())

    def each(self):
        for name, store in self.stores():
            with self.subTest(name):
                yield name, store

    def test_values(self):
        for _, store in self.each():
            store.set("a", "1")
            self.assertEqual(store.get("a"), b"1")
            store.set("bytes", b"\x00\xff" * 1000)
            self.assertEqual(store.get("bytes"), b"\x00\xff" * 1000)
            store.set("empty", "")
            self.assertEqual(store.get("empty"), b"")
            store.append("a", "2")
            store.append("new", "3")
            self.assertEqual((store.get("a"), store.get("new")), (b"12", b"3"))

    def test_numbers(self):
        for _, store in self.each():
            self.assertEqual([store.add("n", each) for each in (5, -2, 0)], [5, 3, 3])
            self.assertEqual(store.get("n"), b"3")
            store.set("text", "no number")
            self.assertRaises(ValueError, store.add, "text", 1)
            store.set("n", "40")
            self.assertEqual(store.add("n", 2), 42)

    def test_comparing(self):
        for _, store in self.each():
            self.assertEqual(store.compare_set("k", "", "first"), b"first")
            self.assertEqual(store.compare_set("k", "other", "second"), b"first")
            self.assertEqual(store.compare_set("k", "first", "second"), b"second")
            self.assertEqual(store.compare_set("absent", "expected", "value"), b"expected")
            self.assertFalse(store.check(["absent"]))

    def test_keys(self):
        for name, store in self.each():
            before = store.num_keys()
            store.set("a", "1")
            store.set("b/c", "2")
            self.assertEqual(store.num_keys(), before + 2)
            self.assertEqual(sorted(store.list_keys()), ["a", "b/c"])
            self.assertTrue(store.check(["a", "b/c"]) and store.check([]))
            self.assertFalse(store.check(["a", "z"]))
            self.assertEqual([store.delete_key("a"), store.delete_key("a")], [True, False])
            self.assertFalse(store.check(["a"]))

    def test_several_at_once(self):
        for _, store in self.each():
            store.multi_set(["a", "b"], ["1", b"2"])
            self.assertEqual(store.multi_get(["b", "a"]), [b"2", b"1"])
            self.assertRaises(ValueError, store.multi_set, ["a"], [])

    def test_time(self):
        for _, store in self.each():
            self.assertEqual(store.timeout, timedelta(seconds=300))
            store.set_timeout(SHORT)
            self.assertEqual(store.timeout, SHORT)
            with self.assertRaisesRegex(RuntimeError, "(?i)timeout") as caught:
                store.get("absent")
            self.assertIsInstance(caught.exception, torch._C._DistStoreError)
            self.assertRaises(torch._C._DistStoreError, store.wait, ["absent"])
            self.assertRaises(torch._C._DistStoreError, store.wait, ["absent"], timedelta(milliseconds=20))
            self.assertRaises(torch._C._DistStoreError, store.multi_get, ["absent"])
            store.set("there", "1")
            store.wait(["there"])

    def test_waiting(self):
        for _, store in self.each():
            other = store.clone()
            thread = threading.Timer(0.05, lambda other=other: other.multi_set(["a", "b"], ["1", "2"]))
            thread.start()
            store.wait(["a", "b"], timedelta(seconds=DEADLINE))
            self.assertEqual(store.get("a"), b"1")
            thread.join(DEADLINE)

    def test_one_handle_serves_threads_at_once(self):
        for _, store in self.each():
            got = []
            waiting = threading.Thread(target=lambda store=store, got=got: got.append(store.get("late")))
            waiting.start()
            store.set("late", "here")
            waiting.join(DEADLINE)
            self.assertEqual(got, [b"here"])

    def test_many_threads_count(self):
        for _, store in self.each():
            def count(store=store):
                own = store.clone()
                for _ in range(25):
                    own.add("count", 1)

            threads = [threading.Thread(target=count) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            self.assertEqual(store.get("count"), b"100")

    def test_barriers(self):
        for _, store in self.each():
            store.barrier("alone", 1)
            threads = [threading.Thread(target=store.clone().barrier, args=("all", 3)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            self.assertFalse(any(thread.is_alive() for thread in threads))
            self.assertRaises(torch._C._DistStoreError, store.barrier, "two", 2, SHORT)

    def test_queues(self):
        for name, store in self.each():
            if name == "file":
                self.assertRaises(NotImplementedError, store.queue_push, "q", "1")
                continue
            store.set_timeout(SHORT)
            self.assertEqual(store.queue_len("q"), 0)
            store.queue_push("q", "1")
            store.queue_push("q", b"2")
            self.assertEqual(store.queue_len("q"), 2)
            self.assertEqual([store.queue_pop("q"), store.queue_pop("q", False)], [b"1", b"2"])
            self.assertRaises(torch._C._DistQueueEmptyError, store.queue_pop, "q", False)
            self.assertRaises(torch._C._DistStoreError, store.queue_pop, "q")
            threading.Timer(0.02, store.clone().queue_push, ("q", "late")).start()
            store.set_timeout(timedelta(seconds=DEADLINE))
            self.assertEqual(store.queue_pop("q"), b"late")

    def test_words_for_wrong_arguments(self):
        for _, store in self.each():
            self.assertRaises(TypeError, store.set, 1, "2")
            self.assertRaises(TypeError, store.set, "a", 2)
            self.assertRaises(TypeError, store.get)
            self.assertRaises(TypeError, store.add, "a", "b")


class Prefixes(unittest.TestCase):
    """Parts of stores."""

    def test_parts_do_not_meet(self):
        whole = c10d.HashStore()
        one, two = c10d.PrefixStore("one", whole), c10d.PrefixStore("two", whole)
        one.set("k", "1")
        two.set("k", "2")
        self.assertEqual((one.get("k"), two.get("k"), whole.get("one/k")), (b"1", b"2", b"1"))
        inner = c10d.PrefixStore("inner", one)
        inner.set("k", "3")
        self.assertEqual(whole.get("one/inner/k"), b"3")
        self.assertIs(inner.underlying_store, one)
        self.assertIs(inner._underlying_non_prefix_store, whole)
        self.assertEqual(sorted(one.list_keys()), ["inner/k", "k"])

    def test_prefix_needs_a_store(self):
        self.assertRaises(TypeError, c10d.PrefixStore, "p", 3)


class WrittenInPython(unittest.TestCase):
    """Classes that derive from ``Store``."""

    class Dictionary(c10d.Store):
        def __init__(self):
            super().__init__()
            self.values = {}

        def set(self, key, value):
            self.values[key] = value if isinstance(value, bytes) else value.encode()

        def get(self, key):
            return self.values[key]

        def add(self, key, value):
            self.set(key, str(int(self.values.get(key, b"0")) + value))
            return int(self.values[key])

    def test_native_code_calls_the_methods(self):
        store = self.Dictionary()
        c10d._test_python_store(store)
        self.assertRaises(KeyError, c10d.PrefixStore("p", store).get, "absent")

    def test_absent_methods(self):
        self.assertRaisesRegex(RuntimeError, "pure virtual", self.Dictionary().check, ["k"])


class Files(unittest.TestCase):
    """Stores in files."""

    def test_the_last_handle_removes_the_file(self):
        path = os.path.join(new_folder(self), "store")
        one = c10d.FileStore(path, 2)
        one.set("k", "v")
        del one
        self.assertTrue(os.path.exists(path), "the other rank has not come yet")
        two = c10d.FileStore(path, 2)
        self.assertEqual(two.get("k"), b"v")
        self.assertEqual(two.path, path)
        del two
        self.assertFalse(os.path.exists(path))

    def test_a_record_that_ends_early_is_written_over(self):
        path = os.path.join(new_folder(self), "store")
        store = c10d.FileStore(path, 1)
        store.set("k", "v")
        with open(path, "ab") as file:
            file.write(b"\x05\x00\x00")
        store.set("l", "w")
        other = c10d.FileStore(path)
        self.assertEqual((other.get("k"), other.get("l")), (b"v", b"w"))

    def test_no_folder(self):
        self.assertRaises(torch._C._DistStoreError, c10d.FileStore, "/nonexistent/folder/store", 1)


class Servers(unittest.TestCase):
    """Stores over TCP."""

    def test_other_processes(self):
        store = served()
        program = (
            "import sys, importlib; c10d = importlib.import_module(sys.argv[1])._C._distributed_c10d\n"
            "store = c10d.TCPStore('localhost', int(sys.argv[2]))\n"
            "store.add('count', 1); store.wait(['go']); store.set('said' + sys.argv[3], store.get('go'))\n"
        )
        arguments = [sys.executable, "-c", program, torch.__name__, str(store.port)]
        children = [subprocess.Popen([*arguments, str(number)]) for number in range(2)]
        try:
            store.set("go", b"now")
            store.wait(["said0", "said1"], timedelta(seconds=60))
            self.assertEqual((store.get("count"), store.get("said1")), (b"2", b"now"))
            self.assertEqual([child.wait(DEADLINE) for child in children], [0, 0])
        finally:
            for child in children:
                child.kill()
                child.wait()

    def test_the_server_waits_for_the_ranks(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        made = []
        connect = lambda: made.append(c10d.TCPStore("127.0.0.1", port, 2, False))  # noqa: E731
        thread = threading.Thread(target=connect)
        thread.start()
        store = c10d.TCPStore("127.0.0.1", port, 2, True, timedelta(seconds=DEADLINE))
        thread.join(DEADLINE)
        self.assertEqual((store.port, made[0].port, store.host), (port, port, "127.0.0.1"))
        self.assertEqual(store.num_keys(), 1)
        with self.assertRaisesRegex(torch._C._DistStoreError, "1/3 clients joined"):
            c10d.TCPStore("127.0.0.1", 0, 3, True, SHORT)

    def test_ports(self):
        store = served()
        with self.assertRaisesRegex(torch._C._DistNetworkError, "EADDRINUSE"):
            c10d.TCPStore("127.0.0.1", store.port, is_master=True)
        shared = [
            c10d.TCPStore("127.0.0.1", store.port + 0, is_master=False),
        ]
        shared[0].set("k", "v")
        self.assertEqual(store.get("k"), b"v")
        self.assertRaises(ValueError, c10d.TCPStore, "127.0.0.1", 70000)
        with self.assertRaisesRegex(torch._C._DistNetworkError, "timed out after 150ms"):
            c10d.TCPStore("127.0.0.1", 1, timeout=SHORT)

    def test_tenants(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        stores = [c10d.TCPStore("127.0.0.1", port, is_master=True, multi_tenant=True) for _ in range(2)]
        stores[0].set("k", "v")
        self.assertEqual(stores[1].get("k"), b"v")

    def test_a_socket_that_listens(self):
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        store = c10d.TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=listening.detach())
        store.set("k", "v")
        self.assertEqual((store.port, store.get("k")), (port, b"v"))

    def test_a_server_that_ends(self):
        store = served()
        client = c10d.TCPStore("127.0.0.1", store.port)
        client.set("k", "v")
        del store
        client.set_timeout(timedelta(seconds=1))
        self.assertRaises(torch._C._DistNetworkError, client.get, "k")

    def test_strangers_do_no_harm(self):
        store = served()
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.settimeout(DEADLINE)
            self.assertEqual(stranger.recv(10), b"")
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.sendall(b"CORTENS1" + b"\xff" * 8)
            stranger.settimeout(DEADLINE)
            while stranger.recv(100):
                pass
        store.set("k", "v")
        self.assertEqual(store.get("k"), b"v")

    def test_large_values(self):
        store = served()
        value = os.urandom(1 << 20) * 8
        store.set("large", value)
        self.assertEqual(store.get("large"), value)

    def test_interrupts_end_waits(self):
        for store in (c10d.HashStore(), served()):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                store.wait(["absent"], timedelta(seconds=60))
            store.set("k", "v")
            self.assertEqual(store.get("k"), b"v")


if __name__ == "__main__":
    unittest.main()
