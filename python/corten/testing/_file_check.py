"""Checks of text, in order."""

from __future__ import annotations

__all__ = ["FileCheck"]


class FileCheck:
    """Conditions on a text, each from where the one before ended: ``FileCheck().check("a").run(text)``.

    :meth:`run` raises a ``RuntimeError`` for the first condition that fails.
    """

    def __init__(self):
        self._conditions = []

    def _add(self, kind, text, count=None, exactly=False):
        self._conditions.append((kind, text, count, exactly))
        return self

    def check(self, text):
        """The text comes next, somewhere."""
        return self._add("check", text)

    def check_next(self, text):
        """The text comes in the next line."""
        return self._add("next", text)

    def check_same(self, text):
        """The text comes in the same line."""
        return self._add("same", text)

    def check_not(self, text):
        """The text does not come before the next condition's."""
        return self._add("not", text)

    def check_count(self, text, count, exactly=False):
        """The text comes so many times, and with ``exactly`` not once more."""
        return self._add("count", text, count, exactly)

    def run(self, text):
        """Checks the conditions.

        Raises:
            RuntimeError: One fails.
        """
        at, forbidden = 0, []
        for kind, wanted, count, exactly in self._conditions:
            if kind == "not":
                forbidden.append(wanted)
                continue
            start = at
            for _ in range(count or 1):
                found = text.find(wanted, at)
                between = text[at:found] if found >= 0 else ""
                wrong = kind == "next" and between.count("\n") != 1
                wrong = wrong or kind == "same" and "\n" in between
                if found < 0 or wrong:
                    raise RuntimeError(f'Expected to find "{wanted}" but did not find it\n{text}')
                at = found + len(wanted)
            self._absent(forbidden, text, start, at - len(wanted))
            forbidden = []
            if exactly and text.find(wanted, at) >= 0:
                raise RuntimeError(f'Expected to not find "{wanted}" but found it\n{text}')
        self._absent(forbidden, text, at, len(text))

    @staticmethod
    def _absent(forbidden, text, start, end):
        for unwanted in forbidden:
            if unwanted in text[start:end]:
                raise RuntimeError(f'Expected to not find "{unwanted}" but found it\n{text}')
