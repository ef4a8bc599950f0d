"""What the bytes of files stand for, by the ending of their names."""

from __future__ import annotations

import io
import json
import os
import pickle

import corten

from .common import StreamWrapper

__all__ = [
    "Decoder", "ImageHandler", "basichandlers", "extension_extract_fn", "handle_extension",
    "imagehandler",
]

_TEXT = ("", "txt", "text", "transcript")
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")


def basichandlers(extension, data):
    """Text, numbers, JSON, pickles and saved tensors; None for other endings."""
    if extension in _TEXT:
        return data.decode("utf-8")
    if extension in _NUMBERS:
        try:
            return int(data)
        except ValueError:
            return None
    if extension in ("json", "jsn"):
        return json.loads(data)
    if extension in ("pyd", "pickle"):
        return pickle.loads(data)
    if extension == "pt":
        return corten.load(io.BytesIO(data))
    return None


def handle_extension(extensions, f):
    """A handler that calls ``f`` for names with one of the endings, which may have dots."""
    endings = [ending.split(".") for ending in extensions.lower().split()]

    def handler(key, data):
        parts = key.lower().split(".")
        return f(data) if any(parts[-len(ending):] == ending for ending in endings) else None

    return handler


def _specifications():
    found = {}
    for mode in ("l", "rgb", "rgba"):
        for prefix, kind in (("", "numpy"), ("torch", "torch")):
            found[f"{prefix}{mode}8"] = kind, "uint8", mode
            found[prefix + mode] = kind, "float", mode
        found["pil" + mode] = "pil", None, mode
    found["torch"], found["pil"] = found["torchrgb"], found["pilrgb"]
    return found


imagespecs = _specifications()


class ImageHandler:
    """Decodes images with Pillow: to Pillow's images, NumPy arrays or tensors with the channels
    first; ``l``, ``rgb`` or ``rgba``; of bytes (``8``) or of floats up to 1."""

    def __init__(self, imagespec):
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension, data):
        if extension.lower() not in _IMAGES:
            return None
        import numpy
        from PIL import Image

        kind, dtype, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = Image.open(stream).convert(mode.upper())
        if kind == "pil":
            return image
        array = numpy.asarray(image)
        if kind == "numpy":
            return array if dtype == "uint8" else array.astype("f") / 255.0
        made = corten.tensor(numpy.array(array.transpose(2, 0, 1)))
        return made if dtype == "uint8" else made / 255.0


def imagehandler(imagespec):
    """A handler of images; see :class:`ImageHandler`."""
    return ImageHandler(imagespec)


def extension_extract_fn(pathname):
    """The ending of a name, without its dot."""
    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """Asks its handlers, the latest ones first, what a file's bytes stand for."""

    def __init__(self, *handler, key_fn=extension_extract_fn):
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler):
        """Adds handlers before the others."""
        self.handlers = [*handler, *self.handlers]

    def decode1(self, key, data):
        """The value of the first handler that has one, or the bytes."""
        if not data:
            return data
        stream = data.file_obj if isinstance(data, StreamWrapper) else data
        if isinstance(stream, (io.BufferedIOBase, io.RawIOBase)):
            content = b"".join(data)
            data.close()
            data = content
        for handler in self.handlers:
            result = handler(key, data)
            if result is not None:
                return result
        return data

    def decode(self, data):
        """The values of pairs of names and bytes, by name."""
        result = {}
        for name, value in [data] if isinstance(data, tuple) else data or ():
            if name[0] == "_" and isinstance(value, bytes):
                result[name] = value.decode("utf-8")
            else:
                result[name] = self.decode1(self.key_fn(name), value)
        return result

    __call__ = decode
