"""Errors come whole through a pipe to another process."""

import multiprocessing

import pytest

from headrace.errors import (
    ConfigError,
    DecodeError,
    HeadraceError,
    OpenError,
    StageError,
    first_line,
    in_words,
)

ERRORS = [
    ConfigError("too much"),
    OpenError("cannot open a.mp4", source="a.mp4"),
    DecodeError("frame 3 is bad", source="a.mp4", pts=12, missing=[3, 4]),
    StageError("it hangs", stage="decode", item=7),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_on_the_other_side_of_a_pipe(error):
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        theirs.send(error)
        found = ours.recv()
    assert type(found) is type(error)
    assert isinstance(found, HeadraceError)
    assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize(
    ("said", "line", "words"),
    [
        ("no space left\nmore", "no space left", "OSError: no space left"),
        ("\n  late\n", "late", "OSError: late"),
        ("", "OSError", "OSError: no reason given"),
    ],
)
def test_an_error_is_said_in_one_line_also_where_it_says_nothing(said, line, words):
    assert first_line(OSError(said)) == line
    assert in_words(OSError(said)) == words
