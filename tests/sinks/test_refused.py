"""What cannot be served or written: refused in the words of a page, and nothing is left."""

from pathlib import Path

import pytest

from headrace.sinks import annotated, coco, result_rows, video_file
from headrace.sinks.web import web_options
from sinks import made
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (annotated, coco, result_rows, video_file, web_options, made)


def a_file(name):
    """Write a file and return its path."""
    Path(name).write_text("a file")
    return Path(name)


@pytest.mark.parametrize(("call", "said"), calls_of(Path(__file__).with_name("refused.txt")))
def test_what_cannot_be_is_said_in_one_line(tmp_path, monkeypatch, call, said):
    monkeypatch.chdir(tmp_path)
    assert "\n" not in str(check_message(call, said, names_in(*MODULES, a_file=a_file)))
    assert {path.name for path in tmp_path.iterdir()} <= {"annotated"}
