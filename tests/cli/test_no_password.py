"""Commands print and write no part of a password."""

import string

import pytest

from cli.kit import FAST
from test_masking import SECRET, addresses

COMMANDS = [
    *("{0}", "run {0} --no-such-option", "run --view {0} 0", "run 0 --max-staleness {0}"),
    *(
        "run {0} --framerate 3",
        "run {0} --mode retrain --labels x.csv",
        "annotate {0}",
        "index {0}",
    ),
    *("index {0} --json", "clip {0}", "plan {0}", "proxy {0} -o proxies", "profile -- {0}"),
    *("extract frames {0} -o frames --fps 1", "doctor --parity {0}", "doctor --parity {0} --json"),
    *("report {0}", "compare {0} elsewhere", "models {0}", "launch {0}"),
    *("run {0} --framerate 3 --debug", "plan {0} --debug"),
]


def shown(text):
    """Return the characters of passwords in a text."""
    return set(text) & set(SECRET) - set(string.ascii_letters + string.digits)


def secrets(count):
    """Yield addresses whose password has a unique mark between its characters."""
    for address, password in addresses(count):
        yield address.replace(password, "λ".join(["", *password, ""]))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_message_contains_a_part_of_a_password(call, command):
    for address in secrets(10):
        code, out, err = call(*(word.format(address) for word in command.split()))
        assert code
        assert not shown(out + err), (address, out, err)


@pytest.mark.parametrize("line", ["{0}", "rtsp:/x/{0}", "foo://{0}"])
def test_no_message_about_a_list_contains_a_part_of_a_password(call, tmp_path, line):
    for address in secrets(10):
        rest = address.partition("://")[2] if line != "{0}" else address
        (tmp_path / "cams.streams").write_text(line.format(rest.replace("\n", "")) + "\n")
        _, out, err = call("run", "cams.streams", "--dry-run", *FAST)
        assert not shown(out + err), (address, out, err)


def test_no_record_or_page_contains_a_part_of_a_password(call, tmp_path, monkeypatch):
    address = "rtsp://bob:Ä@λ/ЖЖ@127.0.0.1:9/cam"
    arguments = ("run", address, "--wait-for-source", "--max-seconds", "0.2", *FAST)
    monkeypatch.setattr("sys.argv", ["headrace", *arguments])
    _, out, err = call(*arguments, "--out", tmp_path / "out")
    files = ("session.json", "report.html")
    texts = [(tmp_path / "out" / name).read_text("utf-8") for name in files]
    assert all("rtsp://***@127.0.0.1:9/cam" in text for text in (out, *texts))
    for text in (out, err, *texts):
        assert not set(text) & set("ÄλЖ")


def test_the_error_of_an_unreachable_address_explains_password_escapes(call, tmp_path):
    address = "rtsp://bob:p@ss/w@127.0.0.1:9/cam"
    code, _, err = call("run", address, *FAST, "--out", tmp_path / "out")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "cannot open rtsp://***@127.0.0.1:9/cam" in err
    assert "@ as %40, / as %2F" in err


def test_no_message_about_a_launch_file_contains_a_part_of_a_password(call, tmp_path):
    (tmp_path / "l.yaml").write_text("workers:\n  a: {source: x.mp4, view: 'rtsp://b:Ä@λ/Ж@h/c'}\n")
    code, _, err = call("launch", "l.yaml", "--dry-run")
    assert code == 2
    assert "rtsp://***@h/c" in err
    assert not set(err) & set("ÄλЖ")
