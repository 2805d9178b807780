"""Fake work of a conformance run that hangs, crashes or fails, by the name of its file.

The name has the event and the variant, as in `hang-plan.mp4`.
"""

import os
import signal
import threading
from pathlib import Path


def answer(way, *, party, path, **_):
    """Answer like the real work, except for the variant in the name of the file."""
    event, _, variant = Path(path).stem.partition("-")
    if way == variant and event == "hang":
        threading.Event().wait()
    if way == variant and event == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if way == variant:
        raise RuntimeError("no such codec")
    if party != "plain decode":
        verdict = {"party": party, "way": way, "right": 3}
        return {"verdict": verdict, "row": {}, "versions": {"fake": str(os.getpid() > 0)}}
    if path.endswith(".txt"):
        return {"row": {"state": "no video", "reason": f"{path} is a text"}}
    facts = {"container": "mov", "codec": "h264", "size": [4, 6], "frames": 3, "lines": ["mmco"]}
    return {"row": facts}
