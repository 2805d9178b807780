"""Pages of messages: a line `>>> call`, and below it the error that the call raises, as a whole."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from tests.kit.old_pyav import skip_if_lacking


def calls_of(page: Path) -> list[tuple[str, str]]:
    """Return each call of a page with its message, for `pytest.mark.parametrize`."""
    text = page.read_text("utf-8")
    calls = re.findall(r"^>>> (.+)\n(\w+: .+)$", text, re.MULTILINE)
    assert len(calls) == text.count(">>> ") > 0, f"{page} has a call without a message"
    return calls


KINDS = (HeadraceError, AttributeError, IndexError, KeyError, TypeError)
"""Errors of a page: headrace's, and Python's for a wrong name or index."""


def check_message(call: str, message: str, names: Mapping[str, object]) -> Exception:
    """Return the error of a call, which must match the page.

    In a page `...` matches any text, and `<folder>` the path of a folder.
    """
    with pytest.raises(KINDS) as caught:
        eval(call, dict(names))
    skip_if_lacking(caught.value)
    error = f"{type(caught.value).__name__}: {caught.value}"
    pattern = ".*".join(map(re.escape, message.split("..."))).replace("<folder>", r"/[^\s,;()]+")
    assert re.fullmatch(pattern, error), error
    return caught.value
