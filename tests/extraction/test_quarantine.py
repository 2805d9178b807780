"""What ended its workers is left out by later runs, until there is a reason to try again."""

import pytest

from headrace.extraction.quarantine import Quarantine

WHY = "working on it crashed"


@pytest.fixture
def quarantine(tmp_path):
    found = Quarantine(tmp_path / "quarantine.json", "av 1")
    found.add("a", WHY)
    found.add("b", "memory ran out")
    return found


def test_it_stands_for_the_same_decoder(quarantine):
    assert quarantine.standing(retry=False) == {
        "a": f"{WHY}; --retry tries it again",
        "b": "memory ran out; --retry tries it again",
    }


def test_another_decoder_tries_again(quarantine):
    other = Quarantine(quarantine.path, "av 2")
    assert other.standing(retry=False) == {}
    other.add("b", "memory ran out")
    assert list(other.standing(retry=False)) == ["b"]


def test_what_is_tried_again_is_forgotten(quarantine):
    assert quarantine.standing(retry=True) == {}
    assert quarantine.standing(retry=False) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 3}', '{"a": {"reason": "x"}}'])
def test_a_file_that_cannot_be_read_leaves_nothing_out(quarantine, text):
    quarantine.path.write_text(text)
    assert quarantine.standing(retry=False) == {}
