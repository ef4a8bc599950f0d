"""Writes the exception of a process for its parent."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import time
import traceback

__all__ = ["ErrorHandler"]

logger = logging.getLogger(__name__)


class ErrorHandler:
    """Writes exceptions to the file that ``TORCHELASTIC_ERROR_FILE`` names, if it does."""

    _fn_name = None

    def _get_error_file_path(self):
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def set_entrypoint_fn_name(self, fn_name):
        """Says which function runs."""
        self._fn_name = fn_name

    def initialize(self):
        """Runs before the function."""
        # Where standard error is no file, tracebacks of faults cannot be written.
        with contextlib.suppress(Exception):
            faulthandler.enable(all_threads=True)

    def record_exception(self, e):
        """Writes an exception."""
        message = {
            "message": f"{type(e).__name__}: {e}",
            "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))},
        }
        self._write({"message": message})

    def record_success(self):
        """Runs after a function that raised nothing."""

    def dump_error_file(self, rootcause_error_file, error_code=0):
        """Writes what a child left as this process's own error."""
        with open(rootcause_error_file) as file:
            data = json.load(file)
        if error_code and isinstance(data.get("message"), dict):
            data["message"]["errorCode"] = error_code
        self._write(data)

    def _write(self, data):
        path = self._get_error_file_path()
        if not path:
            return
        try:
            with open(path, "w") as file:
                json.dump(data, file)
        except OSError as error:
            logger.warning("Unable to write the error to %s: %s", path, error)
