"""How the page of a run is served, as it is typed: its token is in no list of processes."""

from pathlib import Path

import pytest

from headrace.cli.web import TOKEN_VARIABLE, web_options
from headrace.errors import ConfigError

TOKEN = "a-token-of-a-test-0123"


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def options(view="web", *, address="127.0.0.1", hosts=None, file=None, silence="10s"):
    return web_options(view, address, 8686, hosts, file, silence)


def test_metrics_are_the_page_without_the_page():
    assert options("web").with_page
    assert not options("metrics").with_page
    assert options("none") is options("window") is None


def test_hosts_and_silence_arrive():
    found = options("metrics", hosts=["cam.example"], silence="1.5s")
    assert (found.hosts, found.silent_seconds) == (("cam.example",), 1.5)


def test_the_token_is_read_from_a_file_or_from_the_environment(tmp_path, monkeypatch):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert options(file=tmp_path / "token").token == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert options().token == TOKEN
    with pytest.raises(ConfigError, match="leave one of them out"):
        options(file=tmp_path / "token")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the token in token: no such file or directory"),
        (b"", "token holds no token"),
        (b"\xff" * 20, "it holds other characters than ascii"),
        (b"short", "a token needs 16 characters or more, got 5"),
        (b"two words, and more", "a token is made of letters"),
    ],
)
def test_a_file_without_a_token_is_named(tmp_path, monkeypatch, content, words):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("token").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        options(file=Path("token"))


@pytest.mark.parametrize(
    "given",
    [
        {"address": "0.0.0.0"},
        {"hosts": ["cam.example"]},
        {"file": Path("token")},
        {"silence": "20s"},
    ],
)
def test_what_says_nothing_is_refused(given):
    with pytest.raises(ConfigError, match="--view none serves nothing; give --view web or metrics"):
        options("none", **given)


def test_the_command_says_so_in_one_line(call, tmp_path):
    code, _, err = call("run", "0", "--out", tmp_path, "--web-port", "0")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "give --view web or metrics" in err


@pytest.mark.parametrize("view", ["web", "metrics"])
def test_a_token_of_ones_own_is_printed_nowhere(call, tmp_path, monkeypatch, view):
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    code, out, err = call(
        *("run", "test://?size=64x96&seconds=0.1", "--model-name", "squeezenet1_1"),
        *("--weights", "none", "--no-video", "--view", view, "--web-address", "0.0.0.0"),
        *("--web-port", "0", "--out", tmp_path / "out"),
    )
    written = [path.read_bytes().decode(errors="replace") for path in (tmp_path / "out").iterdir()]
    assert code == 0
    assert "with your own token behind ?token=" in out
    assert not [text for text in (out, err, *written) if TOKEN in text]
