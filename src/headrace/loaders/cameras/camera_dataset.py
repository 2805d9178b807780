"""CameraStreamDataset: camera clips for a stock DataLoader; its sampler decodes each frame once."""

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import DecoderPool
from headrace.decode.protocol import run_job
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import BackendError, ConfigError
from headrace.loaders.augment import ClipAugment
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_batch import CameraBatch, SlotCell
from headrace.loaders.cameras.camera_engine import first_after, stream_jobs
from headrace.loaders.cameras.camera_options import layout_for
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraView, CameraViews, check_views
from headrace.loaders.cameras.moment_table import MetadataOf, check_metadata
from headrace.loaders.collate import Collate, Transform, apply_transform, check_transforms
from headrace.loaders.datasets import DecodingDataset
from headrace.loaders.epochs import agreement
from headrace.loaders.loader_options import check_decoding
from headrace.runtime.posix import files_to_keep_open
from headrace.sampling.moments import MISSING, Moments
from headrace.units import check_integers
from headrace.video.camera_layout import CameraLayout
from headrace.video.frame_format import Fit, Interpolation


@answers_names
class CameraStreamDataset(DecodingDataset[dict[str, Any]]):
    """Moments of synchronized cameras; batches come from a `CameraStreamSampler`.

        cameras = CameraStreamDataset("index_frame.json", num_of_set=4, size=(256, 704))
        sampler = CameraStreamSampler(cameras, group_num=4, num_workers=2, interleaved=True)
        for batch in sampler.joined(DataLoader(cameras, batch_sampler=sampler, num_workers=2)): ...

    An item is a dict of the tensors of one slot, named as in `CameraBatch`, which the DataLoader
    stacks: frames uint8 [C, 3, H, W], sizes, valid, first_frame, slot, clip, clip_name, index,
    frame, pts_seconds, error_ms, image_matrix; metadata, if given, becomes a list. Each worker
    opens its own decoders, whether forked or spawned.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        num_of_set: Clips whose decoders a process keeps open; at least the number of slots of its
            batches. With fewer, a decoder seeks back to a keyframe for each frame, with a warning.
        num_of_file: Max open files per process; None: `num_of_set` times the cameras, up to half
            the system's limit.
        cameras: Names of the cameras to read from an index file, in the order of a batch; None:
            all, by name.
        size: (height, width) of the frames; None: the size of the cameras, which must be equal.
        view: In place of `size`: a `CameraView`, or a dict with one for each camera. All output
            sizes must be equal.
        augment: Random geometry of a clip's frames: a `ClipAugment`, drawn once per pass of a clip,
            from the sampler's seed.
        alignment: Assignment of frames to moments; None: frames of the same index.
        metadata: Metadata of each moment: a function of the clip's name and a `ClipMoment` that
            returns a mapping, or a `MomentTable`. Called in the worker.
        moments: Moments of each clip to deliver; None: all.
        transform: Function of the frames of each item, or `WithSample`.
        skip_bad: Skip clips with a camera that cannot be opened. Ranks of torch.distributed then
            compare their opened clips, in the dataset and in the sampler, so every rank must create
            both.
        decoding: Backend and device; None: PyAV on the CPU. Frames of a GPU are copied to the CPU,
            and workers of the DataLoader must be spawned.
        gpu: Index of the NVIDIA GPU that decodes; short for `DecoderConfig.on_gpu(gpu)`. Frames are
            bit for bit the same.
        index_store: Store of the indexes; None: the user's cache folder.
        spill: Folder of decoded frames on a local disk, shared with other loaders; not with
            `augment`.

    Raises:
        BackendError: the GPU is missing or cannot decode these videos, or `decoding` keeps frames
            on the device.
        ConfigError: an argument is out of range, or sizes differ and `size` is None.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _collate = Collate()
    _num_gaps = 0
    _is_warned = False

    def __init__(
        self,
        layout: CameraLayout | str | os.PathLike[str],
        *,
        num_of_set: int = 4,
        num_of_file: int | None = None,
        cameras: Iterable[str] | None = None,
        size: tuple[int, int] | None = None,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        view: CameraView | Mapping[str, CameraView] | None = None,
        augment: ClipAugment | None = None,
        alignment: Alignment | None = None,
        metadata: MetadataOf | None = None,
        moments: Moments | None = None,
        transform: Transform | None = None,
        skip_bad: bool = False,
        decoding: DecoderConfig | None = None,
        gpu: int | None = None,
        index_store: IndexStore | None = None,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open the index of every camera. Decodes nothing."""
        decoding = _checked_decoding(decoding, gpu)
        check_transforms(transform)
        check_metadata(metadata)
        check_integers(1, num_of_set=num_of_set, num_of_file=num_of_file)
        with agreement(skip_bad) as opened:
            check_views(view, augment, size=size, fit=fit)
            layout = layout_for(layout, cameras)
            self.cameras = CameraSet.open(
                layout, alignment, moments=moments, skip_bad=skip_bad, index_store=index_store
            )
            self._views = CameraViews.of(
                self.cameras,
                size=size,
                fit=fit,
                interpolation=interpolation,
                view=view,
                augment=augment,
            )
            self._size = self._views.common_size()
            opened.checksum, opened.skipped = self.cameras.checksum, self.cameras.num_lost
        files = num_of_set * len(self.cameras.cameras)
        max_open = files_to_keep_open(files, num_of_file)
        store = open_spill(spill, decoding, is_augmented=augment is not None)
        plain = self._views.plain
        super().__init__(
            DecoderPool(plain, max_open, keeps_codecs=True, decoding=decoding, spill=store)
        )
        self._transform, self._metadata = transform, metadata
        self._last_frames: dict[tuple[int, int], tuple[tuple[int, int, int], Any]] = {}
        """Stream → (clip, epoch, frame), and its pixels if the next moment repeats them."""
        self._num_of_set = num_of_set
        self._keeps_sets = max_open == files
        self._last_cells: dict[int, SlotCell] = {}
        self.skips_bad = skip_bad
        """Whether clips with a camera that cannot be opened are skipped."""

    def __len__(self) -> int:
        """Number of moments, over all clips."""
        return sum(map(len, self.cameras.clips))

    def __getitem__(self, cell: SlotCell) -> dict[str, Any]:
        """Return one slot of a batch.

        Raises:
            ConfigError: `cell` is not an item of a `CameraStreamSampler`.
            DecodeError: a frame is damaged; names file and pts.
        """
        if not isinstance(cell, SlotCell):
            raise ConfigError(
                f"a CameraStreamDataset takes items of its sampler, not indices, got {cell!r}; use "
                "DataLoader(cameras, batch_sampler=CameraStreamSampler(cameras, ...))"
            )
        self._check_order(cell)
        pixels = np.zeros((1, len(self.cameras.cameras), *self._size, 3), np.uint8)
        for camera, frame in enumerate(self.cameras.frame[cell.row].tolist()):
            if frame != MISSING:
                self._read_frame(cell, camera, frame, pixels[0, camera])
        item = CameraBatch.of(
            self.cameras,
            [cell],
            self._collate.to_frames(pixels),
            np.full((*pixels.shape[:2], 2), self._size if cell.clip >= 0 else 0),
            np.zeros(pixels.shape[:2], bool),
            self._views.matrices([cell]),
            self._metadata,
        ).sample(0)
        if self._transform is not None:
            item["frames"] = apply_transform(self._transform, item["frames"], item)
        return item

    def _check_order(self, cell: SlotCell) -> None:
        """Warn once if the order of slots makes this process decode frames again."""
        last = self._last_cells.get(cell.slot)
        self._last_cells[cell.slot] = cell
        if self._is_warned or cell.clip < 0:
            return
        goes_on = last is not None and (cell.clip, cell.row) == (last.clip, last.row + 1)
        if last is not None and not cell.is_first:
            self._num_gaps += not goes_on
        if self._num_gaps > len(self._last_cells):  # after a resume, each slot has one
            problem = (
                f"this process reads slot {cell.slot} with gaps, and decodes the skipped frames "
                "for nothing; give CameraStreamSampler the num_workers of the DataLoader"
            )
        elif goes_on and self._keeps_sets and self._was_closed(cell):
            problem = (
                f"this process reads more slots than the {self._num_of_set} whose decoders stay "
                "open, so decoders restart at keyframes; raise num_of_set"
            )
        else:
            return
        self._is_warned = True
        warnings.warn(problem, stacklevel=3)

    def _was_closed(self, cell: SlotCell) -> bool:
        """Return whether the pool closed all decoders that a continuing slot still needs."""
        needed = [
            (cell.slot, camera)
            for camera, frame in enumerate(self.cameras.frame[cell.row - 1].tolist())
            if frame != MISSING and self._next_frame(cell, camera, frame) is not None
        ]
        return bool(needed) and not any(map(self._pool.holds, needed))

    def _next_frame(self, cell: SlotCell, camera: int, frame: int) -> int | None:
        """Return a camera's next frame after `frame` from moment `cell` on; None: no more."""
        end = self.cameras.clip_start[cell.clip + 1]
        return first_after(self.cameras.frame[cell.row : end, camera], frame)

    def _read_frame(self, cell: SlotCell, camera: int, frame: int, out: NDArray[np.uint8]) -> None:
        """Write a frame to `out`; a frame that consecutive moments repeat is decoded once."""
        stream, key = (cell.slot, camera), (cell.clip, cell.epoch, frame)
        last_key, pixels = self._last_frames.pop(stream, (None, out))
        if last_key == key:
            out[...] = pixels
        else:
            index = self.cameras.clips[cell.clip].indexes[camera]
            geometry = self._views.slot_geometry(cell, camera)
            following = self._next_frame(cell, camera, frame)
            decoder = self._pool.decoder(index, stream, geometry.shape)
            for job in stream_jobs(index, [frame], following):
                run_job(decoder, job, [out]).check()
            if following is None:
                self._pool.drop(index, stream)
            geometry.finish(out)
        rest = self.cameras.frame[cell.row + 1 : self.cameras.clip_start[cell.clip + 1], camera]
        if frame in rest[:1]:
            self._last_frames[stream] = key, out.copy()


def _checked_decoding(decoding: DecoderConfig | None, gpu: int | None) -> DecoderConfig:
    """Return the decoder; BackendError: it is not available, or keeps frames on the device."""
    check_integers(0, gpu=gpu)
    resolved = DecoderConfig.resolve(decoding, gpu)
    if resolved.keeps_on_device:
        raise BackendError(
            f"frames of a CameraStreamDataset cannot stay on {resolved.device}: DataLoader workers "
            "pass CPU memory only; use CameraLoader, or leave out keeps_on_device"
        )
    check_decoding(resolved)
    return resolved
