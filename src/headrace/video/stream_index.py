"""StreamIndex: the frames of a stream, their times, and the GOPs they are decoded from."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError, OpenError, ScanError
from headrace.video.packet_table import PacketTable, StreamInfo, read_packets
from headrace.video.random_access import KEYFRAME_RULES, RandomAccess
from headrace.video.reference_decode import (
    FrameStatus,
    ReferenceResult,
    read_reference,
    verify_keyframes,
)
from headrace.video.scan_check import durations_of, gops_of, invented_pts, needs_decoding
from headrace.video.source import FileStat, Source
from headrace.video.timebase import NO_PTS, float_seconds, make_ascending

CountBy = Literal["packets", "decode"]

_LOSSY = frozenset(["mpegts", "mpeg", "flv", "asf"])
"""Streaming containers, in which packets may be missing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamIndex:
    """Every presented frame of a stream, without pixels.

    `index` is a frame's 0-based position in presentation order. A GOP runs from a keyframe up to
    the next one, in presentation order, so each frame is decodable from its GOP's keyframe. Ranges
    are half-open.
    """

    source: Source
    fingerprint: FileStat
    """Size and time of the scanned file, to detect changes."""
    info: StreamInfo
    pts: NDArray[np.int64]
    """int64 [frames], ascending: presentation time in ticks of `info.time_base`."""
    duration: NDArray[np.int64]
    """int64 [frames]: ticks until the next frame; for the last frame, the container's duration."""
    packet_index: NDArray[np.int64]
    """int64 [frames]: index of the frame's packet, in decoding order."""
    is_disposable: NDArray[np.bool_]
    """bool [frames]: whether no other frame refers to this one."""
    gop_start: NDArray[np.int64]
    """int64 [GOPs], ascending, first 0: index of the first frame of each GOP."""
    gop_packet: NDArray[np.int64]
    """int64 [GOPs], ascending: index of the packet that each GOP is decoded from."""
    gop_pts: NDArray[np.int64]
    """int64 [GOPs]: pts of that packet."""
    gop_dts: NDArray[np.int64]
    """int64 [GOPs]: dts of that packet."""
    gop_position: NDArray[np.int64]
    """int64 [GOPs]: byte of the file where that packet starts; -1 if the container has none."""
    gop_random_access: NDArray[np.uint8]
    """uint8 [GOPs]: `RandomAccess` of that packet."""
    signature: NDArray[np.int64]
    """int64 [packets]: identifies each packet after a seek: see `signature_of`."""
    parameter_sets: NDArray[np.uint8]
    """uint8: parameter sets that come into force after the first packet, concatenated."""
    gop_parameter_sets: NDArray[np.int64]
    """int64 [GOPs, 2]: byte range [first, stop) of `parameter_sets` in force at the start of each
    GOP."""
    doubled: NDArray[np.int64]
    """int64: indices of packets that output two frames in a decode from the start; the first frame
    is assigned to the packet before."""
    needs_one_codec: bool
    """Whether a packet has data that later packets need, so that no codec can be opened for
    them."""
    packets: int
    """Number of packets; above the number of frames if some are hidden, cut or damaged."""
    counted_by: CountBy
    """`packets`: each shown packet is a frame. `decode`: frames were counted by decoding."""
    is_seekable: bool
    """Whether decoding can start elsewhere than at the stream's start."""
    problems: tuple[str, ...] = ()
    """Description of each fault of the file."""
    frame_status: FrameStatus = field(default_factory=lambda: FrameStatus(0))
    """Results of reference decodes so far; grows while the file is read."""
    store_path: Path | None = None
    """Entry of the index store with this index; None: not stored."""

    @classmethod
    def scan(cls, source: "Source | str", *, count_by: CountBy | None = None) -> "StreamIndex":
        """Read every packet of `source` once and return its index.

        By default frames are counted by packets, or by decoding if packets do not define them
        (fields, missing or duplicate times, a start that is not a clean keyframe): see
        `counted_by`. With `count_by="decode"` every later read is compared with this decode; frames
        keep their indices, also around damage, unless the decode contradicts order or times of the
        packets.
        Cost: reads the file; decodes one frame, or every frame if it counts by decoding.

        Raises:
            OpenError: it cannot be opened as video.
            ScanError: it has no frame.
        """
        source = Source.of(source)
        fingerprint = source.fingerprint()
        table = read_packets(source)
        shown = np.flatnonzero(table.is_shown)
        by_packets = shown[np.argsort(table.shown_pts[shown], kind="stable")]
        is_defined = count_by == "packets" or not needs_decoding(table)
        if is_defined and count_by != "decode":
            return _build(source, fingerprint, table, by_packets, table.shown_pts[by_packets])
        is_unverified = bool(
            (table.random_access[table.is_keyframe] == RandomAccess.UNVERIFIED).any()
        )
        reference = read_reference(source, table, twice=count_by == "decode")
        damage = reference.damage(len(table), len(shown))
        table = replace(table, problems=(*table.problems, *damage))
        if is_unverified and table.info.codec not in KEYFRAME_RULES:
            table = replace(table, is_keyframe=verify_keyframes(source, table, reference))
        packet_index = np.array([*reference.frames], np.int64)
        pts = np.array([frame.pts for frame in reference.frames.values()], np.int64)
        counted_by: CountBy = "decode"
        if (
            is_defined
            and np.array_equal(packet_index, by_packets[np.isin(by_packets, packet_index)])
            and np.array_equal(pts, table.shown_pts[packet_index])
        ):  # a frame without output keeps its index, so that verifying moves no other frame
            packet_index, pts, counted_by = by_packets, table.shown_pts[by_packets], "packets"
        index = _build(source, fingerprint, table, packet_index, pts, counted_by, reference.doubled)
        if is_unverified or damage or count_by == "decode":
            index.frame_status.note(0, len(index), undamaged(index, reference, 0, len(index)))
        return index

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def num_gops(self) -> int:
        """Number of GOPs."""
        return len(self.gop_start)

    @property
    def original_size(self) -> tuple[int, int]:
        """(height, width) of upright frames of the video; for a proxy, of its original."""
        return self.info.upright_size

    @property
    def decoded_gop_lengths(self) -> NDArray[np.int64]:
        """int64: presented frames of each decoded GOP; for a proxy, of the proxy's GOPs."""
        return self.gop_lengths

    def gop_of(self, index: int) -> int:
        """Return the GOP that frame `index` is decoded from."""
        return int(np.searchsorted(self.gop_start, self.check(index), "right")) - 1

    def gop_range(self, gop: int) -> tuple[int, int]:
        """Return [first, end) of the indices of a GOP."""
        stop = self.gop_start[gop + 1] if gop + 1 < self.num_gops else len(self)
        return int(self.gop_start[gop]), int(stop)

    @cached_property
    def gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs]: presented frames of each GOP."""
        return np.diff(self.gop_start, append=len(self))

    @cached_property
    def is_keyframe(self) -> NDArray[np.bool_]:
        """bool [frames]: whether decoding can start here; a hidden keyframe has no True."""
        is_keyframe = np.zeros(len(self), np.bool_)
        is_keyframe[self.gop_start] = self.packet_index[self.gop_start] == self.gop_packet
        return is_keyframe

    def parameter_sets_before(self, gop: int) -> bytes:
        """Return the parameter sets that a codec needs to start at a GOP."""
        first, stop = self.gop_parameter_sets[gop]
        return self.parameter_sets[first:stop].tobytes()

    def parameter_sets_before_packet(self, packet_index: int) -> bytes | None:
        """Return the parameter sets in force before a packet.

        Returns None if no GOP starts at it, or no codec can be opened there.
        """
        gop = self.gop_of_packet(packet_index)
        is_known = not self.needs_one_codec and gop >= 0 and self.gop_packet[gop] == packet_index
        return self.parameter_sets_before(gop) if is_known else None

    def frame_index_of(self, packet_index: int) -> int:
        """Return the index of a packet's frame; -1 if the packet has none or is out of range."""
        return self.frame_of_packet.item(packet_index) if 0 <= packet_index < self.packets else -1

    def gop_of_packet(self, packet_index: int) -> int:
        """Return the GOP that a packet belongs to, in decoding order."""
        return int(np.searchsorted(self.gop_packet, packet_index, "right")) - 1

    def index_at(self, pts: int) -> int:
        """Return the index of the frame shown at `pts` ticks: the last that starts at or before it.

        Returns 0 before the first frame.
        """
        return max(0, int(np.searchsorted(self.pts, pts, "right")) - 1)

    def seconds(self, index: int) -> float:
        """Return the presentation time of frame `index` in seconds."""
        return float(int(self.pts[self.check(index)]) * self.info.time_base)

    def seconds_of(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the presentation times of `indices` in seconds, float64 of the same shape."""
        return float_seconds(self.pts[indices], self.info.time_base)

    @cached_property
    def frame_rate(self) -> Fraction:
        """Average frames per second, by the frames' times.

        Without a duration, the nominal rate, or 0.
        """
        span = int(self.pts[-1] - self.pts[0]) + int(self.duration[-1])
        if span <= 0:
            return self.info.nominal_rate or Fraction(0)
        return (len(self) / (span * self.info.time_base)).limit_denominator(100_000)

    @cached_property
    def duration_seconds(self) -> float:
        """Seconds from the first frame to the end of the last."""
        ticks = int(self.pts[-1] - self.pts[0]) + int(self.duration[-1])
        return float(ticks * self.info.time_base)

    @cached_property
    def is_vfr(self) -> bool:
        """Whether frames are unevenly spaced, beyond rounding to ticks."""
        gaps = np.diff(self.pts)
        return bool(len(gaps) and gaps.max() - gaps.min() > max(2, gaps.min() // 20))

    @cached_property
    def has_open_gops(self) -> bool:
        """Whether a GOP has frames that are decoded after the next GOP's keyframe."""
        gop = np.repeat(np.arange(self.num_gops), self.gop_lengths)
        following = np.append(self.gop_packet[1:], self.packets)
        return bool((self.packet_index > following[gop]).any())

    @cached_property
    def has_late_frames(self) -> bool:
        """Whether a frame is decoded before another one and shown after it."""
        return bool((np.diff(self.packet_index) < 0).any())

    @cached_property
    def can_skip(self) -> bool:
        """Whether the result stays the same if unrequested disposable frames are skipped.

        True for clean streams of closed GOPs, unless packets may be missing without notice, as in a
        transport stream with gaps in its times.
        """
        may_lack = self.is_vfr and self.info.container in _LOSSY
        is_clean = not self.has_open_gops and not self.problems and not may_lack
        return bool(self.is_disposable.any()) and is_clean

    @cached_property
    def frame_of_packet(self) -> NDArray[np.int64]:
        """int64 [packets]: index of each packet's frame; -1 for a packet without a frame."""
        table = np.full(self.packets, -1, np.int64)
        table[self.packet_index] = np.arange(len(self))
        return table

    @cached_property
    def is_unique(self) -> NDArray[np.bool_]:
        """bool [packets]: whether no other packet has the same signature."""
        _, position, count = np.unique(self.signature, return_inverse=True, return_counts=True)
        unique: NDArray[np.bool_] = count[position] == 1
        return unique

    def check_unchanged(self, wanted: int) -> None:
        """Check that the file is unchanged since the scan; queries the file system.

        Args:
            wanted: Index of the frame to read next.

        Raises:
            OpenError: it has changed, or is missing; the error has the frame's pts.
        """
        try:
            fingerprint = self.source.fingerprint()
            if fingerprint == self.fingerprint:
                return
            raise OpenError(
                f"{self.source} has changed since it was indexed: it had {self.fingerprint.size} "
                f"bytes, now {fingerprint.size}, or another modification time; open it again",
                source=str(self.source),
            )
        except OpenError as error:
            request = f"frame {wanted} was requested (at {self.seconds(wanted):.3f} s)"
            pts = int(self.pts[wanted])
            raise OpenError(f"{error}; {request}", source=error.source, pts=pts) from error

    def check(self, index: int) -> int:
        """Return `index` if the frame exists.

        Raises:
            ConfigError: it does not.
        """
        if not 0 <= index < len(self):
            raise ConfigError(
                f"frame {index} is out of range: {self.source} has {len(self)} frames "
                f"(0 to {len(self) - 1})"
            )
        return index


def undamaged(index: StreamIndex, result: ReferenceResult, first: int, stop: int) -> dict[int, int]:
    """Return frame index -> digest of the undamaged frames in [first, stop)."""
    reported = sorted(result.reported)
    good: dict[int, int] = {}
    for packet_index, frame in result.frames.items():
        frame_index = index.frame_index_of(packet_index)
        if first <= frame_index < stop and not _may_show_damage(
            index, frame_index, reported, result
        ):
            good[frame_index] = frame.digest
    return good


def _may_show_damage(
    index: StreamIndex, frame_index: int, reported: Sequence[int], result: ReferenceResult
) -> bool:
    """Return whether reported damage may show in a frame.

    A damaged reference frame affects every later frame of its GOP, and frames of the next GOP that
    refer to it. If it is shown before its GOP's keyframe, it affects only other frames shown there.
    A disposable frame affects only itself.
    """
    if not reported:
        return False
    packet_index = int(index.packet_index[frame_index])
    gops = {index.gop_of_packet(packet_index), index.gop_of(frame_index)}
    for bad in reported:
        if bad == packet_index:
            return True
        gop = index.gop_of_packet(bad)
        if bad > packet_index or gop not in gops:
            continue
        bad_frame = index.frame_index_of(bad)
        if bad_frame < 0:
            return True
        is_alone = bad in result.frames and result.frames[bad].is_unreferenced
        if index.is_disposable[bad_frame] or is_alone:
            continue
        keyframe = index.gop_start[gop]
        if bad_frame >= keyframe or frame_index < keyframe:
            return True
    return False


def _build(
    source: Source,
    fingerprint: FileStat,
    table: PacketTable,
    packet_index: NDArray[np.int64],
    pts: NDArray[np.int64],
    counted_by: CountBy = "packets",
    doubled: tuple[int, ...] = (),
) -> StreamIndex:
    if not len(packet_index):
        raise ScanError(
            f"cannot index {source}: none of its {len(table)} packets is presented as a frame; "
            "its edit list hides them, or it is damaged",
            source=str(source),
        )
    has_times = not (table.pts == NO_PTS).any()
    if (pts == NO_PTS).any():
        pts = invented_pts(table.info, len(packet_index))
    pts = make_ascending(pts)
    gops = gops_of(table, packet_index, pts, has_times)
    keyframes = gops[:, 1]
    return StreamIndex(
        source=source,
        fingerprint=fingerprint,
        info=table.info,
        pts=pts,
        duration=durations_of(pts, table.duration[packet_index]),
        packet_index=packet_index,
        is_disposable=table.is_disposable[packet_index],
        gop_start=gops[:, 0],
        gop_packet=keyframes,
        gop_pts=table.pts[keyframes],
        gop_dts=table.dts[keyframes],
        gop_position=table.position[keyframes],
        gop_random_access=np.append(
            np.uint8(RandomAccess.GUARANTEED), table.random_access[keyframes[1:]]
        ),
        signature=table.signature,
        parameter_sets=np.frombuffer(table.parameter_sets, np.uint8),
        gop_parameter_sets=table.parameter_set_ranges[keyframes],
        doubled=np.array(doubled, np.int64),
        needs_one_codec=table.needs_one_codec,
        frame_status=FrameStatus(len(packet_index)),
        packets=len(table),
        counted_by=counted_by,
        is_seekable=has_times,
        problems=table.problems,
    )
