"""Event files by a second encoder, in Python: what the native one is compared with."""

import struct
import zlib

import corten

_CASTAGNOLI = 0x82F63B78


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _table()


def crc32c(data):
    """The CRC-32C of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc(data):
    """The CRC-32C as records store it, so that checksums of checksums stay sound."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    """A record: length and bytes, each with a checksum."""
    length = struct.pack("<Q", len(data))
    return (
        length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))
    )


def varint(value):
    """A number in groups of seven bits; negative ones take ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    """An integer, bool or enum field."""
    return varint(field << 3) + varint(int(value))


def double(field, value):
    """A double field."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field, value):
    """A float field."""
    return varint(field << 3 | 5) + struct.pack("<f", value)


def data(field, value):
    """A field of bytes, text or a message."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def doubles(field, values):
    """A packed field of doubles."""
    return data(field, struct.pack(f"<{len(values)}d", *values))


def event(wall_time, step, field, payload):
    """An event; ``field`` 3 is the version of the file, 5 a summary."""
    head = double(1, wall_time)
    if step:
        head += integer(2, step)
    return head + data(field, payload)


_STRING = 7


def value(tag, payload, plugin=None, content=b""):
    """A summary of one value."""
    body = data(1, tag) + payload
    if plugin is not None:
        body += data(9, data(1, data(1, plugin) + (data(2, content) if content else b"")))
    return data(1, body)


def number(value):
    """A number out of a number, tensor or array of one element."""
    if hasattr(value, "item"):
        if getattr(value, "numel", None) and value.numel() != 1:
            raise AssertionError("scalar should be 0D")
        return float(value.item())
    return float(value)


def tensor(values):
    """A tensor out of a tensor, array or list."""
    found = values if isinstance(values, corten.Tensor) else corten.as_tensor(values)
    return found.detach().cpu()


def scalar(tag, x, new_style=False, double_precision=False):
    """A number; of the new style as a tensor."""
    x = number(x)
    if not new_style and not double_precision:
        return value(tag, single(2, x))
    dtype = 2 if double_precision else 1
    shape = data(2, b"")
    values = struct.pack("<d", x) if double_precision else struct.pack("<f", x)
    payload = integer(1, dtype) + shape + data(6 if double_precision else 5, values)
    return value(tag, data(8, payload), "scalars")


def text(tag, string):
    """A text."""
    payload = integer(1, _STRING) + data(2, data(2, integer(1, 1))) + data(8, string)
    return value(f"{tag}/text_summary", data(8, payload), "text")


def _default_bins():
    edges, x = [], 1e-12
    while x < 1e20:
        edges.append(x)
        x *= 1.1
    return [-edge for edge in reversed(edges)] + [0.0] + edges


def histogram(tag, values, bins, max_bins=None):
    """How often values fall between edges; ``bins`` as NumPy's, or ``tensorflow``."""
    import numpy

    array = tensor(values).double().reshape(-1).numpy()
    if array.size == 0:
        raise ValueError("The input has no element.")
    if bins == "tensorflow":
        bins = _default_bins()
    counts, limits = numpy.histogram(array, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), step))
        limits = numpy.append(limits[:-1][::step], limits[-1])
    filled = numpy.flatnonzero(counts)
    # From the empty bucket before the first filled one; each count goes with its upper limit.
    start, end = int(filled[0]), int(filled[-1]) + 1
    kept = counts[start - 1:end] if start > 0 else numpy.concatenate([[0], counts[:end]])
    upper = limits[start:end + 1]
    return raw_histogram(
        tag, array.min(), array.max(), array.size, array.sum(), array.dot(array), upper.tolist(),
        kept.tolist(),
    )


def raw_histogram(tag, low, high, count, total, squares, limits, counts):
    """A histogram that was computed already."""
    payload = double(1, low) + double(2, high) + double(3, count) + double(4, total)
    payload += double(5, squares) + doubles(6, limits) + doubles(7, counts)
    return value(tag, data(5, payload))


def _as_hwc(images, dataformats):
    """Height, width, three channels; batches side by side in a grid."""
    formats = dataformats.upper()
    if images.dim() != len(formats):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: "
            f"{tuple(images.shape)}, input_format: {dataformats}"
        )
    if len(formats) == 4:
        images = images.permute(*(formats.find(c) for c in "NHWC"))
        count, height, width, channels = images.shape
        columns = min(count, 8)
        rows = -(-count // columns)
        grid = images.new_zeros(rows * height, columns * width, channels)
        for i in range(count):
            y, x = i // columns * height, i % columns * width
            grid[y:y + height, x:x + width] = images[i]
        images = grid
    elif len(formats) == 3:
        images = images.permute(*(formats.find(c) for c in "HWC"))
    else:
        images = images.permute(*(formats.find(c) for c in "HW")).unsqueeze(-1)
    return images.expand(-1, -1, 3) if images.shape[-1] == 1 else images


def image(tag, images, dataformats):
    """An image of bytes, or of floating-point numbers from 0 to 1."""
    images = tensor(images)
    scale = 1 if images.dtype == corten.uint8 else 255
    pixels = _as_hwc(images.to(corten.float32) * scale, dataformats).clamp(0, 255)
    pixels = pixels.to(corten.uint8).contiguous()
    height, width, channels = pixels.shape
    encoded = _png(pixels, height, width, channels)
    payload = integer(1, height) + integer(2, width) + integer(3, channels) + data(4, encoded)
    return value(tag, data(4, payload))


def _png(pixels, height, width, channels):
    rows = bytes(pixels.reshape(-1).tolist()) if height * width < 64 else pixels.numpy().tobytes()
    stride = width * channels
    lines = b"".join(b"\0" + rows[y * stride:(y + 1) * stride] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)

    def chunk(kind, content):
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def audio(tag, sound, sample_rate):
    """Samples from -1 to 1 as a WAV file."""
    import io
    import wave

    samples = tensor(sound).to(corten.float32).reshape(-1).clamp(-1, 1)
    pcm = (samples * 32767).to(corten.int16)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(pcm.numpy().tobytes())
    payload = single(1, sample_rate) + integer(2, 1) + integer(3, samples.numel())
    payload += data(4, file.getvalue()) + data(5, "audio/wav")
    return value(tag, data(6, payload))


def pr_curve(tag, labels, predictions, num_thresholds, weights=None):
    """Precision and recall over thresholds."""
    labels, predictions = tensor(labels).reshape(-1).bool(), tensor(predictions).reshape(-1).double()
    weights = corten.ones_like(predictions) if weights is None else tensor(weights).double()
    count = min(num_thresholds, 127)
    buckets = (predictions * (count - 1)).floor().long().clamp(0, count - 1)

    def at_least(mask):
        found = corten.zeros(count, dtype=corten.float64)
        found.scatter_add_(0, buckets[mask], weights[mask])
        return found.flip(0).cumsum(0).flip(0)

    true, false = at_least(labels), at_least(~labels)
    rows = corten.stack([
        true, false, false[0] - false, true[0] - true, true / (true + false).clamp(min=1e-7),
        true / true[0].clamp(min=1e-7),
    ]).float()
    shape = b"".join(data(2, integer(1, size)) for size in rows.shape)
    values = struct.pack(f"<{rows.numel()}f", *rows.reshape(-1).tolist())
    payload = integer(1, 1) + data(2, shape) + data(5, values)
    return value(tag, data(8, payload), "pr_curves", integer(2, count))


def _anything(x):
    """A value of google.protobuf and the kind that the plugin for parameters gives it."""
    if isinstance(x, bool):
        return integer(4, x), 2
    if isinstance(x, (int, float)):
        return double(2, x), 3
    if isinstance(x, str):
        return data(3, x), 1
    if hasattr(x, "item"):
        return _anything(x.item())
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hyperparameters(hparams, metrics, domains=None):
    """The three summaries of a run: what there is, how it started, how it ended."""
    if not isinstance(hparams, dict) or not isinstance(metrics, dict):
        raise TypeError("parameters `hparam_dict` and `metric_dict` must be dictionaries")
    infos, start = b"", b""
    for name, x in hparams.items():
        if x is None:
            continue
        encoded, kind = _anything(x)
        start += data(1, data(1, name) + data(2, encoded))
        domain = b""
        if domains and name in domains:
            listed = b"".join(data(1, _anything(item)[0]) for item in domains[name])
            domain = data(5, listed)
        infos += data(4, data(1, name) + integer(4, kind) + domain)
    for name in metrics:
        infos += data(5, data(1, data(2, name)))
    parts = {
        "_hparams_/experiment": data(2, infos), "_hparams_/session_start_info": data(3, start),
        "_hparams_/session_end_info": data(4, integer(1, 1)),
    }
    return [value(tag, b"", "hparams", content) for tag, content in parts.items()]
