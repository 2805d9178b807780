"""SPDL: streaming decoders in the threads of its own pipeline, scaled by its filter graph.

Streaming took 2.2 ms of CPU per 720p frame, `load_video` of whole files 2.5 ms.

For random frames the packets of all files stay in memory, and a batch decodes the frames of each
file at once: it has no index and no decoder to keep; `sample_decode_video` goes from keyframe to
keyframe.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import spdl.io
from numpy.typing import NDArray
from spdl.pipeline import PipelineBuilder

from benchmarks.adapters import CHUNK, Chunk, GroupedByFile, RandomAccess

PACKAGES = ("spdl", "spdl_io")


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> Iterator[Chunk]:
    """One file per thread; SPDL gives each decoder one thread by itself."""
    scale = _scale(size)

    def work(numbered: tuple[int, Path]) -> Iterator[Chunk]:
        path_index, path = numbered
        first_index = 0
        for frames in _decode(path, scale):
            yield Chunk(path_index, first_index, frames)
            first_index += len(frames)

    pipeline = (
        PipelineBuilder()
        .add_source(enumerate(paths))
        .pipe(work, concurrency=workers)
        .add_sink(2 * workers)
        .build(num_threads=workers)
    )
    with pipeline.auto_stop():
        yield from pipeline


def _scale(size: tuple[int, int]) -> Any:
    height, width = size
    return spdl.io.get_video_filter_desc(
        scale_width=width, scale_height=height, scale_mode=None, scale_algo="area"
    )


def _decode(path: Path, scale: str | None) -> Iterator[NDArray[np.uint8]]:
    with spdl.io.Demuxer(str(path)) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=scale)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=CHUNK):
            for frames in decoder.streaming_decode_packets(packets):
                yield spdl.io.to_numpy(spdl.io.convert_frames(frames))
        for frames in decoder.flush():
            yield spdl.io.to_numpy(spdl.io.convert_frames(frames))


def random_access(task: RandomAccess) -> GroupedByFile:
    """Scaled by its filter graph."""
    scale = _scale(task.size)
    packets = cache(lambda video: spdl.io.demux_video(str(task.paths[video])))

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        frames = spdl.io.sample_decode_video(
            packets(video).clone(), list(indices), filter_desc=scale
        )
        return list(spdl.io.to_numpy(spdl.io.convert_frames(frames)))

    return GroupedByFile(task, decode)
