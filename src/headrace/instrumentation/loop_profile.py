"""`headrace.profile_loader`: profile of a training loop, by a `with` block."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from torch.utils.data import DataLoader

from headrace.errors import ConfigError
from headrace.instrumentation.dataloader_hook import hook_loader, is_recorded, record_iterable
from headrace.instrumentation.loader_info import describe_loader
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.loop_sampler import OBSERVED
from headrace.instrumentation.loop_session import build_session, write_loop
from headrace.instrumentation.script_end import print_to_stderr
from headrace.profiling.machine import provenance
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Session
from headrace.report.text import render_verdict
from headrace.runs.output_folder import prepare_folder
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

Batch = TypeVar("Batch")


def profile_loader(
    loader: Iterable[Batch],
    *,
    out: str | Path | None = None,
    on_verdict: Callable[[str], object] | None = print_to_stderr,
    clock: Clock = SYSTEM_CLOCK,
) -> "LoopProfile[Batch]":
    """Profile a training loop: whether it waits for its data, and what to change.

        with headrace.profile_loader(loader) as profile:
            for batch in profile:
                train(batch)

    The loop gets the batches of the loader: the same objects, order and random draws. Workers of a
    DataLoader, forked or spawned, report the cost of each batch. Cost: 0.1 to 0.2 ms per step,
    samples included (benchmarks/bench_observe.py), and a short analysis at the end.

    Args:
        loader: A DataLoader with any number of workers, a loader of headrace, or any other
            iterable; iterate the profile once per epoch.
        out: Folder for `session.json`, the report, the table of steps and `trace.json.gz` for
            ui.perfetto.dev; created if missing.
        on_verdict: Called with the verdict, some lines of text, at the end of the block; or None.
        clock: Clock of all times.

    Raises:
        ConfigError: `loader` cannot be iterated, or `out` cannot be written to.
    """
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise ConfigError(
            f"cannot profile a {type(loader).__name__}: it cannot be iterated; give the loader "
            "of the training loop"
        )
    return LoopProfile(loader, None if out is None else Path(out), on_verdict, clock)


class LoopProfile(Generic[Batch]):
    """A profiled loader: inside the `with` block, iterate it instead of the loader."""

    def __init__(
        self,
        loader: Iterable[Batch],
        out: Path | None,
        on_verdict: Callable[[str], object] | None,
        clock: Clock,
    ) -> None:
        """Use `profile_loader`, which checks the arguments."""
        self._loader, self._out, self._on_verdict, self._clock = loader, out, on_verdict, clock
        self._loop = LoopRecorder(clock=clock)
        self._hooks = ExitStack()
        self._is_open = False
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The record, available after the block.

        Raises:
            ConfigError: the block has not ended.
        """
        if self._session is None:
            raise ConfigError("the session of a loop is available after its `with` block")
        return self._session

    @property
    def verdict(self) -> str:
        """The verdict, some lines of text, available after the block."""
        return render_verdict(self.session)

    def __enter__(self) -> Self:
        if self._is_open or self._session is not None:
            raise ConfigError("a profile is used once; call headrace.profile_loader again")
        if self._out is not None:
            prepare_folder(self._out)
        self._is_open = True
        configuration = dict(describe_loader(self._loader).configuration)
        self._recorder = Recorder(
            "loader", provenance(configuration, sys.argv, self._clock), clock=self._clock
        )
        self._hooks.enter_context(OBSERVED)
        if isinstance(self._loader, DataLoader):
            self._hooks.enter_context(hook_loader(self._loader, self._loop))
        return self

    def __len__(self) -> int:
        """Return the length of the loader; TypeError if it has none."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        """Iterate the loader, recorded.

        Raises:
            ConfigError: outside the `with` block.
        """
        if not self._is_open:
            raise ConfigError(
                "a loop is profiled inside a block: "
                "with headrace.profile_loader(loader) as profile: for batch in profile: ..."
            )
        if isinstance(self._loader, DataLoader):
            batches = iter(self._loader)
            if is_recorded(batches, self._loop):
                return batches
            return record_iterable(batches, self._loop)
        return record_iterable(self._loader, self._loop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._loop.leave(self._loop.epoch)
        self._hooks.close()
        recorder = self._recorder
        if isinstance(error, KeyboardInterrupt):
            recorder.outcome = "interrupted"
        elif error is not None:
            recorder.outcome, recorder.error = "failed", f"{type(error).__name__}: {error}"
        self._session = build_session(recorder, self._loop, describe_loader(self._loader))
        if self._out is not None:
            self._session = write_loop(
                self._session, self._loop, self._out, origin_ns=recorder.start_ns
            )
        if self._on_verdict is not None:
            self._on_verdict(self.verdict)
