"""Profiles of training loops: `profile_loader` for a block, `report_loops` for a script."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from torch.utils.data import DataLoader

from headrace.errors import ConfigError, HeadraceError, file_errors
from headrace.instrumentation.dataloader_hook import (
    describe_loader,
    hook_loader,
    is_recorded,
    record_iterable,
)
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.loop_sampler import OBSERVED
from headrace.instrumentation.loop_session import build_session, write_loop
from headrace.instrumentation.patch_all import LOOPS, SHARE, LoopSite
from headrace.profiling.machine import provenance
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.provenance import TRIED
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Outcome, Session
from headrace.report.text import render_verdict
from headrace.runs.output_folder import prepare_folder
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

Batch = TypeVar("Batch")


def print_to_stderr(text: str) -> None:
    """Print `text` on stderr, because stdout belongs to the user's program."""
    print(text, file=sys.stderr, flush=True)


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
        recorder.outcome, recorder.error = _outcome(error)
        self._session = build_session(recorder, self._loop, describe_loader(self._loader))
        if self._out is not None:
            self._session = write_loop(
                self._session, self._loop, self._out, origin_ns=recorder.start_ns
            )
        if self._on_verdict is not None:
            self._on_verdict(self.verdict)


_MAX_VERDICTS: Final = 3
"""Max loops with a full verdict, the longest ones; other loops get one line."""


def report_loops(outputs: dict[str, Any], error: BaseException | None) -> bool:
    """Print the verdicts on the loops of a script and write its files; return whether it had loops.

    Args:
        outputs: `command`: the command line. `out`: folder of the reports, or None. `json`: file of
            the sessions, or None. `change`: the `LoaderChange` of this run, without verdicts, or
            None. `ranks`: folder for the session of a torchrun rank, instead of all other output,
            or None.
        error: The exception that ended the script, or None.
    """
    share = SHARE.of_others()
    loops = [(site, recorder) for site, recorder in LOOPS.loops() if recorder.steps]
    sessions = [_build_session(site, recorder, outputs, error, share) for site, recorder in loops]
    if outputs.get("ranks"):
        _write_rank(Path(str(outputs["ranks"])), sessions)
        return True
    try:
        _write(sessions, [recorder for _, recorder in loops], outputs)
    except HeadraceError as failure:
        print_to_stderr(f"headrace: {failure}")
    if outputs.get("change"):
        return bool(sessions)
    for session in sessions[:_MAX_VERDICTS]:
        print_to_stderr(render_verdict(session))
    for session in sessions[_MAX_VERDICTS:]:
        location = session.provenance.configuration["loop"]
        steps = counted(len(session.steps), "step")
        print_to_stderr(f"headrace: {location}: {steps} in {seconds(session.wall_seconds)}")
    return bool(sessions)


def _build_session(
    site: LoopSite,
    loop: LoopRecorder,
    outputs: Mapping[str, Any],
    error: BaseException | None,
    share: float | None,
) -> Session:
    configuration = {"loop": site.location, **dict(site.loader.configuration)}
    if outputs.get("change"):
        configuration[TRIED] = outputs["change"]["words"]
    origin = provenance(configuration, outputs["command"])
    recorder = Recorder("loader", origin, clock=SYSTEM_CLOCK)
    recorder.start_ns, (recorder.outcome, recorder.error) = LOOPS.start_ns, _outcome(error)
    return build_session(
        recorder, loop, site.loader, wall_seconds=loop.seconds, others_cpu_share=share
    )


def _outcome(error: BaseException | None) -> tuple[Outcome, str | None]:
    match error:
        case None:
            return "complete", None
        case SystemExit():
            is_good = error.code in (None, 0)
            return ("complete", None) if is_good else ("failed", f"exit: {error.code}")
        case KeyboardInterrupt():
            return "interrupted", None
    return "failed", f"{type(error).__name__}: {error}"


def _write(sessions: list[Session], recorders: list[LoopRecorder], outputs: dict[str, Any]) -> None:
    """Write folders and JSON; each of several loops gets its own folder."""
    if outputs.get("out") and sessions:
        root = Path(str(outputs["out"]))
        for index, (session, recorder) in enumerate(zip(sessions, recorders, strict=True)):
            folder = root if len(sessions) == 1 else root / f"loop_{index + 1}"
            prepare_folder(folder)
            sessions[index] = write_loop(session, recorder, folder, origin_ns=LOOPS.start_ns)
        print_to_stderr(f"headrace: reports are in {root}")
    if outputs.get("json"):
        path = Path(str(outputs["json"]))
        text = json.dumps([session.model_dump(mode="json") for session in sessions])
        with file_errors(f"cannot write {path}", "give another file"):
            path.write_text(text + "\n", encoding="utf-8")


def _write_rank(folder: Path, sessions: list[Session]) -> None:
    """Write the session of this rank's longest loop, and the number of ranks of the machine."""
    rank = os.environ.get("RANK", "0")
    size = os.environ.get("LOCAL_WORLD_SIZE", "1")
    (folder / f"{rank}.size").write_text(size, encoding="ascii")
    if sessions:
        sessions[0].save(folder / f"rank_{rank}.json")
