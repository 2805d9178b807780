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

    Nothing is kept open between frames. headrace's index provides frame counts and pts, so the
    frame is right at any frame rate. FFmpeg has PyAV's default number of threads.
    """

    def __init__(self, videos: VideoSet, size: tuple[int, int]) -> None:
        """Open nothing yet; `size` is (height, width) of the frames."""
        self.counters = DecodeCounters()
        """Decode counters of this process so far."""
        self._videos = videos
        self._size = size

    def __len__(self) -> int:
        """Return the number of frames of all videos."""
        return self._videos.population.num_frames

    def __getitem__(self, frame: int) -> torch.Tensor:
        """Return frame `frame`, counted through all videos: uint8 [3, H, W] in [0, 255], RGB.

        Raises:
            OpenError: its file cannot be opened.
            DecodeError: a plain seek does not reach the frame.
        """
        video, place = (int(number) for number in self._videos.population.locate(np.array(frame)))
        index = self._videos.indexes[video]
        try:
            picture = self._seek(index, int(index.pts[place]))
        except (ValueError, OSError, EOFError) as error:  # what FFmpeg says is one of these as well
            raise _seek_error(index, place) from error
        if picture is None:
            raise _seek_error(index, place)
        upright = np.ascontiguousarray(index.info.orientation.upright(picture))
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
                picture = frame.to_ndarray(
                    format="rgb24",
                    height=height,
                    width=width,
                    interpolation="AREA" if shrinks else "BICUBIC",
                )
                return np.asarray(picture, np.uint8)
        return None


def _seek_error(index: StreamIndex, place: int) -> DecodeError:
    return DecodeError(
        f"a plain seek to frame {place} of {index.source} (at {index.seconds(place):.3f} s) does "
        "not lead to it, so there is no baseline with this video; leave it out",
        source=str(index.source),
        pts=int(index.pts[place]),
        missing=(place,),
    )
