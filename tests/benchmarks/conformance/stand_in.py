"""Work of the conformance run that hangs, crashes or fails where its file's name says so.

A name such as `hang-plan.mp4` is what is to happen, and at which way.
"""

import os
import signal
import threading
from pathlib import Path


def answer(way, *, party, path, **_):
    """Answer as the real work does, but where it is to happen."""
    what, _, where = Path(path).stem.partition("-")
    if way == where and what == "hang":
        threading.Event().wait()
    if way == where and what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if way == where:
        raise RuntimeError("no such codec")
    if party != "plain decode":
        verdict = {"party": party, "way": way, "right": 3}
        return {"verdict": verdict, "row": {}, "versions": {"fake": str(os.getpid() > 0)}}
    if path.endswith(".txt"):
        return {"row": {"state": "no video", "reason": f"{path} is a text"}}
    facts = {"container": "mov", "codec": "h264", "size": [4, 6], "frames": 3, "lines": ["mmco"]}
    return {"row": facts}
