"""Fake of `headrace run` for tests of a launch: writes a record without a run.

Arguments: behaviour ("complete", "partial", "refuse", "die", "killed", "endless", "stray"), then
`--out FOLDER`.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from headrace.profiling.session import NOT_ALL
from headrace.runs.launch.launching import LaunchedWorker
from headrace.runtime.child_process import LAUNCH_VARIABLE
from report.recorded import record, step_of


def main(behaviour: str, folder: Path) -> None:
    """Act as a worker."""
    if behaviour == "refuse":
        sys.exit("headrace: torchvision has no model 'resnet5'; did you mean resnet50?")
    if "--dry-run" in sys.argv:
        return
    worker = LaunchedWorker(os.environ[LAUNCH_VARIABLE])
    worker.wait()
    worker.add(step_of(0, frames=3, total_ms=500.0))
    if behaviour == "killed":
        record(steps=7, pid=os.getpid(), outcome="interrupted").save(folder / "session.json")
    if behaviour in ("die", "killed"):
        sys.stdout.write("step 1\nstep 2\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = "complete"
    if behaviour == "endless":
        try:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            worker.add(step_of(1, frames=1, total_ms=9000.0))
            signal.pause()
        except KeyboardInterrupt:
            outcome = "interrupted"
    if behaviour != "stray":
        session = record(steps=40, pid=os.getpid(), outcome=outcome, others_cpu_share=0.44)
        session.save(folder / "session.json")
    sys.exit(143 if outcome == "interrupted" else NOT_ALL if behaviour == "partial" else 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[sys.argv.index("--out") + 1]))
