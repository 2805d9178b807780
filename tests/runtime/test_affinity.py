import os

import pytest

from headrace.errors import BackendError, ConfigError
from headrace.runtime.affinity import available_cores, bind, bound, cores_text, parse_cores
from runtime.in_time import run_script


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,6", {0, 1, 2, 3, 6}),
        (" 6 , 0-1 ", {0, 1, 6}),
        ("2-2,2", {2}),
    ],
)
def test_reads_a_list_of_cores(text, cores):
    assert parse_cores(text) == cores


def test_all_means_the_cores_this_process_has():
    assert parse_cores("all") == available_cores() == os.sched_getaffinity(0)


@pytest.mark.parametrize("text", ["", ",", "0,", "a", "-1", "0-", "0-1-2", "1.5", "²", "All"])
def test_refuses_what_names_no_cores(text):
    with pytest.raises(ConfigError, match='must read like "0-3,6" or "all"'):
        parse_cores(text)


def test_refuses_a_range_that_runs_backwards():
    with pytest.raises(ConfigError, match=r"runs upwards, got '3-1' in '0,3-1'"):
        parse_cores("0,3-1")


@pytest.mark.parametrize("cores", [frozenset(), frozenset({99_999})])
def test_refuses_cores_that_this_process_does_not_have(cores):
    before = available_cores()
    with pytest.raises(ConfigError, match=r"cores (none|99999) were asked for; this process may"):
        bind(cores)
    assert available_cores() == before


def test_binds_threads_that_run_already_and_those_to_come():
    script = """
import os, threading
from headrace.runtime.affinity import available_cores, bind
core = min(available_cores())
bound, seen = threading.Event(), []
def look():
    bound.wait(20)
    seen.append(os.sched_getaffinity(0))
early = threading.Thread(target=look)
early.start()
bind(frozenset({core}))
bound.set()
late = threading.Thread(target=look)
late.start()
early.join(), late.join()
print([available_cores(), *seen] == [{core}] * 3)
"""
    done = run_script(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.fixture
def system_without_binding(monkeypatch):
    """As macOS is."""
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.delattr(os, "sched_getaffinity")


@pytest.mark.usefixtures("system_without_binding")
def test_without_binding_all_cores_are_available():
    assert available_cores() == parse_cores("all") == set(range(os.cpu_count()))


@pytest.mark.usefixtures("system_without_binding")
def test_without_binding_says_so_where_it_is_asked_for():
    with pytest.raises(BackendError, match=r"cores 0 were asked for, but this system cannot"):
        bind(frozenset({0}))


@pytest.mark.parametrize("text", ["0", "0-3", "0-1,4,6-8", "3,5"])
def test_cores_are_written_as_they_are_read(text):
    assert cores_text(parse_cores(text)) == text


def test_a_block_is_bound_and_what_comes_after_it_is_not():
    before = available_cores()
    one = frozenset({min(before)})
    with bound(one):
        assert available_cores() == one
    assert available_cores() == before
    with bound(None):
        assert available_cores() == before


def test_cores_are_given_back_after_an_error():
    before = available_cores()
    with pytest.raises(ZeroDivisionError), bound(frozenset({min(before)})):
        raise ZeroDivisionError
    assert available_cores() == before
