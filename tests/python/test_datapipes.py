"""Pipes: what each gives, passes over them, errors, loaders with and without workers."""

import importlib
import os
import pickle
import tempfile
import unittest
import warnings

from module_under_test import torch

data = importlib.import_module(f"{torch.__name__}.utils.data")
pipes = importlib.import_module(f"{torch.__name__}.utils.data.datapipes.iter")
maps = importlib.import_module(f"{torch.__name__}.utils.data.datapipes.map")
graph = importlib.import_module(f"{torch.__name__}.utils.data.graph")
settings = importlib.import_module(f"{torch.__name__}.utils.data.graph_settings")
sharding = importlib.import_module(f"{torch.__name__}.utils.data.datapipes.iter.sharding")
Wrapper = pipes.IterableWrapper


def double(x):
    return 2 * x


def even(x):
    return x % 2 == 0


def parity(x):
    return x % 2


def first(text):
    return text[0]


def numbers(count=10):
    return Wrapper(range(count))


class Count(data.IterDataPipe):
    """A pipe that is its own iterator."""

    def __init__(self, stop=3):
        self.stop = stop

    def __iter__(self):
        self.place = 0
        return self

    def __next__(self):
        self.place += 1
        if self.place > self.stop:
            raise StopIteration
        return self.place


class Halves(data.IterDataPipe):
    def __init__(self, source):
        self.source = source
        self.resets = 0

    def __iter__(self):
        for x in self.source:
            yield x / 2

    def reset(self):
        self.resets += 1


class Pipes(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def check(self, pipe, expected, length=None):
        self.assertEqual(list(pipe), expected)
        self.assertEqual(list(pipe), expected)  # a second pass gives the same
        if length is None:
            with self.assertRaises(TypeError):
                len(pipe)
        else:
            self.assertEqual(len(pipe), length)

    def test_functions_of_samples(self):
        self.check(numbers(3).map(double), [0, 2, 4], 3)
        pairs = Wrapper([(1, 2), (3, 4)])
        self.check(pairs.map(double, input_col=0), [(2, 2), (6, 4)], 2)
        self.check(pairs.map(max, input_col=[0, 1]), [(2,), (4,)], 2)
        self.check(pairs.map(double, input_col=0, output_col=-1), [(1, 2, 2), (3, 4, 6)], 2)
        self.check(Wrapper([{"a": 1}]).map(double, "a", "b"), [{"a": 1, "b": 2}], 1)
        self.check(numbers(5).filter(even), [0, 2, 4])
        self.check(pairs.filter(even, input_col=1), [(1, 2), (3, 4)])
        batches = list(numbers(3).batch(2).collate())
        self.assertEqual([batch.tolist() for batch in batches], [[0, 1], [2]])
        self.check(numbers(3).batch(2).collate(collate_fn=sum), [1, 2], 2)

    def test_functions_are_checked(self):
        for arguments, error in (
            ((5,), TypeError), ((lambda a, b: a,), ValueError), ((lambda: 0,), ValueError),
            ((lambda a, *, k: a,), ValueError), ((double, [0, 1]), ValueError),
            ((double, None, 1), ValueError), ((double, 0, [1, 2]), ValueError),
        ):
            with self.assertRaises(error):
                numbers().map(*arguments)
        with self.assertRaisesRegex(ValueError, "Boolean output is required"):
            list(numbers().filter(double))

    def test_batches(self):
        self.check(numbers(5).batch(2), [[0, 1], [2, 3], [4]], 3)
        self.check(numbers(5).batch(2, drop_last=True), [[0, 1], [2, 3]], 2)
        chunk = next(iter(numbers(2).batch(2)))
        self.assertIs(type(chunk), data.DataChunk)
        self.assertEqual((chunk.as_str(" "), chunk.items, list(chunk.raw_iterator())),
                         (" [0, 1]", [0, 1], [0, 1]))
        nested = Wrapper([[[0, 1], [2]], [[3]]])
        self.check(nested.unbatch(), [[0, 1], [2], [3]])
        self.check(nested.unbatch(2), [0, 1, 2, 3])
        self.check(nested.unbatch(-1), [0, 1, 2, 3])
        with self.assertRaises(IndexError):
            list(nested.unbatch(3))
        with self.assertRaises(AssertionError):
            numbers().batch(0)

    def test_groups(self):
        names = Wrapper(["a1", "b1", "a2", "b2", "c1", "a3"])
        self.check(names.groupby(first), [["a1", "a2", "a3"], ["b1", "b2"], ["c1"]])
        self.check(names.groupby(first, group_size=2, keep_key=True),
                   [("a", ["a1", "a2"]), ("b", ["b1", "b2"]), ("c", ["c1"]), ("a", ["a3"])])
        options = {"buffer_size": 3, "group_size": 3, "guaranteed_group_size": 2}
        self.check(names.groupby(first, **options), [["a1", "a2"], ["b1", "b2"], ["c1"], ["a3"]])
        others = Wrapper(["a1", "b1", "c2", "b2", "c1", "a3"])
        with self.assertRaisesRegex(RuntimeError, "Failed to group items"):
            list(others.groupby(first, **options))
        self.check(others.groupby(first, drop_remaining=True, **options),
                   [["b1", "b2"], ["c2", "c1"], ["a3"]])
        with self.assertRaises(AssertionError):
            names.groupby(first, group_size=0)

    def test_combinations(self):
        self.check(numbers(2).concat(numbers(1)), [0, 1, 0], 3)
        self.check(numbers(3).mux(numbers(2)), [0, 0, 1, 1], 4)
        self.check(numbers(3).zip(numbers(2)), [(0, 0), (1, 1)], 2)
        self.check(pipes.Sampler(numbers(3)), [0, 1, 2], 3)
        self.check(numbers(5).sharding_filter(), [0, 1, 2, 3, 4], 5)
        with self.assertRaises(ValueError):
            pipes.Concater()
        with self.assertRaises(TypeError):
            numbers().concat([1])
        with self.assertRaises(TypeError):
            numbers().zip([1])

    def test_shuffled(self):
        # The orders are those of Python's generator with this seed.
        self.assertEqual(list(numbers().shuffle().set_seed(0)), [6, 7, 0, 3, 8, 5, 9, 2, 4, 1])
        self.assertEqual(list(numbers().shuffle(buffer_size=3).set_seed(5)),
                         [2, 1, 3, 4, 5, 7, 8, 9, 0, 6])
        self.check(numbers(4).shuffle().set_shuffle(False), [0, 1, 2, 3], 4)
        torch.manual_seed(0)
        pipe = numbers().shuffle()
        self.assertEqual(list(pipe), [3, 5, 0, 1, 9, 6, 2, 7, 4, 8])
        self.assertEqual(sorted(pipe), list(range(10)))
        self.assertEqual(sorted(Wrapper([[1, 2], [3]]).shuffle(unbatch_level=1)), [1, 2, 3])

    def test_forks(self):
        a, b = numbers(4).fork(2)
        self.assertEqual((list(a), list(b), list(a), list(b)), ([0, 1, 2, 3],) * 4)
        self.assertEqual((len(a), [x for pair in zip(a, b) for x in pair]), (4, [0, 0, 1, 1, 2, 2, 3, 3]))
        source = numbers()
        self.assertIs(source.fork(1), source)
        a, b = numbers(9).fork(2, buffer_size=5)
        with self.assertRaisesRegex(BufferError, "buffer size 5 is insufficient"):
            list(a)
        a, b = Wrapper([[1]]).fork(2, copy="deep")
        self.assertIsNot(next(iter(a)), next(iter(b)))
        for count, copy in ((0, None), (2, "wide")):
            with self.assertRaises(ValueError):
                source.fork(count, copy=copy)
        a, b = numbers(4).fork(2)
        started = iter(a)
        next(started)
        self.assertEqual(list(a), [0, 1, 2, 3])
        with self.assertRaisesRegex(RuntimeError, "from one of the ChildDataPipes of"):
            next(started)

    def test_divisions(self):
        evens, odds = numbers(5).demux(2, parity)
        self.assertEqual((list(odds), list(evens), list(odds)), ([1, 3], [0, 2, 4], [1, 3]))
        (some,) = numbers(5).demux(1, lambda x: None if x % 2 else 0, drop_none=True)
        self.assertEqual(list(some), [0, 2, 4])
        with self.assertRaises(TypeError):
            len(evens)
        with self.assertRaisesRegex(ValueError, "should be between 0 and 1. 5 is returned"):
            list(numbers(5).demux(2, lambda x: 5)[0])
        with self.assertRaises(BufferError):
            list(numbers(9).demux(2, lambda x: 0, buffer_size=3)[1])
        with self.assertRaises(ValueError):
            numbers().demux(0, parity)

    def test_passes(self):
        pipe = numbers(3)
        one = iter(pipe)
        next(one)
        other = iter(pipe)
        self.assertEqual(next(other), 0)
        with self.assertRaisesRegex(RuntimeError, "invalidated because another iterator"):
            next(one)
        pipe = Count()
        self.assertEqual((list(pipe), list(pipe)), ([1, 2, 3],) * 2)
        one, other = iter(pipe), iter(pipe)
        with self.assertRaisesRegex(RuntimeError, r"IterDataPipe: Count\(stop=3\)"):
            next(one)
        self.assertEqual((next(other), next(pipe), pipe._number_of_samples_yielded), (1, 2, 2))
        pipe = Halves(numbers(2))
        self.assertEqual((list(pipe), list(pipe), pipe.resets), ([0, 0.5], [0, 0.5], 2))

    def test_errors_say_where(self):
        with self.assertRaisesRegex(ZeroDivisionError, "thrown by __iter__ of MapperIterDataPipe"):
            list(numbers().map(lambda x: 1 / x).map(double))
        with self.assertRaises(AttributeError):
            numbers().nothing
        self.assertEqual(repr(numbers().map(double)), "MapperIterDataPipe")
        self.assertIn("map", dir(numbers()))

    def test_pickled(self):
        pipe = numbers(4).map(double).shuffle().set_seed(3)
        twin = pickle.loads(pickle.dumps(pipe))
        self.assertEqual(list(twin), list(pipe))
        a, b = numbers(3).fork(2)
        list(a)
        self.assertEqual(list(pickle.loads(pickle.dumps(b))), [0, 1, 2])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a.txt", "one"), ("b.json", "[1]"), ("c.cls", "7")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            os.mkdir(os.path.join(folder, "deep"))
            with open(os.path.join(folder, "deep", "d.txt"), "w") as file:
                file.write("two")

            def names(found):
                return [os.path.relpath(name, folder) for name in found]

            self.assertEqual(names(pipes.FileLister(folder)), ["a.txt", "b.json", "c.cls"])
            self.assertEqual(names(pipes.FileLister(folder, "*.txt", recursive=True)),
                             ["a.txt", os.path.join("deep", "d.txt")])
            self.assertEqual(names(Wrapper([folder]).list_files(["*.cls", "b*"])), ["b.json", "c.cls"])
            read = pipes.FileLister(folder, "*.txt").open_files().read_from_stream()
            self.assertEqual([text for _, text in read], ["one"])
            parts = pipes.FileLister(folder, "*.txt").open_files("rb").read_from_stream(2)
            self.assertEqual([text for _, text in parts], [b"on", b"e"])
            decoded = pipes.FileLister(folder).open_files("b").routed_decode()
            self.assertEqual([value for _, value in decoded], ["one", [1], 7])
        with self.assertRaises(ValueError):
            numbers().open_files("w")
        with self.assertRaises(TypeError):
            len(pipes.FileLister("."))
        self.assertEqual(len(pipes.FileLister(".", length=3)), 3)

    def test_by_index(self):
        base = maps.SequenceWrapper(range(5))
        self.assertEqual((base[2], len(base), repr(base)), (2, 5, "SequenceWrapperMapDataPipe"))
        for pipe, expected in (
            (base.map(double), [0, 2, 4, 6, 8]), (base.batch(2), [[0, 1], [2, 3], [4]]),
            (base.batch(2, drop_last=True), [[0, 1], [2, 3]]), (base.concat(base), [*range(5)] * 2),
            (base.zip(base.map(double)), [(x, 2 * x) for x in range(5)]),
            (base.shuffle().set_seed(0), [2, 1, 0, 4, 3]),
        ):
            self.assertEqual((list(pipe), len(pipe)), (expected, len(expected)))
        for pipe, index in ((base.batch(2), 3), (base.concat(base), 10), (base.zip(base), 9)):
            with self.assertRaises(IndexError):
                pipe[index]
        self.assertEqual(maps.SequenceWrapper({"a": 1})["a"], 1)

    def test_decorators(self):
        @data.functional_datapipe(f"twice_{id(self)}")
        class Twice(data.IterDataPipe):
            def __init__(self, source):
                self.source = source

            def __iter__(self):
                for x in self.source:
                    yield from (x, x)

        self.assertEqual(list(getattr(numbers(2), f"twice_{id(self)}")()), [0, 0, 1, 1])
        with self.assertRaisesRegex(Exception, "already taken"):
            data.functional_datapipe("map")(Twice)

        @data.non_deterministic
        class Random(data.IterDataPipe):
            def __iter__(self):
                yield 4

        sometimes = data.non_deterministic(lambda source: len(source) > 2)(Twice)
        self.assertEqual(list(Random()), [4])
        with data.guaranteed_datapipes_determinism():
            with self.assertRaisesRegex(TypeError, "Random is non-deterministic, but"):
                Random()
            with self.assertRaisesRegex(TypeError, "with the inputs"):
                sometimes(numbers(3))
            self.assertEqual(list(sometimes(numbers(1))), [0, 0])
        with self.assertRaises(TypeError):
            data.non_deterministic(int)

        class Checked(data.IterDataPipe):
            @data.argument_validation
            def __init__(self, source: data.IterDataPipe):
                self.source = source

        with self.assertRaisesRegex(TypeError, "Expected argument 'source' as an IterDataPipe"):
            Checked([1])
        with self.assertRaises(TypeError):
            data.runtime_validation(double)

    @unittest.skipIf(torch.__name__ == "torch", "PyTorch 2.15 looks for a type that pipes lack")
    def test_types_of_samples(self):
        class Pairs(data.IterDataPipe[tuple[int, str]]):
            def __init__(self, samples):
                self.samples = samples

            @data.runtime_validation
            def __iter__(self):
                yield from self.samples

        self.assertEqual(list(Pairs([(1, "a")])), [(1, "a")])
        for wrong in (5, (1, 2), (1,)):
            with self.assertRaisesRegex(RuntimeError, "Expected an instance as subtype of"):
                list(Pairs([wrong]))
        with data.runtime_validation_disabled():
            self.assertEqual(list(Pairs([5])), [5])

    def test_graphs(self):
        source = numbers()
        pipe = source.map(double).zip(source.filter(even)).shuffle()
        found = graph.traverse_dps(pipe)
        self.assertEqual(list(found), [id(pipe)])
        kinds = [type(p).__name__ for p in settings.get_all_graph_pipes(found)]
        self.assertEqual(kinds, ["ShufflerIterDataPipe", "ZipperIterDataPipe", "MapperIterDataPipe",
                                 "IterableWrapperIterDataPipe", "FilterIterDataPipe"])
        part = numbers(5).sharding_filter()
        settings.apply_sharding(part.map(double), 2, 1)
        self.check(part, [1, 3], 2)
        with self.assertRaises(ValueError):
            part.apply_sharding(2, 2)
        with self.assertRaisesRegex(RuntimeError, "Sharding twice"):
            settings.apply_sharding(part.sharding_filter(), 2, 1)
        with self.assertRaisesRegex(RuntimeError, "cannot mix"):
            part.apply_sharding(2, 1, sharding.SHARDING_PRIORITIES.DISTRIBUTED)
        part = numbers(8).sharding_filter()
        part.apply_sharding(2, 1, sharding.SHARDING_PRIORITIES.DISTRIBUTED)
        part.apply_sharding(2, 0, sharding.SHARDING_PRIORITIES.MULTIPROCESSING)
        self.check(part, [2, 6], 2)


class Loaders(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def batches(self, pipe, **options):
        return [batch.tolist() for batch in data.DataLoader(pipe, batch_size=3, **options)]

    def test_alone(self):
        self.assertEqual(self.batches(numbers(5).map(double)), [[0, 2, 4], [6, 8]])
        self.assertEqual(len(data.DataLoader(numbers(), batch_size=3)), 4)
        self.assertEqual(self.batches(maps.SequenceWrapper(range(4)).map(double)), [[0, 2, 4], [6]])
        torch.manual_seed(3)
        shuffled = numbers().shuffle().sharding_filter()
        self.assertEqual(self.batches(shuffled), [[1, 2, 9], [7, 0, 8], [6, 5, 3], [4]])
        self.assertEqual(self.batches(numbers(4).shuffle(), shuffle=False), [[0, 1, 2], [3]])

    def test_workers_have_their_parts(self):
        # All workers shuffle alike, so that together they read every sample once.
        torch.manual_seed(3)
        pipe = numbers().shuffle().sharding_filter()
        found = self.batches(pipe, num_workers=2)
        self.assertEqual(found, [[1, 9, 0], [2, 7, 8], [6, 3], [5, 4]])
        self.assertEqual(self.batches(numbers(3), num_workers=2), [[0, 1, 2]] * 2)

    def test_workers_that_persist(self):
        torch.manual_seed(3)
        pipe = numbers().shuffle().sharding_filter()
        loader = data.DataLoader(pipe, batch_size=3, num_workers=2, persistent_workers=True)
        passes = [[batch.tolist() for batch in loader] for _ in range(2)]
        self.assertEqual(passes, [[[1, 9, 0], [2, 7, 8], [6, 3], [5, 4]],
                                  [[1, 7, 4], [3, 5, 9], [2, 6], [8, 0]]])


if __name__ == "__main__":
    unittest.main()
