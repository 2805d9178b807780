"""Errors can be sent to another process, and messages of libraries fit in one line."""

import multiprocessing

import pytest

from headrace import ConfigError, DecodeError, HeadraceError, OpenError, StageError
from headrace.errors import (
    CacheError,
    file_errors,
    first_line,
    in_one_line,
    in_words,
    last_words,
)

ERRORS = [
    ConfigError("too much"),
    OpenError("cannot open a.mp4", source="a.mp4"),
    DecodeError("frame 3 is bad", source="a.mp4", pts=12, missing=[3, 4]),
    StageError("it hangs", stage="decode", item=7),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_received_from_a_pipe_equals_the_sent_one(error):
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        theirs.send(error)
        found = ours.recv()
    assert type(found) is type(error)
    assert isinstance(found, HeadraceError)
    assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))


KEYS = """Error(s) in loading state_dict for Linear:
\tMissing key(s) in state_dict: "weight", "bias".
\tUnexpected key(s) in state_dict: "fc.weight".

\tmore of it"""
TRACED = """Caught DecodeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "worker.py", line 9, in run
    data = load(
           ^^^^^
headrace.errors.DecodeError: frame 3 of a.mp4
cannot be decoded
"""
SCRIPT = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript, original code (most recent call last):
  File "net.py", line 5, in forward
    return torch.matmul(x, y)
           ~~~~~~~~~~~~ <--- HERE

RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "a".
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("", ""),
        ("CUDA error: out of memory\nCUDA kernel errors might", "CUDA error: out of memory"),
        (
            KEYS,
            "Error(s) in loading state_dict for Linear: Missing key(s) in state_dict: "
            '"weight", "bias". Unexpected key(s) in state_dict: "fc.weight".',
        ),
        ("It failed:", "It failed:"),
        ("It failed:\n" + "word " * 99, "It failed: " + "word " * 38 + "word [...]"),
        (TRACED, "headrace.errors.DecodeError: frame 3 of a.mp4"),
        (
            SCRIPT,
            "RuntimeError: Error(s) in loading state_dict for Net: "
            'Missing key(s) in state_dict: "a".',
        ),
        ("Traceback (most recent call last):\n", ""),
    ],
)
def test_the_message_of_a_library_is_reduced_to_one_line(said, line):
    assert in_one_line(said) == line


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("started\nno space left\n", "no space left"),
        ("", ""),
        ("started\n" + TRACED, "headrace.errors.DecodeError: frame 3 of a.mp4"),
    ],
)
def test_the_output_of_a_program_ends_with_its_error(output, words):
    assert last_words(output) == words


@pytest.mark.parametrize(
    ("said", "line", "words"),
    [
        ("no space left\nmore", "no space left", "OSError: no space left"),
        ("\n  late\n", "late", "OSError: late"),
        ("", "OSError", "OSError: no reason given"),
    ],
)
def test_an_error_without_a_message_has_one_line_too(said, line, words):
    assert first_line(OSError(said)) == line
    assert in_words(OSError(said)) == words


def test_an_error_of_the_file_system_gets_our_type_and_a_remedy(tmp_path):
    path = tmp_path / "gone.json"
    with pytest.raises(ConfigError) as caught, file_errors(f"cannot read {path}", "give a file"):
        path.read_bytes()
    assert str(caught.value) == f"cannot read {path}: no such file or directory; give a file"
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    said = "cannot use it: disk on fire; give a folder that can be"
    with pytest.raises(CacheError, match=said), file_errors("cannot use it", kind=CacheError):
        raise OSError("Disk on fire")
