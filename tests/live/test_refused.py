"""What is no source, or cannot be asked of one, is refused in the words of a page."""

from pathlib import Path

import pytest

from headrace.live import address, drop_policy, live_source
from live.reading import Read
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message


def streams(content):
    """Write a list of sources and return its name."""
    Path("all.streams").write_bytes(content)
    return Path("all.streams")


NAMES = names_in(address, drop_policy, live_source, Read=Read, streams=streams)


@pytest.mark.parametrize(("call", "said"), calls_of(Path(__file__).with_name("refused.txt")))
def test_what_cannot_be_read_so_is_refused(tmp_path, monkeypatch, call, said):
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").touch()
    error = check_message(call, said, NAMES)
    assert "s3cret" not in f"{error} {error.__context__!r}", "nor behind it, where a log shows it"
