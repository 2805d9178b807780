"""The plain loop of every tutorial: read a frame, run the model, show it, read the next one.

    cap = cv2.VideoCapture(url)
    while True:
        ok, frame = cap.read()
        if not ok: break

Tutorials stop when reading fails; here it opens the stream again after a second.
"""

from time import sleep
from typing import Any

import cv2

from benchmarks.live.ways import Stream

PACKAGES = ("opencv-python-headless", "torch")
PAUSE_SECONDS = 1.0


def run(stream: Stream) -> dict[str, Any]:
    """See `Way.run`."""
    capture = cv2.VideoCapture(stream.url)
    while not stream.is_over:
        is_there, frame = capture.read()
        if not is_there:
            stream.note("lost")
            capture.release()
            sleep(PAUSE_SECONDS)
            capture = cv2.VideoCapture(stream.url)
            continue
        stream.net.answer(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)[None])
        stream.show(frame)
    capture.release()
    return {}
