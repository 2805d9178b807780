"""From GOP jobs to frames that are held until their batch is due."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.open import open_decoder
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.reading import read
from headrace.errors import MediaError
from headrace.planning.lookahead import GopJob
from headrace.runtime.shelf import Shelf
from headrace.training.frame_buffers import FrameBuffers
from headrace.training.video_set import VideoSet
from headrace.video.shape import FrameShape


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What became of a job: each of its frames is in one of the two."""

    frames: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """Frame id → the frame, in the layout of the shape."""
    failures: dict[int, MediaError] = field(default_factory=dict)
    """Frame id → why there is no such frame."""
    concealed: set[int] = field(default_factory=set)
    """Ids of those among `frames` that are damaged, and shown as FFmpeg shows them."""


class JobDecoder:
    """Decodes GOP jobs of a video set, in as many threads as like to.

    Files stay open between jobs, shared by the threads; codecs do not: a file that waits takes some
    500 kB, its codec would take 10 MB at 720p.
    """

    def __init__(
        self,
        videos: VideoSet,
        shape: FrameShape,
        max_open: int,
        *,
        conceals: bool = False,
        decoding: Decoding = ON_CPU,
    ) -> None:
        """Open nothing yet.

        Args:
            videos: What the ids in jobs mean.
            shape: What frames are made into; it has a size.
            max_open: Files that stay open between jobs.
            conceals: Whether damaged frames are delivered as FFmpeg shows them.
            decoding: What decodes, and where.
        """
        assert shape.size is not None
        self.shape = shape
        self.max_open = max_open
        self.conceals = conceals
        self.size = shape.size
        self.buffers = FrameBuffers(shape.array_shape(shape.size))
        """Where frames come from; give them back when they are done with."""
        self._videos = videos
        self._decoding = decoding
        self._idle: Shelf[int, Decoder[Array]] = Shelf(max_open)
        self._spent: list[DecodeCounters] = []

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return sum(tuple(self._spent), DecodeCounters())

    def close(self) -> None:
        """Close the files that wait, and free unused buffers. Jobs may be decoded again."""
        self._idle.close()
        self.buffers.clear()

    def describe(self, job: object) -> str:
        """Return what a job is about, for a message."""
        if not isinstance(job, GopJob):
            return "a batch"
        video, first = self._videos.population.locate(np.array(job.frames[0]))
        source = self._videos.indexes[int(video)].source
        return f"{len(job.frames)} frames of {source} (from frame {int(first)})"

    def worker(self) -> Callable[[GopJob], Decoded]:
        """Return a function that decodes jobs; for one thread, as it counts without a lock."""
        spent = DecodeCounters()
        self._spent.append(spent)

        def decode(job: GopJob) -> Decoded:
            done, cost = self._decode(job)
            spent.count(cost)
            return done

        return decode

    def _decode(self, job: GopJob) -> tuple[Decoded, DecodeCounters]:
        videos, indices = self._videos.population.locate(np.array(job.frames, np.int64))
        video = int(videos[0])
        buffers = [self.buffers.take() for _ in job.frames]
        decoder = self._idle.take(video) or open_decoder(
            self._videos.indexes[video], self.shape, self._decoding
        )
        wanted = DecodeJob(tuple(indices.tolist()), goes_on=False, conceals=self.conceals)
        reading = read(decoder, wanted, buffers)
        done = Decoded()
        for frame, index, buffer in zip(job.frames, wanted.wanted, buffers, strict=True):
            if index in reading.came:
                done.frames[frame] = buffer
                if index in reading.concealed:
                    done.concealed.add(frame)
            elif reading.error is not None:
                done.failures[frame] = reading.error
                self.buffers.give(buffer)
        if done.failures:
            decoder.close()
        else:
            decoder.rest()
            self._idle.put(video, decoder)
        return done, reading.cost
