"""Baseline of random frames: open the file, seek and decode for each frame."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from headrace.decode.protocol import DecodeCounters
from headrace.errors import DecodeError
from headrace.loaders.video_set import VideoSet
from headrace.video.container import open_container
from headrace.video.stream_index import StreamIndex


class SeekPerFrame(Dataset[torch.Tensor]):
    """Naive dataset of all frames: `dataset[n]` opens, seeks, and decodes up to frame n.

    No file stays open between frames. headrace's index provides frame counts and pts, so the frame
    is correct at any frame rate. FFmpeg uses PyAV's default number of threads.
    """

    def __init__(self, videos: VideoSet, size: tuple[int, int]) -> None:
        """Store the videos; `size` is (height, width) of the frames."""
        self.counters = DecodeCounters()
        """Decode counters of this process so far."""
        self._videos = videos
        self._size = size

    def __len__(self) -> int:
        """Return the number of frames of all videos."""
        return self._videos.population.num_frames

    def __getitem__(self, frame: int) -> torch.Tensor:
        """Return one frame, indexed over all videos: uint8 [3, H, W] in [0, 255], RGB.

        Raises:
            OpenError: its file cannot be opened.
            DecodeError: a plain seek does not find the frame.
        """
        video, frame_index = map(int, self._videos.population.locate(np.array(frame)))
        index = self._videos.indexes[video]
        try:
            pixels = self._seek(index, int(index.pts[frame_index]))
        except (ValueError, OSError, EOFError) as error:  # bases of all FFmpeg errors
            raise _seek_error(index, frame_index) from error
        if pixels is None:
            raise _seek_error(index, frame_index)
        upright = np.ascontiguousarray(index.info.orientation.upright(pixels))
        return torch.from_numpy(upright).permute(2, 0, 1)

    def _seek(self, index: StreamIndex, pts: int) -> NDArray[np.uint8] | None:
        """Return the frame at `pts` as stored, uint8 [H, W, 3]; None: not found."""
        stored = (index.info.height, index.info.width)
        height, width = index.info.orientation.upright_size(self._size)
        shrinks = height <= stored[0] and width <= stored[1]
        container, stream = open_container(index.source)
        with container:
            self.counters.opens += 1
            container.seek(pts, stream=stream)
            self.counters.seeks += 1
            for frame in container.decode(stream):
                self.counters.frames_decoded += 1
                if frame.pts is None or frame.pts < pts:
                    continue
                if frame.pts > pts:
                    return None
                pixels = frame.to_ndarray(
                    format="rgb24",
                    height=height,
                    width=width,
                    interpolation="AREA" if shrinks else "BICUBIC",
                )
                return np.asarray(pixels, np.uint8)
        return None


def _seek_error(index: StreamIndex, frame_index: int) -> DecodeError:
    return DecodeError(
        f"a plain seek does not find frame {frame_index} of {index.source} (at "
        f"{index.seconds(frame_index):.3f} s), so the baseline cannot read this video; leave it "
        "out",
        source=str(index.source),
        pts=int(index.pts[frame_index]),
        missing=(frame_index,),
    )
