"""Image files: pixels as libjpeg, libpng, libwebp and giflib read them, bytes as libjpeg writes them."""

import json
import pathlib
import struct
import tempfile
import unittest
import zlib

import numpy as np

from module_under_test import torch

GOLDENS = np.load(pathlib.Path(__file__).resolve().parent.parent / "goldens" / "images.npz")
CASES = json.loads(str(GOLDENS["cases"]))
OPS = torch.ops.image
DECODERS = {"JPEG": OPS.decode_jpeg, "PNG": OPS.decode_png, "WEBP": OPS.decode_webp}


def file(nr):
    return torch.from_numpy(GOLDENS[f"{nr}/file"].copy())


def of(kind):
    return [nr for nr, one in enumerate(CASES) if one[0] == kind]


def png(width, height, depth, colour, rows, *chunks):
    """A file made by hand."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *(chunk(*one) for one in chunks), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return torch.frombuffer(bytearray(b"\x89PNG\r\n\x1a\n" + b"".join(parts)), dtype=torch.uint8)


class Pixels(unittest.TestCase):
    #: The largest difference of a pixel.
    NEAR = {"JPEG": 0, "PNG": 0, "GIF": 0, "WEBP": 0}

    def test_decoded(self):
        for nr, (kind, image, modes, turned) in enumerate(CASES):
            for mode in modes:
                expected = torch.from_numpy(GOLDENS[f"{nr}/mode{mode}"].copy())
                own = OPS.decode_image(file(nr), mode, turned)
                with self.subTest(nr=nr, kind=kind, image=image, mode=mode):
                    self.assertEqual((own.shape, own.dtype), (expected.shape, expected.dtype))
                    difference = (own.to(torch.int64) - expected.to(torch.int64)).abs().max().item()
                    self.assertLessEqual(difference, self.NEAR[kind])

    def test_each_format_has_an_operator(self):
        for kind, decode in DECODERS.items():
            nr = of(kind)[0]
            self.assertTrue(torch.equal(decode(file(nr), 3), OPS.decode_image(file(nr), 3)))
        nr = of("GIF")[0]
        self.assertTrue(torch.equal(OPS.decode_gif(file(nr)), OPS.decode_image(file(nr), 0)))

    def test_channels_lie_side_by_side(self):
        for kind in DECODERS:
            own = OPS.decode_image(file(of(kind)[0]), 3)
            self.assertEqual(own.stride(), (1, 3 * own.shape[2], 3))

    def test_palettes(self):
        # Two bits per place: 0 1 2 3 1.
        rows = b"\0" + bytes([0b00011011, 0b01000000])
        palette = bytes([1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33])
        data = png(5, 1, 2, 3, rows, (b"PLTE", palette), (b"tRNS", bytes([7, 8])))
        self.assertEqual(OPS.decode_png(data, 0).tolist(), [[[0, 1, 2, 3, 1]]])
        self.assertEqual(OPS.decode_png(data, 3)[1].tolist(), [[2, 12, 22, 32, 12]])
        self.assertEqual(OPS.decode_png(data, 4)[3].tolist(), [[7, 8, 255, 255, 8]])

    def test_sixteen_bits(self):
        rows = b"\0" + struct.pack(">HH", 258, 65535)
        own = OPS.decode_png(png(2, 1, 16, 0, rows), 4)
        self.assertEqual(own.dtype, torch.uint16)
        self.assertEqual(own.to(torch.int64).tolist(), [[[258, 65535]]] * 3 + [[[65535, 65535]]])


class Written(unittest.TestCase):
    def test_jpeg_has_the_bytes_of_libjpeg(self):
        for name in GOLDENS.files:
            if name.startswith("jpeg/"):
                _, height, width, channels, quality = name.split("/")
                pixels = torch.from_numpy(GOLDENS[f"pixels/{height}/{width}"][: int(channels)].copy())
                with self.subTest(name=name):
                    self.assertEqual(OPS.encode_jpeg(pixels, int(quality)).tolist(), GOLDENS[name].tolist())

    def test_png_comes_back(self):
        generator = torch.Generator().manual_seed(0)
        for size in ((1, 1), (3, 40), (70, 33)):
            for channels in (1, 3):
                for level in (0, 1, 6, 9):
                    noise = torch.randint(0, 256, (channels, *size), generator=generator)
                    slope = torch.arange(size[1]).expand(channels, *size) % 256
                    for pixels in (noise.to(torch.uint8), slope.to(torch.uint8)):
                        data = OPS.encode_png(pixels, level)
                        self.assertTrue(torch.equal(OPS.decode_png(data, 0), pixels))
        small = OPS.encode_png(torch.zeros(3, 4, 4, dtype=torch.uint8), 6).tolist()
        self.assertEqual(small[41:52], [8, 153, 99, 96, 32, 29, 0, 0, 0, 52, 0])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "bytes")
            data = torch.arange(200, dtype=torch.uint8)
            self.assertTrue(torch.equal(OPS.write_file(path, data[::2]), data[::2]))
            self.assertTrue(torch.equal(OPS.read_file(path), data[::2]))
            OPS.write_file(path, data[:0])
            with self.assertRaisesRegex(RuntimeError, "Expected a non empty file"):
                OPS.read_file(path)
            with self.assertRaisesRegex(RuntimeError, "No such file or directory: '.*nothing'"):
                OPS.read_file(path + "nothing")
            with self.assertRaises(RuntimeError):
                OPS.read_file(folder)
            with self.assertRaisesRegex(RuntimeError, "Error opening output file"):
                OPS.write_file(folder + "/no/file", data)


class Damage(unittest.TestCase):
    def refused(self, text, function, *args):
        with self.assertRaisesRegex(RuntimeError, text):
            function(*args)

    def test_arguments(self):
        data = torch.tensor([1, 2, 3], dtype=torch.uint8)
        for decode, rest in ((OPS.decode_jpeg, [0]), (OPS.decode_png, [0]), (OPS.decode_webp, [0]), (OPS.decode_gif, [])):
            self.refused("must have uint8 data type", decode, data.float(), *rest)
            self.refused("1-dimensional and non-empty, got 2 dims", decode, data[None], *rest)
            self.refused("1-dimensional and non-empty, got 1 dims  and 0", decode, data[:0], *rest)
            self.refused("must be contiguous", decode, data[::2], *rest)
        self.refused("Not a JPEG file: starts with 0x01 0x02", OPS.decode_jpeg, data, 0)
        self.refused("Content is too small for png!", OPS.decode_png, data, 0)
        self.refused("Content is not png!", OPS.decode_png, data.repeat(9), 0)
        self.refused("Unsupported image file", OPS.decode_image, data, 0)
        for mode in (-1, 2, 4, 5):
            self.refused("mode is not supported for JPEG", OPS.decode_jpeg, file(0), mode)
        self.refused("mode is not supported for PNG", OPS.decode_png, file(of("PNG")[0]), 5)
        image = torch.zeros(2, 4, 4, dtype=torch.uint8)
        for encode in (OPS.encode_jpeg, OPS.encode_png):
            self.refused("dtype should be uint8", encode, image.float(), 5)
            self.refused("3-dimensional", encode, image[0], 5)
            self.refused("should be 1 or 3, got: 2", encode, image, 5)
            self.refused("pixels|[Ee]mpty", encode, image[:1, :0], 5)
        self.refused("Compression level should be between 0 and 9", OPS.encode_png, image[:1], 10)

    def test_truncated(self):
        for kind in ("JPEG", "PNG", "WEBP", "GIF"):
            for nr in of(kind)[:6]:
                data = file(nr)
                for part in {1, 5, 20, len(data) // 4, len(data) // 2, len(data) - 20}:
                    decode = DECODERS.get(kind)
                    with self.subTest(kind=kind, nr=nr, part=part):
                        with self.assertRaises(RuntimeError):
                            decode(data[:part], 0) if decode else OPS.decode_gif(data[:part])

    def test_changed_bytes_never_end_the_process(self):
        rng = np.random.RandomState(0)
        read = 0
        for nr in range(0, len(CASES), 3):
            for _ in range(12):
                data = file(nr)
                for _ in range(rng.randint(1, 4)):
                    data[rng.randint(2, len(data))] = int(rng.randint(256))
                try:
                    OPS.decode_image(data, int(rng.choice([0, 1, 3])), True)
                    read += 1
                except RuntimeError:
                    pass
        self.assertGreater(read, 0)

    def test_sizes_without_pixels_take_no_memory(self):
        self.refused("corrupted|large", OPS.decode_png, png(1_000_000, 1_000_000, 16, 6, b""), 0)
        self.refused("corrupted|large", OPS.decode_png, png(0x7fffffff, 0x7fffffff, 16, 6, b""), 0)
        data = file(of("JPEG")[0]).tolist()
        place = next(i for i in range(len(data)) if data[i:i + 2] == [255, 0xC0])
        data[place + 5:place + 9] = [255, 255, 255, 255]
        self.refused("truncated", OPS.decode_jpeg, torch.tensor(data, dtype=torch.uint8), 0)


if __name__ == "__main__":
    unittest.main()
