"""Report on the loops of a profiled script: verdicts on stderr, folders and JSON on request."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.errors import HeadraceError, file_errors
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.loop_session import build_session, write_loop
from headrace.instrumentation.patch_all import LOOPS, SHARE, LoopSite
from headrace.profiling.machine import provenance
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Outcome, Session
from headrace.report.text import render_verdict
from headrace.runs.output_folder import prepare_folder
from headrace.runtime.clock import SYSTEM_CLOCK

_MAX_VERDICTS: Final = 3
"""Max loops with a full verdict, the longest ones; other loops get one line."""


def print_to_stderr(text: str) -> None:
    """Print `text` on stderr, because stdout belongs to the user's program."""
    print(text, file=sys.stderr, flush=True)


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
    command = outputs["command"]
    sessions = [_build_session(site, recorder, command, error, share) for site, recorder in loops]
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
    command: Sequence[str],
    error: BaseException | None,
    share: float | None,
) -> Session:
    configuration = {"loop": site.location, **dict(site.loader.configuration)}
    recorder = Recorder("loader", provenance(configuration, command), clock=SYSTEM_CLOCK)
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
