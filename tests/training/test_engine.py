"""The engine of a loader: a worker that hangs is named, with its file, and nothing waits for it."""

import threading

import pytest

from headrace.errors import StageError
from headrace.training import frame_memory
from headrace.training.loader import FrameLoader
from runtime.in_time import in_time
from training.videos import SIZE


class _Hanging:
    """A decoder whose every job waits until it is released."""

    def __init__(self, decoder, release):
        self._decoder = decoder
        self._release = release
        self.index, self.counters = decoder.index, decoder.counters
        self.close = decoder.close
        self.rest = decoder.rest
        self.concealed = frozenset()

    def run(self, job, out=None):
        self._release.wait()
        return self._decoder.run(job, out)


def test_a_worker_that_hangs_is_named_with_its_file_and_left_behind(videos, store, monkeypatch):
    release, open_decoder = threading.Event(), frame_memory.open_decoder
    monkeypatch.setattr(
        frame_memory,
        "open_decoder",
        lambda *each, **options: _Hanging(open_decoder(*each, **options), release),
    )
    options = {"batch_size": 4, "size": SIZE, "store": store, "workers": 1}
    before = set(threading.enumerate())
    with FrameLoader(videos[:1], stall_seconds=0.05, **options) as loader:
        with pytest.raises(StageError, match=rf"frames of .*{videos[0].name}.* without a result"):
            in_time(lambda: next(iter(loader)))
        left = set(threading.enumerate()) - before
        assert [each.name for each in left] == ["headrace-loader-0"]
        release.set()
        for each in left:
            each.join()
        assert len(next(iter(loader)).frames) == 4
