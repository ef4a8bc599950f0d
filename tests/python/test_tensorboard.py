"""Event files, read back by a reader of their own."""

import io
import os
import struct
import tempfile
import unittest
import wave
import zlib

import module_under_test

torch = module_under_test.torch


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Field numbers and values of a message: bytes, or numbers."""
    at, found = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def events(path):
    from corten.utils.tensorboard._records import masked_crc

    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        check, body = struct.unpack_from("<I", data, at + 8)[0], data[at + 12:at + 12 + size]
        assert check == masked_crc(data[at:at + 8])
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == masked_crc(body)
        yield fields(body)
        at += 16 + size


def values(folder):
    """Tag, step and fields of every value in a folder."""
    for name in sorted(os.listdir(folder)):
        if "tfevents" in name:
            for event in events(os.path.join(folder, name)):
                for summary in event.get(5, ()):
                    for value in fields(summary)[1]:
                        parts = fields(value)
                        yield parts[1][0].decode(), event.get(2, [0])[0], parts


@unittest.skipIf(os.environ.get("CORTEN_TEST_MODULE", "corten") != "corten", "reads its own files")
class Events(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def written(self, write):
        from corten.utils.tensorboard import SummaryWriter

        with SummaryWriter(self.folder.name) as writer:
            write(writer)
        return {tag: (step, parts) for tag, step, parts in values(self.folder.name)}

    def test_checksum(self):
        from corten.utils.tensorboard._records import crc32c

        self.assertEqual(crc32c(b"123456789"), 0xE3069283)  # the value that defines CRC-32C

    def test_numbers(self):
        found = self.written(lambda w: w.add_scalar("loss", torch.tensor(0.5), 7))
        step, parts = found["loss"]
        self.assertEqual((step, parts[2]), (7, [0.5]))

    def test_histogram(self):
        found = self.written(lambda w: w.add_histogram("w", torch.tensor([1.0, 2.0, 2.0, -3.0]), 1))
        histogram = fields(found["w"][1][5][0])
        self.assertEqual([histogram[i][0] for i in (1, 2, 3, 4, 5)], [-3, 2, 4, 2, 18])
        counts = struct.unpack(f"<{len(histogram[7][0]) // 8}d", histogram[7][0])
        limits = struct.unpack(f"<{len(histogram[6][0]) // 8}d", histogram[6][0])
        self.assertEqual(len(limits), len(counts))
        self.assertEqual(sum(counts), 4)
        below_zero = sum(c for limit, c in zip(limits, counts) if limit <= 0)
        self.assertEqual(below_zero, 1)

    def test_image(self):
        pixels = torch.zeros(3, 2, 4)
        pixels[0] = 1.0
        found = self.written(lambda w: w.add_image("red", pixels))
        image = fields(found["red"][1][4][0])
        self.assertEqual([image[i][0] for i in (1, 2, 3)], [2, 4, 3])
        png = image[4][0]
        start = png.index(b"IDAT") + 4
        lines = zlib.decompress(png[start:png.index(b"IEND") - 8])
        self.assertEqual(lines, (b"\0" + b"\xff\0\0" * 4) * 2)

    def test_text_and_parameters(self):
        found = self.written(lambda w: w.add_text("note", "hello", 2))
        tensor = fields(found["note/text_summary"][1][8][0])
        self.assertEqual(tensor[8], [b"hello"])
        self.written(lambda w: w.add_hparams({"lr": 0.1, "net": "a"}, {"hp/x": 1.0}, run_name="r"))
        found = {tag for tag, _, _ in values(os.path.join(self.folder.name, "r"))}
        self.assertIn("_hparams_/session_start_info", found)
        self.assertIn("hp/x", found)

    def test_sound_and_curve(self):
        def write(writer):
            writer.add_audio("beep", torch.tensor([0.5, -1.0, 2.0]), sample_rate=8000)
            writer.add_pr_curve("pr", torch.tensor([1, 0]), torch.tensor([0.9, 0.2]), num_thresholds=3)

        found = self.written(write)
        sound = fields(found["beep"][1][6][0])
        self.assertEqual((sound[1], sound[3], sound[5]), ([8000.0], [3], [b"audio/wav"]))
        with wave.open(io.BytesIO(sound[4][0])) as file:
            self.assertEqual((file.getnchannels(), file.getsampwidth(), file.getframerate()), (1, 2, 8000))
            self.assertEqual(struct.unpack("<3h", file.readframes(3)), (16383, -32767, 32767))
        curve = fields(found["pr"][1][8][0])
        rows = struct.unpack("<18f", curve[5][0])
        self.assertEqual(rows[:6], (1, 1, 0, 1, 0, 0))

    def test_files_end(self):
        from corten.utils.tensorboard import FileWriter

        writer = FileWriter(self.folder.name)
        writer.close()
        writer.close()
        writer.flush()
        with self.assertRaisesRegex(ValueError, "closed"):
            writer.add_summary(b"")

    def test_scalars_make_folders(self):
        self.written(lambda w: w.add_scalars("run", {"a": 1.0, "b": 2.0}, 3))
        self.assertEqual(
            [next(values(os.path.join(self.folder.name, f"run_{k}")))[2][2] for k in "ab"],
            [[1.0], [2.0]],
        )

    def test_what_cannot_be_written(self):
        with self.assertRaises(NotImplementedError):
            self.written(lambda w: w.add_graph(torch.nn.Linear(1, 1)))


if __name__ == "__main__":
    unittest.main()
