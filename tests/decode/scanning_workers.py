"""What the workers of the tests do; imported by children."""

import os
import signal

from headrace.decode.parallel_scan import scan_videos
from headrace.video.stream_index import StreamIndex


def interrupts_its_parent(argument, send):
    """Ctrl-C, once, while a video is scanned."""

    def scan(source, **given):
        if argument["worker"] == "worker 1":
            os.kill(os.getppid(), signal.SIGINT)
        signal.sigwait([signal.SIGUSR1])

    StreamIndex.scan = scan
    return scan_videos(argument, send)
