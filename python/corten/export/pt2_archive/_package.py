"""Archives of exported programs: ZIP files with the graph as JSON and the tensors as bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import struct
import typing
import zipfile

import corten
from corten._export.serde import _reading, schema
from corten._export.serde._codec import SerializeError, from_bytes, to_bytes
from corten._export.serde.serialize import serialize, serialize_tensor_meta
from corten.export.exported_program import ExportedProgram
from corten.export.pt2_archive import constants as names

__all__ = ["AOTICompiledModel", "PT2ArchiveContents", "PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package",
           "load_pt2", "package_pt2"]

_ALIGNMENT = 64
_NO_COMPILED = (
    "the archive has a program that was compiled by AOTInductor, which runs in PyTorch alone; save the exported "
    "program itself with torch.export.save"
)


def is_pt2_package(serialized_model):
    """Whether a file, or the bytes of one, is such an archive."""
    try:
        source = io.BytesIO(serialized_model) if isinstance(serialized_model, bytes) else serialized_model
        with zipfile.ZipFile(source) as archive:
            paths = archive.namelist()
            root = paths[0].partition("/")[0]
            return archive.read(f"{root}/{names.ARCHIVE_FORMAT_PATH}").decode() == names.ARCHIVE_FORMAT_VALUE
    except (OSError, KeyError, IndexError, zipfile.BadZipFile, UnicodeDecodeError):
        return False


class PT2ArchiveWriter:
    """Writes an archive: a context manager."""

    def __init__(self, archive_path_or_buffer):
        self.target = archive_path_or_buffer
        is_path = isinstance(archive_path_or_buffer, (str, os.PathLike))
        stem = os.path.splitext(os.path.basename(os.fspath(archive_path_or_buffer)))[0] if is_path else "archive"
        self.root = stem or "archive"
        self.archive = zipfile.ZipFile(archive_path_or_buffer, "w", zipfile.ZIP_STORED)
        self.written, self.digest = set(), hashlib.sha256()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self.archive is not None:
            self.close()

    def has_record(self, name):
        """Whether a record was written."""
        return name in self.written

    def count_prefix(self, prefix):
        """How many records begin so."""
        return sum(name.startswith(prefix) for name in self.written)

    def write_bytes(self, name, data):
        """Writes a record."""
        if not isinstance(data, bytes):
            raise AssertionError(f"Expected bytes but got {type(data)}")
        path = f"{self.root}/{name}"
        info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
        # Records begin at a multiple of 64 bytes, behind a field that readers skip.
        start = self.archive.fp.tell() + 30 + len(path.encode()) + 4
        padding = -start % _ALIGNMENT
        info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        self.archive.writestr(info, data)
        self.written.add(name)
        self.digest.update(name.encode() + data)

    def write_string(self, name, data):
        """Writes a record of text."""
        if not isinstance(data, str):
            raise AssertionError(f"Expected string but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name, file_path):
        """Writes a record of a file."""
        if not os.path.isfile(file_path):
            raise AssertionError(f"{file_path} is not a valid file path")
        with open(file_path, "rb") as file:
            self.write_bytes(name, file.read())

    def write_folder(self, archive_dir, folder_dir):
        """Writes all files of a folder."""
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"{folder_dir} is not a valid directory path")
        for folder, _, files in os.walk(folder_dir):
            for file in files:
                path = os.path.join(folder, file)
                inside = os.path.relpath(path, folder_dir).replace(os.sep, "/")
                self.write_file(f"{archive_dir.rstrip('/')}/{inside}", path)

    def close(self):
        """Writes what says that it is an archive, and its end."""
        self.write_string(names.ARCHIVE_FORMAT_PATH, names.ARCHIVE_FORMAT_VALUE)
        self.write_string(names.ARCHIVE_VERSION_PATH, names.ARCHIVE_VERSION_VALUE)
        self.write_string(".data/version", "6\n")
        self.write_string("byteorder", "little")
        number = int.from_bytes(self.digest.digest()[:16], "little")
        self.write_string(".data/serialization_id", f"{number:040d}"[:40])
        self.archive.close()
        self.archive = None


class PT2ArchiveReader:
    """Reads an archive: a context manager."""

    def __init__(self, archive_path_or_buffer):
        try:
            self.archive = zipfile.ZipFile(archive_path_or_buffer)
        except zipfile.BadZipFile as error:
            raise RuntimeError(f"not an archive of exported programs: {error}") from None
        paths = self.archive.namelist()
        if not paths:
            raise RuntimeError("not an archive of exported programs: there is nothing in it")
        self.root = paths[0].partition("/")[0]
        self.names = [path[len(self.root) + 1:] for path in paths if path.startswith(self.root + "/")]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.archive.close()

    def read_bytes(self, name):
        """A record."""
        try:
            return self.archive.read(f"{self.root}/{name}")
        except (KeyError, zipfile.BadZipFile, NotImplementedError, EOFError, zipfile.zlib.error) as error:
            raise RuntimeError(f"the archive has no readable record {name}: {error}") from None

    def read_string(self, name):
        """A record as text."""
        return self.read_bytes(name).decode()

    def archive_version(self):
        """The version of the archive's layout."""
        try:
            return int(self.read_string(names.ARCHIVE_VERSION_PATH))
        except (RuntimeError, ValueError):
            return 0

    def get_file_names(self):
        """The names of all records."""
        return list(self.names)


def _raw(value):
    """The bytes of the memory of a tensor."""
    storage = value.detach().cpu().untyped_storage()
    return bytes(corten.tensor([], dtype=corten.uint8).set_(storage).numpy()) if storage.nbytes() else b""


class _Payload:
    """Writes tensors, memory that several share once."""

    def __init__(self, writer, folder, prefix):
        self.writer, self.folder, self.prefix = writer, folder, prefix
        self.config, self.known, self.kept = {}, {}, []

    def add(self, name, value):
        """Writes a tensor."""
        if type(value) not in (corten.Tensor, corten.nn.Parameter):
            raise SerializeError(f"{name}: only tensors can be written, got {type(value)}")
        if value.layout != corten.strided:
            raise SerializeError(f"{name}: only strided tensors can be written, got one of {value.layout}")
        value = value.resolve_conj().resolve_neg() if value.dtype.is_complex or value.is_neg() else value
        storage = value.untyped_storage()
        path = self.known.get(storage._cdata)
        if path is None:
            path = f"{self.prefix}{len(self.known)}"
            self.known[storage._cdata] = path
            self.kept.append(storage)
            self.writer.write_bytes(self.folder + path, _raw(value))
        self.config[name] = schema.PayloadMeta(
            path, isinstance(value, corten.nn.Parameter), False, serialize_tensor_meta(value)
        )

    def bytes(self):
        """What was written."""
        return to_bytes(schema.PayloadConfig(self.config))


def _write_program(writer, name, program, opset_version):
    weights = _Payload(writer, names.WEIGHTS_DIR, names.WEIGHT_FILENAME_PREFIX)
    for key, value in program.state_dict.items():
        weights.add(key, value)
    writer.write_bytes(names.WEIGHTS_CONFIG_FILENAME_FORMAT.format(name), weights.bytes())
    others = _Payload(writer, names.CONSTANTS_DIR, names.TENSOR_CONSTANT_FILENAME_PREFIX)
    for key, value in program.constants.items():
        others.add(key, value)
    writer.write_bytes(names.CONSTANTS_CONFIG_FILENAME_FORMAT.format(name), others.bytes())
    writer.write_bytes(names.MODELS_FILENAME_FORMAT.format(name), serialize(program, opset_version))
    if program.example_inputs is not None:
        inputs = io.BytesIO()
        corten.save(program.example_inputs, inputs)
        writer.write_bytes(names.SAMPLE_INPUTS_FILENAME_FORMAT.format(name), inputs.getvalue())


def package_pt2(f, *, exported_programs=None, aoti_files=None, extra_files=None, opset_version=None,
                pickle_protocol=2, executorch_files=None):
    """Writes an archive.

    Raises:
        NotImplementedError: There are compiled programs among what is to be written.
    """
    if aoti_files or executorch_files:
        raise NotImplementedError("programs that were compiled ahead of time cannot be written")
    if isinstance(exported_programs, ExportedProgram):
        exported_programs = {"model": exported_programs}
    with PT2ArchiveWriter(f) as writer:
        for name, program in (exported_programs or {}).items():
            _write_program(writer, name, program, opset_version)
        for name, content in (extra_files or {}).items():
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            writer.write_bytes(names.EXTRA_DIR + name, data)
    if hasattr(f, "seek"):
        f.seek(0)
    return f


class AOTICompiledModel:
    """A program that was compiled ahead of time, of which there is none here."""

    def __init__(self, loader):
        raise NotImplementedError(_NO_COMPILED)


@dataclasses.dataclass
class PT2ArchiveContents:
    """What an archive holds."""

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, AOTICompiledModel]
    extra_files: dict[str, typing.Any]


def _tensor(reader, folder, name, found, kept):
    """A tensor of a record."""
    if found.use_pickle or found.tensor_meta is None:
        raise SerializeError(f"{name}: only plain tensors can be read")
    meta = found.tensor_meta
    if "/" in found.path_name or ".." in found.path_name:
        raise SerializeError(f"{name}: {found.path_name!r} is no record of tensors")
    if found.path_name not in kept:
        kept[found.path_name] = reader.read_bytes(folder + found.path_name)
    from corten._export.serde.serialize import TO_DTYPE

    if meta.dtype not in TO_DTYPE:
        raise SerializeError(f"{name}: tensors cannot be of {meta.dtype.name}")
    symbols = _reading.Symbols()
    sizes = [_fixed(symbols.size(one), name) for one in meta.sizes]
    strides = [_fixed(symbols.number(one), name) for one in meta.strides]
    offset = _fixed(symbols.number(meta.storage_offset), name)
    return _laid_out(kept, found, name, TO_DTYPE[meta.dtype], (sizes, strides, offset), meta)


def _fixed(value, name):
    if type(value) is not int or value < 0 or value >= 1 << 62:
        raise SerializeError(f"{name}: {value} cannot be a size or a stride of a tensor that has elements")
    return value


def _laid_out(kept, found, name, dtype, geometry, meta):
    sizes, strides, offset = geometry
    if len(sizes) != len(strides):
        raise SerializeError(f"{name}: a tensor of {len(sizes)} dimensions has {len(strides)} strides")
    data = kept[found.path_name]
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    if 0 not in sizes and (last + 1) * dtype.itemsize > len(data):
        raise SerializeError(
            f"{name}: {len(data)} bytes are too few for sizes {sizes} with strides {strides} at {offset} of {dtype}"
        )
    key = (found.path_name, dtype)
    if key not in kept:
        usable = len(data) - len(data) % dtype.itemsize
        flat = corten.frombuffer(bytearray(data[:usable]), dtype=dtype) if usable else corten.empty(0, dtype=dtype)
        kept[key] = flat
    made = kept[key].as_strided(sizes, strides, offset) if 0 not in sizes else corten.empty(sizes, dtype=dtype)
    device = _reading.device_of(meta.device)
    if device.type != "cpu":
        made = made.to(device)
    if found.is_param:
        return corten.nn.Parameter(made, meta.requires_grad)
    return made.requires_grad_(meta.requires_grad) if meta.requires_grad else made


def _tensors(reader, folder, config):
    if config not in reader.names:
        return {}
    found, kept = from_bytes("PayloadConfig", reader.read_bytes(config)), {}
    return {name: _tensor(reader, folder, name, one, kept) for name, one in found.config.items()}


def _inputs(reader, path):
    """The example inputs; None where they are no tensors and numbers."""
    if path not in reader.names:
        return None
    import pickle

    try:
        found = corten.load(io.BytesIO(reader.read_bytes(path)), weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, TypeError):
        return None
    is_pair = isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], tuple)
    return found if is_pair and isinstance(found[1], dict) else None


def _program(reader, name, expected):
    from corten._export.serde.deserialize import ExportedProgramDeserializer

    given = from_bytes("ExportedProgram", reader.read_bytes(names.MODELS_FILENAME_FORMAT.format(name)))
    state = _tensors(reader, names.WEIGHTS_DIR, names.WEIGHTS_CONFIG_FILENAME_FORMAT.format(name))
    others = _tensors(reader, names.CONSTANTS_DIR, names.CONSTANTS_CONFIG_FILENAME_FORMAT.format(name))
    for spec in given.graph_module.signature.input_specs:
        if spec.type == "custom_obj":
            raise SerializeError(f"{spec.value.custom_obj_name}: objects of custom classes are not supported")
    inputs = _inputs(reader, names.SAMPLE_INPUTS_FILENAME_FORMAT.format(name))
    try:
        return ExportedProgramDeserializer(expected).deserialize(given, state, others, inputs)
    except RecursionError:
        raise SerializeError(f"{name}: the program is nested too deeply") from None


def load_pt2(f, *, expected_opset_version=None, run_single_threaded=False, num_runners=1, device_index=-1,
             load_weights_from_disk=False):
    """What an archive holds.

    Raises:
        RuntimeError: It is no archive, or what it holds is no program.
        NotImplementedError: It holds compiled programs alone.
    """
    with PT2ArchiveReader(f) as reader:
        if names.ARCHIVE_FORMAT_PATH not in reader.names:
            raise RuntimeError("not an archive of exported programs: it has no archive_format")
        kind = reader.read_string(names.ARCHIVE_FORMAT_PATH)
        if kind != names.ARCHIVE_FORMAT_VALUE:
            raise RuntimeError(f"not an archive of exported programs: its format is {kind!r}")
        programs = {}
        for path in reader.names:
            if path.startswith(names.MODELS_DIR) and path.endswith(".json"):
                name = path[len(names.MODELS_DIR):-len(".json")]
                programs[name] = _program(reader, name, expected_opset_version)
        if not programs and any(path.startswith(names.AOTINDUCTOR_DIR) for path in reader.names):
            raise NotImplementedError(_NO_COMPILED)
        extra = {
            path[len(names.EXTRA_DIR):]: reader.read_string(path)
            for path in reader.names if path.startswith(names.EXTRA_DIR)
        }
    return PT2ArchiveContents(programs, {}, extra)

