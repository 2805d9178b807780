"""A profiled loop gets the batches of its loader; its profile has the times of each step."""

import gc
import sys
from collections import namedtuple

import pytest
import torch
from torch.utils.data import DataLoader

import headrace
from forked import raised_by_a_worker
from headrace import ConfigError, Session
from instrumentation.loaders import Broken, Numbers, Stream, marked

Pair = namedtuple("Pair", "pictures numbers")
LIVING = {"num_workers": 1, "persistent_workers": True}
STAGES = ["fetch", "collate", "step"]


def as_pair(samples):
    pictures, numbers = zip(*samples, strict=True)
    return Pair(torch.stack(pictures), list(numbers))


def batches(loader, epochs: int = 2):
    """Return the batches of some epochs, all from one seed."""
    torch.manual_seed(7)
    return [batch for _ in range(epochs) for batch in loader]


def run_profiled(loader, epochs: int = 1):
    """Return the profile of a loop and its batches."""
    with headrace.profile_loader(loader, on_verdict=None) as profile:
        profiled = batches(profile, epochs)
    return profile, profiled


def is_same(a, b) -> bool:
    if isinstance(a, list | tuple):
        return type(a) is type(b) and all(map(is_same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b)


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0},
        {"num_workers": 2},
        {**LIVING, "multiprocessing_context": "spawn", "worker_init_fn": marked},
        {"num_workers": 2, "persistent_workers": True},
        {"num_workers": 0, "batch_size": None},
        {"num_workers": 1, "collate_fn": as_pair},
        {"num_workers": 0, "collate_fn": as_pair},
    ],
    ids=["here", "2 workers", "spawned", "persistent", "unbatched", "1 collates", "collates"],
)
def test_batches_have_the_order_types_and_draws_of_the_plain_loader(options) -> None:
    """The plain loader forks its workers: a spawned worker draws the same random numbers."""
    options = {"batch_size": 4, "shuffle": True, **options}
    profiled = run_profiled(DataLoader(Numbers(), **options), epochs=2)[1]
    options.pop("multiprocessing_context", None)
    plain = batches(DataLoader(Numbers(), **options))
    assert len(plain) == len(profiled) > 0
    assert all(map(is_same, plain, profiled))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterable_dataset_is_split_among_workers_as_without_a_profile(workers: int) -> None:
    loader = DataLoader(Stream(), batch_size=4, num_workers=workers)
    plain, (profile, profiled) = list(loader), run_profiled(loader)
    assert all(map(is_same, plain, profiled))
    assert len(profile.session.steps) == len(plain) == len(profiled)


@pytest.mark.parametrize("workers", [0, 1])
def test_workers_report_the_cost_of_each_batch(workers: int) -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers)
    session = run_profiled(loader, epochs=2)[0].session
    assert session.kind == "loader"
    assert [stage.name for stage in session.stages] == STAGES
    assert {*session.steps.work_ms} == {*STAGES}
    assert session.steps.frames == (4,) * 24
    assert session.loader.epochs == 2
    assert session.loader.first_steps == (0, 12)
    assert session.loader.batch_bytes == 4 * (3 * 4 * 4 * 4 + 8)
    assert session.loader.has_float32
    assert bool(session.queues) == bool(workers)
    if sys.platform == "linux":
        assert {*session.steps.core_wait_ms} == {*STAGES, "wait"}


def test_a_generator_has_waits_and_steps_only() -> None:
    profile, profiled = run_profiled(torch.zeros(5, 2) for _ in range(12))
    assert sum(map(len, profiled)) == 60
    assert [stage.name for stage in profile.session.stages] == ["step"]
    assert profile.session.steps.frames == (5,) * 12


def test_the_loader_is_unchanged_after_the_block() -> None:
    loader = DataLoader(Numbers(), batch_size=4, worker_init_fn=marked, num_workers=1)
    before = dict(vars(loader))
    with headrace.profile_loader(loader, on_verdict=None) as profile:
        next(iter(profile))
        gc.collect()
    assert vars(loader) == before
    assert len(list(loader)) == 12


@pytest.mark.parametrize("was_profiled", [False, True])
def test_persistent_workers_return_plain_batches_after_the_block(
    was_profiled: bool,
) -> None:
    loader = DataLoader(Numbers(), batch_size=4, **LIVING)
    numbers = [run_profiled(loader)[1] if was_profiled else list(loader), list(loader)]
    profile, profiled = run_profiled(loader)
    expected = [[*range(first, first + 4)] for first in range(0, 48, 4)]
    for batches in (*numbers, profiled):
        assert [batch[1].tolist() for batch in batches] == expected
    assert [stage.name for stage in profile.session.stages] == ["step"]
    assert len(profile.session.steps) == 12
    if not was_profiled:
        assert "workers were started before the profile" in profile.verdict.replace("\n    ", " ")


class Doubling(DataLoader[torch.Tensor]):
    """A DataLoader that changes its batches."""

    def __iter__(self):
        for pictures, numbers in super().__iter__():
            yield 2 * pictures, numbers


def test_a_subclass_may_change_its_batches() -> None:
    profile, profiled = run_profiled(Doubling(Numbers(), batch_size=4))
    assert profiled[0][1].tolist() == [0, 1, 2, 3]
    assert [stage.name for stage in profile.session.stages] == STAGES
    assert len(profile.session.steps) == 12


def test_workers_end_when_their_loop_is_left() -> None:
    """A check around every test finds remaining workers."""
    loader = DataLoader(Numbers(), batch_size=4, num_workers=1)
    with headrace.profile_loader(loader, on_verdict=None) as profile:
        for _ in profile:
            break
    assert len(profile.session.steps) == 0
    assert profile.verdict.endswith("Try next: Let it run for more steps.")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_dataset_is_raised_unchanged_and_recorded(workers: int) -> None:
    loader = DataLoader(Broken(), batch_size=4, num_workers=workers)
    profile = headrace.profile_loader(loader, on_verdict=None)
    with raised_by_a_worker(ValueError, "item 20 is broken"), profile:
        list(profile)
    assert profile.session.outcome == "failed"
    assert str(profile.session.error).startswith("ValueError: ")
    assert len(profile.session.steps) == 5


ENDS = [(SystemExit(), "complete"), (SystemExit(3), "failed"), (KeyboardInterrupt(), "interrupted")]


@pytest.mark.parametrize(("error", "outcome"), ENDS)
def test_the_end_of_a_script_in_the_block_is_its_outcome(error, outcome) -> None:
    profile = headrace.profile_loader([1], on_verdict=None)
    with pytest.raises(type(error)), profile:
        raise error
    assert profile.session.outcome == outcome


def test_the_verdict_is_reported_once_and_the_report_is_a_run_folder(tmp_path) -> None:
    verdicts: list[str] = []
    loader = DataLoader(Numbers(), batch_size=4)
    out = tmp_path / "report"
    with headrace.profile_loader(loader, out=out, on_verdict=verdicts.append) as profile:
        assert len(profile) == 12
        list(profile)
    assert verdicts == [profile.verdict]
    assert verdicts[0].startswith("headrace: ")
    assert "\n  DataLoader of Numbers: 12 steps in " in verdicts[0]
    assert max(map(len, verdicts[0].splitlines())) <= 80
    names = {path.name for path in out.iterdir()}
    assert {"session.json", "report.html"} < names
    assert any(name.startswith("M_loader_P_") for name in names)
    assert Session.load(out / "session.json") == profile.session
    assert "DataLoader of Numbers" in (out / "report.html").read_text("utf-8")


def test_the_verdict_goes_to_stderr_by_default(capsys) -> None:
    with headrace.profile_loader([1, 2, 3]) as profile:
        list(profile)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == profile.verdict + "\n"


def test_invalid_use_is_an_error_with_the_fix(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot profile a int: it cannot be iterated"):
        headrace.profile_loader(3)
    profile = headrace.profile_loader([1])
    with pytest.raises(ConfigError, match="is profiled inside a block"):
        iter(profile)
    with pytest.raises(ConfigError, match="is available after its `with` block"):
        _ = profile.session
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write to the output folder"):
        headrace.profile_loader([1], out=tmp_path / "file").__enter__()
