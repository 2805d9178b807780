"""Pages of messages: a line `>>> call`, and below it the error that the call raises, as a whole."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from tests.kit.old_pyav import skip_if_lacking


def calls_of(page: Path) -> list[tuple[str, str]]:
    """Return each call of a page and what it says, for `pytest.mark.parametrize`."""
    text = page.read_text("utf-8")
    found = re.findall(r"^>>> (.+)\n(\w+: .+)$", text, re.MULTILINE)
    assert len(found) == text.count(">>> ") > 0, f"{page} has a call without a message"
    return found


KINDS = (HeadraceError, AttributeError, IndexError, KeyError, TypeError)
"""Errors of a page: those of headrace, and those of Python that a wrong name or place raises."""


def check_message(call: str, said: str, names: Mapping[str, object]) -> Exception:
    """Return the error of a call: that of the page.

    In a page `...` stands for any text, and `<folder>` for the path of one.
    """
    with pytest.raises(KINDS) as caught:
        eval(call, dict(names))
    skip_if_lacking(caught.value)
    found = f"{type(caught.value).__name__}: {caught.value}"
    pattern = ".*".join(map(re.escape, said.split("..."))).replace("<folder>", r"/[^\s,;()]+")
    assert re.fullmatch(pattern, found), found
    return caught.value
