"""What is said and written when a watched script has ended."""

import json
import sys
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError, file_errors
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.loop_session import session_of, write_loop
from headrace.instrumentation.patch_all import LOOPS, SHARE, LoopSite
from headrace.profiling.machine import provenance
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Outcome, Session
from headrace.report.loop_text import render_verdict
from headrace.runs.outputs import claim
from headrace.runtime.clock import SYSTEM_CLOCK


def no_loop(script: str) -> str:
    """Say that a script iterated nothing that is watched."""
    return (
        f"headrace: {script} took no batch from a DataLoader or a loader of headrace: "
        "there is no loop to tell of; processes that it starts are not watched"
    )


def to_stderr(text: str) -> None:
    """Print it on stderr, so that what the program itself prints stays its own."""
    print(text, file=sys.stderr, flush=True)


_SHOWN: Final = 3
"""Loops that get their verdict in full, the longest."""


def tell_end(target: str, asked: dict[str, str | None], error: BaseException | None) -> None:
    """Say what the loops of the script `target` came to, on stderr; write the files asked for.

    Args:
        target: The script, as it was named.
        asked: `out`: a folder; `json`: a file; None for neither.
        error: What ended the script before its time.
    """
    share = SHARE.of_others()
    loops = [(loop, watch) for loop, watch in LOOPS.all() if watch.seen]
    sessions = [_session(loop, watch, error, share) for loop, watch in loops]
    if not sessions:
        to_stderr(no_loop(target))
    try:
        _write(sessions, [watch for _, watch in loops], asked)
    except HeadraceError as failure:
        to_stderr(f"headrace: {failure}")
    for session in sessions[:_SHOWN]:
        to_stderr(render_verdict(session))
    for session in sessions[_SHOWN:]:
        where = session.provenance.configuration["loop"]
        steps = counted(len(session.steps), "step")
        to_stderr(f"headrace: {where}: {steps} in {seconds(session.wall_seconds)}")


def _session(
    loop: LoopSite, watch: LoopRecorder, error: BaseException | None, share: float | None
) -> Session:
    configuration = {"loop": loop.where, **dict(loop.facts.configuration)}
    made = provenance(configuration, sys.orig_argv, SYSTEM_CLOCK)
    recorder = Recorder("loader", made, clock=SYSTEM_CLOCK)
    recorder.start_ns, (recorder.outcome, recorder.error) = LOOPS.began_ns, _outcome(error)
    known = {"wall_seconds": watch.seconds, "others_cpu_share": share}
    return session_of(recorder, watch, loop.facts, **known)


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


def _write(
    sessions: list[Session], watches: list[LoopRecorder], asked: dict[str, str | None]
) -> None:
    """One folder for each loop where they are several."""
    if asked.get("out") and sessions:
        out = Path(str(asked["out"]))
        for place, (session, watch) in enumerate(zip(sessions, watches, strict=True)):
            folder = out if len(sessions) == 1 else out / f"loop_{place + 1}"
            claim(folder)
            sessions[place] = write_loop(session, watch, folder, origin_ns=LOOPS.began_ns)
        to_stderr(f"headrace: reports are in {out}")
    if asked.get("json"):
        text = json.dumps([session.model_dump(mode="json") for session in sessions])
        _write_text(Path(str(asked["json"])), text + "\n")


def _write_text(path: Path, text: str) -> None:
    with file_errors(f"cannot write {path}", "give another file"):
        path.write_text(text, encoding="utf-8")
