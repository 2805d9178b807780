"""Errors of reading, comparing and writing profiles: the calls and messages of a page."""

import json
from pathlib import Path

import numpy as np
import pytest

from headrace.profiling import comparison, session, tensorboard_log, trace
from headrace.profiling.session import Session
from headrace.report import folder, ranks_page
from headrace.sinks import painting
from profiling import loops, sessions, test_comparison
from report import recorded
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (
    *(session, tensorboard_log, trace, comparison, folder, painting, ranks_page, recorded),
    *(loops, sessions, test_comparison),
)


class Full:
    """A log writer on a full disk."""

    def add_scalar(self, tag, value, step):
        raise OSError(28, "No space left on device")

    close = add_scalar


def load(text):
    """Load a session from a file with this text."""
    Path("session.json").write_text(text)
    return Session.load(Path("session.json"))


def text(**changes):
    """Return a saved session with changed fields, as text."""
    return json.dumps({**json.loads(recorded.record(steps=1).model_dump_json()), **changes})


NAMES = {"Full": Full, "load": load, "text": text, "PICTURE": np.zeros((40, 60, 3), np.uint8)}


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_an_invalid_call_has_this_message_of_one_line(tmp_path, monkeypatch, call, message):
    monkeypatch.chdir(tmp_path)
    assert "\n" not in str(check_message(call, message, names_in(*MODULES, **NAMES)))
    assert {path.name for path in tmp_path.iterdir()} <= {"session.json"}
