"""Calls of PyTorch divide a step into parts; each moment belongs to one part."""

import gc
import logging
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import pytest
import torch
from torch.utils.data import DataLoader

import headrace
from headrace.instrumentation import loop_sampler, step_parts
from headrace.instrumentation.loop_sampler import OBSERVED
from headrace.instrumentation.step_parts import BACKWARD, FORWARD, NO_GRADIENTS, OPTIMIZER, REST
from headrace.testing.fake_clock import FakeClock
from instrumentation.test_loop_recorder import Stream

FEW = 4
"""Batches of a loop."""


@dataclass
class Timed:
    """Parts on a clock that only `works` advances."""

    clock: FakeClock = field(default_factory=FakeClock)
    cpu_ns: int = 0

    def __post_init__(self) -> None:
        self.parts = step_parts.StepParts(self.clock, lambda: self.cpu_ns, lambda: None)

    def works(self, ms: int, *, sleeps: bool = False) -> None:
        self.clock.advance(ms / 1e3)
        self.cpu_ns += ms * 1_000_000 * (not sleeps)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        is_entered = self.parts.enter(name)
        yield
        if is_entered:
            self.parts.leave(name)

    @contextmanager
    def step(self) -> Iterator[dict[str, tuple[float, float]]]:
        """Yield a dict; at the end it has part → (wall-clock, CPU) milliseconds."""
        found: dict[str, tuple[float, float]] = {}
        span = self.parts.begin()
        yield found
        times = self.parts.end(span).times
        found |= {name: (wall / 1e6, cpu / 1e6) for name, (wall, cpu) in times.items() if wall}


def nested(*names: str) -> Callable[[Timed], None]:
    """Return a step with nested parts; each works 1 ms before and 1 ms after the inner part."""

    def run(timed: Timed, left: tuple[str, ...] = names) -> None:
        if left:
            with timed.part(left[0]):
                timed.works(1)
                run(timed, left[1:])
                timed.works(1)

    return run


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((FORWARD,), {FORWARD: 2}),
        ((FORWARD, FORWARD), {FORWARD: 4}),
        ((BACKWARD, FORWARD), {BACKWARD: 4}),
        ((OPTIMIZER, FORWARD), {OPTIMIZER: 2, FORWARD: 2}),
        ((OPTIMIZER, OPTIMIZER), {OPTIMIZER: 4}),
        ((OPTIMIZER, REST, BACKWARD), {OPTIMIZER: 2, REST: 2, BACKWARD: 2}),
        (
            (OPTIMIZER, BACKWARD, step_parts.COLLECTIVE),
            {OPTIMIZER: 2, BACKWARD: 2, step_parts.COLLECTIVE: 2},
        ),
        ((NO_GRADIENTS, step_parts.COLLECTIVE), {NO_GRADIENTS: 4}),
        ((step_parts.CHECKPOINT, step_parts.LOGGING), {step_parts.CHECKPOINT: 4}),
        ((step_parts.LOGGING, FORWARD), {step_parts.LOGGING: 4}),
    ],
)
def test_a_nested_part_counts_as_the_outer_one_except_closures_and_collectives(
    names, expected
) -> None:
    timed = Timed()
    with timed.step() as found:
        nested(*names)(timed)
    assert {name: wall for name, (wall, _) in found.items()} == expected


def test_the_parts_add_up_to_the_step_and_waits_have_no_cpu_time() -> None:
    timed = Timed()
    with timed.step() as found:
        timed.works(3)
        with timed.part(FORWARD):
            timed.works(2)
            timed.works(5, sleeps=True)
        timed.works(1, sleeps=True)
    assert found == {REST: (4.0, 3.0), FORWARD: (7.0, 2.0)}


def test_time_outside_a_step_belongs_to_no_part() -> None:
    timed = Timed()
    assert not timed.parts.enter(FORWARD)
    timed.works(5)
    with timed.step() as found:
        timed.works(1)
    timed.works(5)
    assert not timed.parts.enter(FORWARD)
    assert found == {REST: (1.0, 1.0)}


def test_a_part_that_an_exception_left_open_ends_with_its_step() -> None:
    timed = Timed()
    with timed.step() as found:
        timed.parts.enter(OPTIMIZER)  # the hook after the optimizer is not called
        timed.works(2)
    with timed.step() as later:
        timed.works(1)
    timed.parts.leave(OPTIMIZER)
    assert found == {OPTIMIZER: (2.0, 2.0)}
    assert later == {REST: (1.0, 1.0)}


def test_a_loop_inside_a_step_has_steps_of_its_own() -> None:
    timed = Timed()
    with timed.step() as outer:
        with timed.part(step_parts.INNER_LOADER):
            timed.works(4)
        with timed.step() as inner:
            nested(NO_GRADIENTS)(timed)
        timed.works(1)
    assert inner == {NO_GRADIENTS: (2.0, 2.0)}
    assert outer == {
        step_parts.INNER_LOADER: (4.0, 4.0),
        NO_GRADIENTS: (2.0, 2.0),
        REST: (1.0, 1.0),
    }


def test_events_are_read_once_the_gpu_has_reached_them() -> None:
    clock = FakeClock()
    stream = Stream(clock)
    parts, totals = step_parts.StepParts(clock, lambda: 0, stream.event), step_parts.StepTotals()
    for _ in range(3):
        span = parts.begin()
        parts.call(FORWARD, lambda: (stream.work(8.0), clock.advance(0.001)))
        totals.add(parts.end(span))
    assert totals.parts[FORWARD].device_ms is None
    totals.finish()
    assert totals.parts[FORWARD].device_ms == pytest.approx(24.0)
    assert totals.parts[FORWARD].wall_ns == 3_000_000


@pytest.mark.parametrize(("target", "expected"), [("meta", step_parts.COPY), (torch.float64, REST)])
def test_only_a_copy_to_another_device_counts_as_a_copy(monkeypatch, target, expected) -> None:
    timed = Timed()
    monkeypatch.setattr(loop_sampler, "PARTS", timed.parts)

    def slow(tensor: torch.Tensor, *arguments: object) -> torch.Tensor:
        timed.works(2)
        return torch.Tensor.to(tensor, *arguments)

    with timed.step() as found:
        loop_sampler.timed_copy(slow)(torch.zeros(2), target)
    assert found == {expected: (2.0, 2.0)}


def loader() -> DataLoader[torch.Tensor]:
    return DataLoader([torch.full((8,), float(index)) for index in range(4 * FEW)], batch_size=4)


def train(batches, optimizer_class, *, closure: bool = False) -> list[float]:
    """Train a small model; return its losses."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = optimizer_class(model.parameters(), lr=0.01)
    losses = []

    def backward(batch: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        return loss

    for batch in batches:
        if closure:
            loss = optimizer.step(partial(backward, batch))
        else:
            loss = backward(batch)
            optimizer.step()
        losses.append(loss.item())
    return losses


def parts_of(profile) -> dict[str, int]:
    """Return part → number of measured steps with it."""
    inside = profile.session.loader.inside
    return {part.name: part.steps for part in inside.parts}


@pytest.mark.parametrize(
    ("optimizer", "closure"), [(torch.optim.SGD, False), (torch.optim.LBFGS, True)]
)
def test_a_training_is_the_same_and_has_its_parts(optimizer, closure: bool) -> None:
    plain = train(loader(), optimizer, closure=closure)
    with headrace.profile_loader(loader(), on_verdict=None) as profile:
        profiled = train(profile, optimizer, closure=closure)
    assert profiled == plain
    assert parts_of(profile) == dict.fromkeys([FORWARD, BACKWARD, OPTIMIZER, REST], FEW - 1)
    inside = profile.session.loader.inside
    steps_ms = profile.session.steps.work_ms["step"][1:]
    assert sum(part.ms for part in inside.parts) == pytest.approx(fmean(steps_ms))


def test_saving_logging_and_forwards_without_gradients_are_parts(tmp_path, caplog) -> None:
    model, log = torch.nn.Linear(8, 1), logging.getLogger("training")
    with headrace.profile_loader(loader(), on_verdict=None) as profile:
        for index, batch in enumerate(profile):
            with torch.no_grad():
                model(batch)
            if index == 2:
                torch.save(model.state_dict(), tmp_path / "model.pt")
                log.warning("saved")
    assert parts_of(profile) == {
        NO_GRADIENTS: FEW - 1,
        step_parts.CHECKPOINT: 1,
        step_parts.LOGGING: 1,
        REST: FEW - 1,
    }
    (record,) = caplog.records
    assert record.funcName == "test_saving_logging_and_forwards_without_gradients_are_parts"
    assert record.filename == "test_step_parts.py"


class Named(torch.nn.Module):
    def forward(self, batch: torch.Tensor, *, module: float, tensor: float) -> torch.Tensor:
        return batch * module * tensor


def test_a_model_may_have_arguments_of_any_name_and_functions_stay_picklable() -> None:
    held = print, torch.save, torch.autograd.grad
    with OBSERVED:
        assert Named()(torch.ones(1), module=2.0, tensor=3.0).item() == 6.0
        assert pickle.dumps(held)


def test_a_closure_does_not_count_as_optimizer() -> None:
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = []

    def closure() -> torch.Tensor:
        calls.append([part for _, part in step_parts.PARTS.now()[2]])
        return model(torch.ones(2, 8)).sum()

    with headrace.profile_loader(loader(), on_verdict=None) as profile:
        for index, _ in enumerate(profile):
            optimizer.step(closure) if index % 2 else optimizer.step(closure=closure)
    assert calls == [[REST]] * FEW
    assert parts_of(profile)[OPTIMIZER] == FEW - 1


def test_loops_that_are_left_leave_no_step_open() -> None:
    def open_spans() -> int:
        return sum(len(thread.spans) for thread in step_parts.PARTS._threads.values())

    before = open_spans()
    with headrace.profile_loader(loader(), on_verdict=None) as profile:
        for _ in range(20):
            for _ in profile:
                break
        next(iter(profile))
        with pytest.raises(ZeroDivisionError):
            fail_in(profile)
    gc.collect()
    assert open_spans() == before
    assert step_parts.PARTS.now() is None


@pytest.mark.parametrize("batches", [loader, lambda: [torch.zeros(1)] * FEW])
def test_an_iterator_that_is_destroyed_late_ends_no_step_of_a_later_epoch(batches) -> None:
    with headrace.profile_loader(batches(), on_verdict=None) as profile:
        left = iter(profile)
        next(left)
        for index, _ in enumerate(profile):
            if index == 1:
                del left
                gc.collect()
    assert len(profile.session.steps) == FEW


def fail_in(batches) -> None:
    for _ in batches:
        raise ZeroDivisionError


def test_a_sample_in_an_inner_loop_belongs_to_the_steps_around_it() -> None:
    timed = Timed()
    outer, waiting = timed.parts.begin(), timed.parts.wait()
    assert timed.parts.now()[2] == [(outer, step_parts.INNER_LOADER), (waiting, step_parts.LOADING)]
    inner = timed.parts.begin()
    assert timed.parts.now()[2] == [(outer, REST), (inner, REST)]


def test_events_that_cannot_be_read_are_ignored() -> None:
    class Broken:
        def query(self) -> bool:
            raise RuntimeError("captured")

    totals = step_parts.StepTotals()
    parts = step_parts.StepParts(FakeClock(), lambda: 0, Broken)
    span = parts.begin()
    parts.call(FORWARD, int)
    totals.add(parts.end(span))
    assert totals.parts[FORWARD].device_ms is None


def test_a_forward_that_fails_raises_its_error_and_the_next_step_is_complete() -> None:
    model = torch.nn.Linear(8, 1)
    with headrace.profile_loader(loader(), on_verdict=None) as profile:
        for index, batch in enumerate(profile):
            if index == 1:
                with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
                    model(batch[:, :3])
            model(batch)
    assert parts_of(profile) == {FORWARD: FEW - 1, REST: FEW - 1}


def hooked() -> tuple[object, ...]:
    calls = torch.nn.Module.__call__, torch.autograd._engine_run_backward
    return (*calls, torch.serialization._save, logging.Logger.handle)


def test_hooks_exist_only_inside_blocks_and_blocks_may_overlap() -> None:
    before = hooked()
    first, second = (headrace.profile_loader([n], on_verdict=None) for n in (1, 2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.nn.Module.__call__ is not before[0]
    second.__exit__(None, None, None)
    assert hooked() == before


def test_a_compiled_model_is_not_compiled_again_while_it_is_profiled() -> None:
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def make(layers: int) -> torch.nn.Module:
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(layers)))
        return torch.compile(model, backend=backend, fullgraph=True)

    batch, before, during = torch.ones(2, 8), make(3), make(4)
    expected = before(batch)
    with OBSERVED:
        assert torch.equal(before(batch), expected)
        assert len(graphs) == 1
        expected = during(batch)
        assert torch.equal(during(batch), expected)
        assert len(graphs) == 2
    assert torch.equal(during(batch), expected)
    assert len(graphs) == 3  # a model compiled with the hooks is compiled again without them
