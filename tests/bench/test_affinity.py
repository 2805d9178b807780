"""Cores and threads by turns: what is tried, that all is given back, and what is advised."""

import os

import pytest
import torch

from bench.contests import FAST, recorded
from headrace.bench.affinity import AffinityConfig, AffinityRecord, measure_affinity
from headrace.bench.affinity_report import AFFINITY
from headrace.bench.affinity_settings import Setting, settings
from headrace.bench.affinity_variants import Paths
from headrace.bench.benchmark import Context
from headrace.bench.model_variants import hold_frames
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.runs.options import ComputeOptions
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip, write_clip

EVERY = Setting(way="all cores", cores=None, num_cores=4, threads=None)
SINGLE = Setting(way="all cores, 1 thread", cores=None, num_cores=4, threads=1)
HALF = Setting(way="2 cores", cores="0-1", num_cores=2, threads=None)


@pytest.fixture
def video(tmp_path):
    return str(write_clip(tmp_path / "a", SynthClip(num_frames=9)))


def record(whole, *tried, can_bind=True):
    """Return a record of settings by the seconds of a whole run; the model alone takes half."""
    turns = {
        f"{kind}: {setting.way}": [seconds / part] * 2
        for kind, part in (("model", 2), ("whole", 1))
        for setting, seconds in zip(tried, whole, strict=True)
    }
    return recorded(turns, AffinityRecord, model="tiny", can_bind=can_bind, settings=tried)


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
def test_what_a_run_takes_by_itself_comes_first_then_fewer_threads_and_cores(cores, can_bind, ways):
    tried = settings(frozenset(cores), can_bind=can_bind)
    assert [each.way for each in tried] == ways
    assert (tried[0].cores, tried[0].threads) == (None, None)
    assert {each.num_cores for each in tried if each.cores is None} == {len(cores)}
    if len(cores) == 4:
        assert tried[-1].cores == "0,2"


def test_model_and_whole_run_are_timed_and_cores_and_threads_given_back(video, tmp_path):
    before = available_cores(), torch.get_num_threads()
    config = AffinityConfig(videos=(video,), **FAST)
    found = measure_affinity(config, Context(store=IndexStore(tmp_path / "index")))
    assert (available_cores(), torch.get_num_threads()) == before
    names = [setting.way for setting in found.settings]
    wanted = [f"{kind}: {name}" for kind in ("model", "whole") for name in names]
    assert [turn.way for turn in found.turns] == wanted
    assert all(turn.amount >= 1 for turn in found.turns)
    assert AffinityRecord.model_validate_json(found.model_dump_json()) == found
    [finding] = AFFINITY.page(found).findings
    assert finding.headline


@pytest.mark.skipif(len(available_cores()) < 2, reason="one core")
def test_a_turn_is_bound_while_it_lasts_and_no_longer_also_where_it_fails(video, tmp_path):
    before = available_cores(), torch.get_num_threads()
    one = frozenset({min(before[0])})
    compute = ComputeOptions(model_name="squeezenet1_1", weights="none", batch_size=2)
    held = hold_frames(video, 2, IndexStore(tmp_path / "index"))
    setting = Setting(way="1 core", cores=str(min(one)), num_cores=1, threads=None)
    paths = Paths(compute, held, [setting], seconds=0.01, clock=SYSTEM_CLOCK)
    seen = []

    def fails_inside(way):
        with paths.settled(way):
            seen.append((available_cores(), torch.get_num_threads()))
            raise ZeroDivisionError

    for way in paths.ways():
        with pytest.raises(ZeroDivisionError):
            fails_inside(way)
        assert (available_cores(), torch.get_num_threads()) == before
    assert seen == [(one, 1)] * 2


def test_where_a_system_cannot_bind_threads_alone_are_tried(video, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    config = AffinityConfig(videos=(video,), **FAST)
    found = measure_affinity(config, Context(store=IndexStore(tmp_path / "index")))
    assert not found.can_bind
    assert {setting.cores for setting in found.settings} == {None}
    [finding] = AFFINITY.page(found).findings
    assert any(line.startswith("This system cannot bind") for line in finding.evidence)


@pytest.mark.parametrize(
    ("setting", "words", "options"),
    [
        (SINGLE, "--threads 1 of headrace run", {"threads": 1}),
        (HALF, "--core-bind 0-1 of headrace run", {"core_bind": "0-1"}),
    ],
)
def test_a_quicker_setting_is_advised_with_the_options_of_a_run(setting, words, options):
    [finding] = AFFINITY.page(record([1, 0.8], EVERY, setting)).findings
    assert finding.headline == f"A run goes fastest with {setting.way}: 125 frames/s"
    assert finding.change == f"{words}: 1.25 times the 100 frames/s without."
    assert (finding.advice.words, finding.advice.options) == (words, options)
    assert finding.advice.gain == pytest.approx(1.25)
    assert finding.evidence == (
        f"The model alone is fastest with {setting.way}: 250 frames/s, 1.25 times as fast as with "
        "all cores; in a run decoding and preprocessing want cores as well.",
    )


def test_what_a_run_takes_by_itself_is_kept_where_nothing_is_quicker():
    [finding] = AFFINITY.page(record([1, 1, 2], EVERY, SINGLE, HALF)).findings
    assert finding.headline == (
        "No cores or threads are faster than those a run takes by itself: 100 frames/s"
    )
    assert finding.advice.gain == 1


def test_one_core_leaves_nothing_to_choose():
    one = Setting(way="all cores", cores=None, num_cores=1, threads=None)
    [finding] = AFFINITY.page(record([1], one)).findings
    assert finding.headline == "One core, so there is nothing to choose: 100 frames/s"
    assert (finding.change, finding.advice) == (None, None)


def test_a_model_that_is_none_is_refused(video):
    with pytest.raises(ConfigError, match="no classification model 'resnet19'"):
        measure_affinity(
            AffinityConfig(videos=(video,), **{**FAST, "model_name": "resnet19"}), Context()
        )
