"""Those who meet begin at one moment, and know when there is nobody to wait for."""

import os
import subprocess
import sys

import pytest

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.rendezvous import Participant, Rendezvous
from runtime.in_time import Call

COMER = """
import sys
from headrace.runtime.rendezvous import Participant
comer = Participant(sys.argv[1])
comer.tell("there")
comer.tell(comer.wait())
"""


def heard(place, number):
    """What is told, until so many words are."""
    found = []
    while len(found) < number:
        found += place.hear()
    return found


def test_processes_that_are_ready_begin_at_one_moment(tmp_path):
    place = Rendezvous(tmp_path)
    comers = [subprocess.Popen([sys.executable, "-c", COMER, place.address(name)]) for name in "ab"]
    assert sorted(heard(place, 2)) == [("a", "there"), ("b", "there")]
    assert place.hear() == []
    moment_ns = place.open()
    began = dict(heard(place, 2))
    assert set(began) == {"a", "b"}
    assert min(began.values()) >= moment_ns
    assert [comer.wait() for comer in comers] == [0, 0]


def test_a_word_that_is_not_told_to_its_end_is_heard_later(tmp_path):
    place = Rendezvous(tmp_path)
    comer = Participant(place.address("a.b"))
    comer.tell({"frames": 3})
    with (tmp_path / "a.b.jsonl").open("a") as file:
        file.write('{"fra')
    assert place.hear() == [("a.b", {"frames": 3})]
    with (tmp_path / "a.b.jsonl").open("a") as file:
        file.write('mes": 4}\n')
    assert place.hear() == [("a.b", {"frames": 4})]


def test_who_comes_late_goes_on_at_once(tmp_path):
    place = Rendezvous(tmp_path)
    place.open()
    comer = Participant(place.address("a"))
    assert Call(comer.wait).result() <= SYSTEM_CLOCK.now_ns()


def test_nobody_waits_for_one_who_is_gone(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    address = Rendezvous(tmp_path).address("a").replace(str(os.getpid()), str(gone.pid))
    with pytest.raises(ConfigError, match="ended before its workers began"):
        Call(Participant(address).wait).result()


def test_a_place_that_is_gone_is_an_error_in_one_line(tmp_path):
    comer = Participant(Rendezvous(tmp_path / "gone").address("a"))
    with pytest.raises(ConfigError, match="cannot tell the launch"):
        comer.tell("there")
