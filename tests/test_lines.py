"""The count of lines of code."""

import json

import pytest

from scripts.lines import SMALL_FILE, Count, count, count_folders, main, table

ONE_OF_EACH = '''"""A docstring
of two lines."""

import json  # counted
from os import (
    path,
)


class Point:
    """A point."""

    x: int
    """Where it lies."""

    def twice(self):
        """Return it twice."""
        # why
        return self.x * 2


def text():
    return """a text
    of two lines"""
'''


def test_docstrings_comments_and_blank_lines_are_not_code():
    assert count(ONE_OF_EACH) == Count(
        files=1, small_files=1, code=11, imports=4, functions=2, one_liners=1
    )


@pytest.mark.parametrize(("lines", "small"), [(0, 0), (1, 1), (SMALL_FILE - 1, 1), (SMALL_FILE, 0)])
def test_a_file_is_small_below_the_bound_unless_it_is_empty(lines, small):
    assert count("x = 1\n" * lines).small_files == small


@pytest.fixture
def checkout(tmp_path):
    for name in ("src/headrace/a.py", "src/headrace/video/b.py", "src/headrace/video/in/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def test_counts_are_by_folder_and_each_tree_has_its_total(checkout):
    counts = count_folders(checkout)
    assert {name: value.files for name, value in counts.items()} == {
        "src/headrace/.": 1,
        "src/headrace/video": 2,
    }
    totals = [line for line in table(counts).splitlines() if line.startswith("src/headrace,")]
    assert [line.split()[2:] for line in totals] == [["3", "3", "3", "0", "0", "0"]]


def test_json_has_the_folders_and_the_total(checkout, capsys):
    main(["--json"], checkout)
    counts = json.loads(capsys.readouterr().out)
    assert {name: value["code"] for name, value in counts.items()} == {
        "src/headrace/.": 1,
        "src/headrace/video": 2,
        "all": 3,
    }
