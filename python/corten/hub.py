"""Models from a folder or a repository with a ``hubconf.py``, and files from the network."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
import uuid
import warnings
import zipfile
from urllib.parse import urlparse

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder = None


def get_dir():
    """The folder that downloads go to: set by :func:`set_dir`, else ``$TORCH_HOME/hub``."""
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home():
    """The folder of everything that is downloaded: ``$TORCH_HOME``, or ``torch`` among the caches."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d):
    """Sets the folder that downloads go to."""
    global _folder
    _folder = os.path.expanduser(d)


def _parse(github):
    """Owner, name and branch of ``owner/name:branch``."""
    repo, _, ref = github.partition(":")
    owner, _, name = repo.partition("/")
    if not name:
        raise ValueError(f"expected owner/name or owner/name:branch, but got {github}")
    return owner, name, ref


def _downloaded(github, force_reload, verbose, trust_repo, calling):
    owner, name, ref = _parse(github)
    _check_trust(owner, name, trust_repo, calling)
    folder = get_dir()
    os.makedirs(folder, exist_ok=True)
    branch = ref or "main"
    place = os.path.join(folder, "_".join([owner, name, branch.replace("/", "_")]))
    if os.path.exists(place) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {place}\n")
        return place
    shutil.rmtree(place, ignore_errors=True)
    url = f"https://github.com/{owner}/{name}/zipball/{branch}"
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        archive = os.path.join(temporary, "repository.zip")
        download_url_to_file(url, archive, progress=False)
        with zipfile.ZipFile(archive) as file:
            top = file.infolist()[0].filename.partition("/")[0]
            file.extractall(temporary)
        shutil.move(os.path.join(temporary, top), place)
    return place


def _check_trust(owner, name, trust_repo, calling):
    if trust_repo not in (True, False, "check", None):
        raise ValueError(f"invalid trust_repo: {trust_repo}")
    if trust_repo is True:
        return
    listed = os.path.join(get_dir(), "trusted_list")
    known = set()
    if os.path.exists(listed):
        with open(listed) as file:
            known = {line.strip() for line in file}
    if f"{owner}_{name}" in known:
        return
    if trust_repo is None:
        warnings.warn(
            f"You are about to download and run code from an untrusted repository ({owner}/{name}). "
            "In a future release, this won't be allowed. To add the repository to your trusted list, "
            f"change the command to {calling}(..., trust_repo=False) and a command prompt will "
            f"appear asking for an explicit confirmation of trust, or {calling}(..., "
            "trust_repo=True), which will assume that the prompt is to be answered with 'yes'.",
            stacklevel=4,
        )
        return
    answer = input(f"The repository {owner}_{name} does not belong to the list of trusted "
                   "repositories. Do you trust it and wish to add it to the list (y/N)? ")
    if answer.lower() not in ("y", "yes"):
        raise Exception("Untrusted repository.")
    os.makedirs(get_dir(), exist_ok=True)
    with open(listed, "a") as file:
        file.write(f"{owner}_{name}\n")


def _configuration(repo, source, force_reload, verbose, trust_repo, calling):
    """The module ``hubconf`` of a folder or repository."""
    import importlib.util

    if source not in ("github", "local"):
        raise ValueError(
            f'Unknown source: "{source}". Allowed values: "github" | "local".'
        )
    folder = repo
    if source == "github":
        folder = _downloaded(repo, force_reload, verbose, trust_repo, calling)
    sys.path.insert(0, folder)
    try:
        path = os.path.join(folder, "hubconf.py")
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name for name in getattr(module, "dependencies", ())
        if importlib.util.find_spec(name) is None and name != "torch"
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module, model):
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, model, None)
    if function is None or not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True):
    """The names of the entry points of a repository on GitHub."""
    module = _configuration(github, "github", force_reload, verbose, trust_repo, "list")
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None):
    """The documentation of an entry point."""
    module = _configuration(github, "github", force_reload, True, trust_repo, "help")
    return _entry(module, model).__doc__


def load(
    repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True,
    skip_validation=False, **kwargs,
):
    """What an entry point of a folder (``source="local"``) or repository returns."""
    module = _configuration(repo_or_dir, source, force_reload, verbose, trust_repo, "load")
    return _entry(module, model)(*args, **kwargs)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads to a file, which appears when it is complete.

    Raises:
        RuntimeError: The digest does not begin with ``hash_prefix``.
    """
    from urllib.request import Request, urlopen

    destination = os.path.expanduser(dst)
    partial = f"{destination}.{uuid.uuid4().hex}.partial"
    digest = hashlib.sha256()
    try:
        with urlopen(Request(url, headers={"User-Agent": "corten.hub"})) as source, open(
            partial, "xb"
        ) as file:
            while chunk := source.read(1 << 17):
                file.write(chunk)
                digest.update(chunk)
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")'
            )
        shutil.move(partial, destination)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
    weights_only=False,
):
    """Loads a file from the network, or from ``model_dir`` if it is there already."""
    import corten

    if model_dir is None:
        model_dir = os.path.join(get_dir(), "checkpoints")
    try:
        os.makedirs(model_dir)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
    return corten.load(path, map_location=map_location, weights_only=weights_only)


class _Progress:
    """Shows how much of a download has come, where the package ``tqdm`` is not installed."""

    def __init__(self, iterable=None, total=None, *, disable=False, unit=None, **settings):
        self.iterable, self.total, self.disable, self.n = iterable, total, disable, 0

    def __iter__(self):
        for value in self.iterable:
            yield value
            self.update(1)
        self.close()

    def update(self, n):
        """Shows that ``n`` more came."""
        self.n += n
        if not self.disable:
            share = f"{self.n} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
            sys.stderr.write(f"\r{share}")
            sys.stderr.flush()

    def set_description(self, *args, **kwargs):
        """Descriptions are not shown."""

    def close(self):
        """Ends the line."""
        if not self.disable:
            sys.stderr.write("\n")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()


def __getattr__(name):
    if name == "tqdm":
        try:
            from tqdm.auto import tqdm as found
        except ImportError:
            found = _Progress
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
