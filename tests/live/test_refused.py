"""What is no source, or cannot be asked of one, is refused in the words of a page."""

from pathlib import Path

import pytest

from headrace.live import address
from headrace.live import clip_windows as clips
from headrace.live import drop_policy as overload
from headrace.live import source_options as back_off
from headrace.live import source_options as options
from live.reading import Read
from tests.kit.pages import calls_of, check_message

NAMES = {
    name: value
    for module in (address, back_off, clips, options, overload)
    for name, value in vars(module).items()
} | {"Read": Read, "path": Path, "streams": lambda content: file("all.streams", content)}


def file(name, content):
    """Write a file and return its name."""
    Path(name).write_bytes(content)
    return Path(name)


@pytest.mark.parametrize(("call", "said"), calls_of(Path(__file__).with_name("refused.txt")))
def test_what_cannot_be_read_so_is_refused(tmp_path, monkeypatch, call, said):
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").touch()
    error = check_message(call, said, NAMES)
    assert "s3cret" not in f"{error} {error.__context__!r}", "nor behind it, where a log shows it"
