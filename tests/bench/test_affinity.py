"""Core binding benchmark: settings, restored cores and threads, and advice."""

import os

import pytest
import torch

from bench.records import FAST, recorded
from headrace.bench import affinity
from headrace.bench.benchmark import Context
from headrace.errors import ConfigError
from headrace.runtime.processor_affinity import available_cores

EVERY = affinity.CoreBinding(way="all cores", cores=None, num_cores=4, threads=None)
SINGLE = affinity.CoreBinding(way="all cores, 1 thread", cores=None, num_cores=4, threads=1)
HALF = affinity.CoreBinding(way="2 cores", cores="0-1", num_cores=2, threads=None)


def record(whole, *bindings, can_bind=True):
    """Return a record from the seconds of a whole run by setting; the model takes half."""
    turns = {
        f"{kind}: {setting.way}": [seconds / part] * 2
        for kind, part in (("model", 2), ("whole", 1))
        for setting, seconds in zip(bindings, whole, strict=True)
    }
    return recorded(
        turns, affinity.AffinityRecord, model="tiny", can_bind=can_bind, settings=bindings
    )


@pytest.mark.parametrize(
    ("cores", "can_bind", "ways"),
    [
        ({5}, True, ["all cores"]),
        ({0, 1}, True, ["all cores", "all cores, 1 thread", "1 core"]),
        ({0, 1}, False, ["all cores", "all cores, 1 thread"]),
        (
            {0, 2, 4, 6},
            True,
            [
                *("all cores", "all cores, 2 threads", "all cores, 1 thread"),
                *("2 cores", "2 cores, 1 thread"),
            ],
        ),
    ],
)
def test_the_default_comes_first_then_fewer_threads_and_cores(cores, can_bind, ways):
    bindings = affinity.core_bindings(frozenset(cores), can_bind=can_bind)
    assert [binding.way for binding in bindings] == ways
    assert (bindings[0].cores, bindings[0].threads) == (None, None)
    assert {binding.num_cores for binding in bindings if binding.cores is None} == {len(cores)}
    if len(cores) == 4:
        assert bindings[-1].cores == "0,2"


def test_model_and_whole_run_are_timed_and_cores_and_threads_restored(measure):
    before = available_cores(), torch.get_num_threads()
    measured = measure(affinity.AFFINITY)
    assert (available_cores(), torch.get_num_threads()) == before
    names = [setting.way for setting in measured.settings]
    wanted = [f"{kind}: {name}" for kind in ("model", "whole") for name in names]
    assert [turn.way for turn in measured.turns] == wanted
    assert all(turn.amount >= 1 for turn in measured.turns)
    [finding] = affinity.AFFINITY.page(measured).findings
    assert finding.headline


@pytest.mark.skipif(len(available_cores()) < 2, reason="one core")
def test_a_repetition_is_bound_only_while_it_runs_even_if_it_fails(videos, store):
    before = available_cores(), torch.get_num_threads()
    one = frozenset({min(before[0])})
    setting = affinity.CoreBinding(way="1 core", cores=str(min(one)), num_cores=1, threads=None)
    config = affinity.AffinityConfig(videos=videos[:1], **FAST)
    seen = []

    def fails_inside(settled):
        with settled:
            seen.append((available_cores(), torch.get_num_threads()))
            raise ZeroDivisionError

    with affinity.prepared(config, Context(store=store), [setting]) as ready:
        for way in ready.variants:
            with pytest.raises(ZeroDivisionError):
                fails_inside(ready.settled(way))
            assert (available_cores(), torch.get_num_threads()) == before
    assert seen == [(one, 1)] * 2


def test_a_system_without_binding_varies_only_threads(measure, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    measured = measure(affinity.AFFINITY)
    assert not measured.can_bind
    assert {setting.cores for setting in measured.settings} == {None}
    [finding] = affinity.AFFINITY.page(measured).findings
    assert any(line.startswith("This system cannot bind") for line in finding.evidence)


def test_findings_on_settings(check_pages):
    one = affinity.CoreBinding(way="all cores", cores=None, num_cores=1, threads=None)
    cases = {
        "one thread is faster": record([1, 0.8], EVERY, SINGLE),
        "half of the cores are faster": record([1, 0.8], EVERY, HALF),
        "nothing is faster": record([1, 1, 2], EVERY, SINGLE, HALF),
        "one core": record([1], one),
    }
    check_pages(affinity.AFFINITY, cases)


def test_an_unknown_model_is_refused(measure):
    with pytest.raises(ConfigError, match="no classification model 'resnet19'"):
        measure(affinity.AFFINITY, model_name="resnet19")
