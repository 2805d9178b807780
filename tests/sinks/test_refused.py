"""Error messages of sinks and of the web page, as listed in refused.txt."""

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


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_an_error_has_one_line_and_leaves_no_file(tmp_path, monkeypatch, call, message):
    monkeypatch.chdir(tmp_path)
    assert "\n" not in str(check_message(call, message, names_in(*MODULES, a_file=a_file)))
    assert {path.name for path in tmp_path.iterdir()} <= {"annotated"}
