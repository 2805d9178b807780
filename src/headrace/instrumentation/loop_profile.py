"""`headrace.profile_loader`: does a training loop wait for its data, or the data for the loop?"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from torch.utils.data import DataLoader

from headrace.errors import ConfigError
from headrace.instrumentation.dataloader_hook import hooked, is_told_to, timed
from headrace.instrumentation.loader_info import facts_of
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.loop_session import session_of, write_loop
from headrace.instrumentation.script_end import to_stderr
from headrace.profiling.machine import provenance
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Session
from headrace.report.loop_text import render_verdict
from headrace.runs.outputs import claim
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

Batch = TypeVar("Batch")


def profile_loader(
    loader: Iterable[Batch],
    *,
    out: str | Path | None = None,
    tell: Callable[[str], object] | None = to_stderr,
    clock: Clock = SYSTEM_CLOCK,
) -> "LoopProfile[Batch]":
    """Watch a training loop, and say whether it waits for its data and what to change.

        with headrace.profile_loader(loader) as seen:
            for batch in seen:
                train(batch)

    Batches are those of the loader: the same objects, order and random draws. Of a DataLoader its
    workers tell what each batch cost them, whether they are forked or spawned. Cost: some
    microseconds a step (benchmarks/bench_observe.py), and a moment at the end.

    Args:
        loader: A DataLoader with any number of workers, a loader of headrace, or anything else
            that can be iterated, several times for several epochs.
        out: Folder for `session.json`, the report, the table of steps and `trace.json.gz`, which
            ui.perfetto.dev draws; made when missing.
        tell: Called with the verdict, some lines of text, when the block ends; None: with nothing.
        clock: What measures.

    Raises:
        ConfigError: `loader` cannot be iterated, or `out` cannot be written to.
    """
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise ConfigError(
            f"cannot observe a {type(loader).__name__}: it cannot be iterated; give the loader "
            "that the training loop takes its batches from"
        )
    return LoopProfile(loader, None if out is None else Path(out), tell, clock)


class LoopProfile(Generic[Batch]):
    """A loader that is watched inside a `with` block; iterate it in place of the loader."""

    def __init__(
        self,
        loader: Iterable[Batch],
        out: Path | None,
        tell: Callable[[str], object] | None,
        clock: Clock,
    ) -> None:
        """Watch nothing yet."""
        self._loader, self._out, self._tell, self._clock = loader, out, tell, clock
        self._watch = LoopRecorder(clock=clock)
        self._open = ExitStack()
        self._is_open = False
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """What was recorded, once the block has ended.

        Raises:
            ConfigError: it has not.
        """
        if self._session is None:
            raise ConfigError("the session of a loop is known when its `with` block has ended")
        return self._session

    @property
    def verdict(self) -> str:
        """What it came to, in some lines; known when `session` is."""
        return render_verdict(self.session)

    def __enter__(self) -> Self:
        if self._is_open or self._session is not None:
            raise ConfigError("a loop is observed once; call headrace.profile_loader again")
        if self._out is not None:
            claim(self._out)
        self._is_open = True
        made = provenance(dict(facts_of(self._loader).configuration), sys.argv, self._clock)
        self._recorder = Recorder("loader", made, clock=self._clock)
        if isinstance(self._loader, DataLoader):
            self._open.enter_context(hooked(self._loader, self._watch))
        return self

    def __len__(self) -> int:
        """How many batches the loader says it has; TypeError where it does not say."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        """Iterate the loader, watched.

        Raises:
            ConfigError: outside the `with` block.
        """
        if not self._is_open:
            raise ConfigError(
                "a loop is observed inside a block: "
                "with headrace.profile_loader(loader) as seen: for batch in seen: ..."
            )
        if isinstance(self._loader, DataLoader):
            batches = iter(self._loader)
            is_told = is_told_to(batches, self._watch)
            return batches if is_told else timed(batches, self._watch)
        return timed(self._loader, self._watch)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._open.close()
        recorder = self._recorder
        if isinstance(error, KeyboardInterrupt):
            recorder.outcome = "interrupted"
        elif error is not None:
            recorder.outcome, recorder.error = "failed", f"{type(error).__name__}: {error}"
        self._session = session_of(recorder, self._watch, facts_of(self._loader))
        if self._out is not None:
            self._session = write_loop(
                self._session, self._watch, self._out, origin_ns=self._recorder.start_ns
            )
        if self._tell is not None:
            self._tell(self.verdict)
