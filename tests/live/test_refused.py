"""Error messages about live sources: see refused.txt."""

from pathlib import Path

import pytest

from headrace.live import address, drop_policy, live_source
from live.reading import Read
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message


def streams(content):
    """Write a list of sources; return its path."""
    Path("all.streams").write_bytes(content)
    return Path("all.streams")


NAMES = names_in(address, drop_policy, live_source, Read=Read, streams=streams)


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_sources_are_refused(tmp_path, monkeypatch, call, message):
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").touch()
    error = check_message(call, message, NAMES)
    assert "s3cret" not in f"{error} {error.__context__!r}", "also not in its cause, for logs"
