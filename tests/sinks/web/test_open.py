"""The door to what needs an extra."""

import sys

import pytest

from headrace.errors import BackendError
from headrace.sinks.web.open import open_web_view
from sinks.web.faked_run import ANY_PORT, DOOR, status


def test_a_missing_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("headrace.sinks.web.view")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "headrace.runtime.server", None)
    with pytest.raises(BackendError, match=r"pip install 'headrace\[web\]'"):
        open_web_view(ANY_PORT, status, [DOOR])


def test_it_opens_the_port():
    with open_web_view(ANY_PORT, status, [DOOR]) as view:
        assert view.port > 0
