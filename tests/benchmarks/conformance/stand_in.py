"""A worker of the conformance run that hangs, crashes or fails where its file's name says so.

Run as a module by test_runner.py. A name such as `hang-plan.mp4` is
what is to happen, and at which way.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path


def main() -> None:
    """Answer as the real worker does, up to the way at which it happens."""
    asked = json.load(sys.stdin)
    what, _, where = Path(asked["path"]).stem.partition("-")
    with Path(asked["answers"]).open("a", encoding="utf-8") as answers:
        for way in asked["ways"]:
            print(json.dumps({"begun": way}), file=answers, flush=True)
            if way == where:
                _happen(what)
            print(json.dumps({"done": way, **_answer(asked, way)}), file=answers, flush=True)
        print(json.dumps({"versions": {"fake": str(os.getpid() > 0)}}), file=answers)


def _answer(asked: dict, way: str) -> dict:
    if asked["party"] != "plain decode":
        return {"verdict": {"party": asked["party"], "way": way, "right": 3}}
    if asked["path"].endswith(".txt"):
        return {"no_video": f"{asked['path']} is a text"}
    facts = {"container": "mov", "codec": "h264", "size": [4, 6], "frames": 3, "lines": ["mmco"]}
    return {"facts": facts}


def _happen(what: str) -> None:
    if what == "hang":
        threading.Event().wait()
    elif what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    raise RuntimeError("no such codec")


if __name__ == "__main__":
    main()
