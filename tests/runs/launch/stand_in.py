"""Stands in for `headrace run` in tests of a launch: loads nothing, runs nothing, records all.

Its arguments: what it does ("complete", "refuse", "die", "killed", "endless", "stray"), then
`--out FOLDER`.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from headrace.runs.launch.launching import progress_message, ready_message, start_message
from headrace.runtime.child_spec import LAUNCH_VARIABLE
from headrace.runtime.rank_processes import Participant
from report.recorded import record


def main(what: str, folder: Path) -> None:
    """Do it."""
    if what == "refuse":
        sys.exit("headrace: torchvision has no model 'resnet5'; did you mean resnet50?")
    if "--dry-run" in sys.argv:
        return
    worker = Participant(os.environ[LAUNCH_VARIABLE])
    worker.send(ready_message(os.getpid()))
    worker.send(start_message(worker.wait()))
    worker.send(progress_message(3, 0.5))
    if what == "killed":
        record(steps=7, pid=os.getpid(), outcome="interrupted").save(folder / "session.json")
    if what in ("die", "killed"):
        sys.stdout.write("step 1\nstep 2\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = "complete"
    if what == "endless":
        try:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            worker.send(progress_message(4, 0.6))
            signal.pause()
        except KeyboardInterrupt:
            outcome = "interrupted"
    if what != "stray":
        session = record(steps=40, pid=os.getpid(), outcome=outcome, others_cpu_share=0.44)
        session.save(folder / "session.json")
    sys.exit(143 if outcome == "interrupted" else 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[sys.argv.index("--out") + 1]))
