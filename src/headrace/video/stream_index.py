"""StreamIndex: which frames a stream presents, when, and from where each can be decoded."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, OpenError, ScanError
from headrace.video.frame_status import FrameStatus, ReferenceResult, undamaged
from headrace.video.monotonic_pts import ascending
from headrace.video.packet_table import PacketTable, StreamInfo, read_packets
from headrace.video.random_access import BELIEVED, RandomAccess
from headrace.video.reference_decode import ReferenceDecode, read_reference, true_keyframes
from headrace.video.scan_check import needs_decoding
from headrace.video.source import FileStat, Source
from headrace.video.timebase import NO_PTS, float_seconds

CountBy = Literal["packets", "decode"]

_LOSSY = frozenset(["mpegts", "mpeg", "flv", "asf"])
"""Containers of transmission, in which packets may be missing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamIndex:
    """Every presented frame of one stream, without its pixels.

    `index` is the 0-based place of a frame in presentation order; a GOP runs from a keyframe up to
    the next one, in presentation order, so a frame is always decodable from its own GOP's keyframe.
    Ranges are half-open.
    """

    source: Source
    fingerprint: FileStat
    """Tells whether the file is still the one that was scanned."""
    info: StreamInfo
    pts: NDArray[np.int64]
    """int64 [frames], ascending: presentation time in ticks of `info.time_base`."""
    duration: NDArray[np.int64]
    """int64 [frames]: ticks until the next frame, or as the container says for the last."""
    ordinal: NDArray[np.int64]
    """int64 [frames]: place of the frame's packet in decoding order."""
    is_droppable: NDArray[np.bool_]
    """bool [frames]: no other frame refers to this one."""
    gop_start: NDArray[np.int64]
    """int64 [GOPs], ascending, first 0: index of the first frame of each GOP."""
    gop_ordinal: NDArray[np.int64]
    """int64 [GOPs], ascending: ordinal of the packet each GOP is decoded from."""
    gop_pts: NDArray[np.int64]
    """int64 [GOPs]: pts of that packet."""
    gop_dts: NDArray[np.int64]
    """int64 [GOPs]: dts of that packet."""
    gop_position: NDArray[np.int64]
    """int64 [GOPs]: byte of the file where that packet begins; -1 where the container is silent."""
    gop_trust: NDArray[np.uint8]
    """uint8 [GOPs]: `RandomAccess`: whether decoding from that packet gives right frames."""
    signature: NDArray[np.int64]
    """int64 [packets]: what tells each packet from others after a seek: `signature_of`."""
    told: NDArray[np.uint8]
    """uint8: parameter sets that came into force behind the first packet."""
    gop_told: NDArray[np.int64]
    """int64 [GOPs, 2]: [first, stop) of those of them that are in force where each GOP begins."""
    doubled: NDArray[np.int64]
    """int64: ordinals of packets that bring two frames from the start on; the first of the two is
    told as of the packet before."""
    is_told_once: bool
    """Whether a packet brings what later ones need, so that no codec can be made anew for them."""
    packets: int
    """Packets in the stream; more than frames when some are hidden, cut or damaged."""
    counted_by: CountBy
    """`packets`: each shown packet is a frame; `decode`: frames were counted by decoding them."""
    is_seekable: bool
    """Whether the stream can be entered anywhere but at its start."""
    problems: tuple[str, ...] = ()
    """What is wrong with the file, in words."""
    verdicts: FrameStatus = field(default_factory=lambda: FrameStatus(0))
    """What plain decodes found out so far; grows while the file is read."""
    kept_in: Path | None = None
    """The entry of the index store where it is kept, and what is found out later; None: nowhere."""

    @classmethod
    def scan(cls, source: "Source | str", *, count_by: CountBy | None = None) -> "StreamIndex":
        """Read every packet of `source` once and return its index.

        By default frames are counted by packets, and by decoding where packets cannot tell
        (fields, missing or doubled times, a start that is not a clean keyframe); `counted_by` says
        which. With `count_by="decode"` every picture is held against this decode when it is read.
        Cost: reads the file; decodes one frame, or every frame when counting by decoding.

        Raises:
            OpenError: it cannot be opened as video.
            ScanError: no frame can be found in it.
        """
        source = Source.of(source)
        fingerprint = source.fingerprint()
        table = read_packets(source)
        if count_by == "packets" or (count_by is None and not needs_decoding(table)):
            shown = np.flatnonzero(table.is_shown)
            pts = table.shown_pts
            ordinal = shown[np.argsort(pts[shown], kind="stable")]
            return _build(source, fingerprint, table, ordinal, pts[ordinal], "packets")
        is_doubtful = bool((table.trust[table.is_keyframe] == RandomAccess.DOUBTFUL).any())
        reference = read_reference(source, table, twice=count_by == "decode")
        if reference.reported:
            damage = f"damage is reported at {len(reference.reported)} of {len(table)} packets"
            table = replace(table, problems=(*table.problems, damage))
        if is_doubtful and table.info.codec not in BELIEVED:
            table = replace(table, is_keyframe=true_keyframes(source, table, reference))
        ordinal, doubled = reference.ordinal, reference.doubled
        index = _build(source, fingerprint, table, ordinal, reference.pts, "decode", doubled)
        is_whole = not reference.reported and len(index) >= int(table.is_shown.sum())
        if is_doubtful or not is_whole or count_by == "decode":
            _note(index, reference)
        return index

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def num_gops(self) -> int:
        """Number of GOPs."""
        return len(self.gop_start)

    @property
    def original_size(self) -> tuple[int, int]:
        """(height, width) of upright frames of the video, where it is read from a proxy too."""
        return self.info.upright_size

    @property
    def decoded_gop_lengths(self) -> NDArray[np.int64]:
        """int64: presented frames of each GOP that is decoded: those of the proxy, if of one."""
        return self.gop_lengths

    def gop_of(self, index: int) -> int:
        """Return the number of the GOP that frame `index` is decoded from."""
        return int(np.searchsorted(self.gop_start, self.check(index), "right")) - 1

    def gop_range(self, gop: int) -> tuple[int, int]:
        """Return [first, end) of the indices of GOP number `gop`."""
        stop = self.gop_start[gop + 1] if gop + 1 < self.num_gops else len(self)
        return int(self.gop_start[gop]), int(stop)

    @cached_property
    def gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs]: presented frames of each GOP."""
        return np.diff(self.gop_start, append=len(self))

    @cached_property
    def is_keyframe(self) -> NDArray[np.bool_]:
        """bool [frames]: decoding can start here; a GOP whose keyframe is hidden has none."""
        marks = np.zeros(len(self), np.bool_)
        marks[self.gop_start] = self.ordinal[self.gop_start] == self.gop_ordinal
        return marks

    def told_before(self, gop: int) -> bytes:
        """Return the parameter sets a codec must be told that begins at a GOP."""
        first, stop = self.gop_told[gop]
        return self.told[first:stop].tobytes()

    def told_before_packet(self, ordinal: int) -> bytes | None:
        """Return the parameter sets in force before a packet; None where no GOP begins at it, or
        no codec can be made anew.
        """
        gop = self.gop_of_ordinal(ordinal)
        is_known = not self.is_told_once and gop >= 0 and self.gop_ordinal[gop] == ordinal
        return self.told_before(gop) if is_known else None

    def number_of(self, ordinal: int) -> int:
        """Return the index of the frame that packet becomes; -1 for none, or past the index."""
        return int(self.index_of_ordinal[ordinal]) if 0 <= ordinal < self.packets else -1

    def gop_of_ordinal(self, ordinal: int) -> int:
        """Return the number of the GOP that a packet belongs to, in decoding order."""
        return int(np.searchsorted(self.gop_ordinal, ordinal, "right")) - 1

    def index_at(self, pts: int) -> int:
        """Return the index of the frame shown at `pts` ticks: the last that starts at or before.

        Before the first frame it is 0.
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
        """Average frames per second, by the frames' own times; 0 when there is but one instant."""
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
        """Whether frames are unevenly spaced, by more than rounding to ticks explains."""
        gaps = np.diff(self.pts)
        return bool(len(gaps) and gaps.max() - gaps.min() > max(2, gaps.min() // 20))

    @cached_property
    def has_open_gops(self) -> bool:
        """Whether some GOP holds frames that are decoded after the next GOP's keyframe."""
        gop = np.repeat(np.arange(self.num_gops), self.gop_lengths)
        following = np.append(self.gop_ordinal[1:], self.packets)
        return bool((self.ordinal > following[gop]).any())

    @cached_property
    def has_late_frames(self) -> bool:
        """Whether some frame is decoded before another, and shown after it."""
        return bool((np.diff(self.ordinal) < 0).any())

    @cached_property
    def can_skip(self) -> bool:
        """Whether droppable frames nobody asked for may stay undecoded with the same result.

        It holds on clean streams of closed GOPs; not on those that start at an open one, nor where
        packets may be lost without a word: a transport stream whose times have gaps.
        """
        may_lack = self.is_vfr and self.info.container in _LOSSY
        is_clean = not self.has_open_gops and not self.problems and not may_lack
        return bool(self.is_droppable.any()) and is_clean

    @property
    def has_sure_times(self) -> bool:
        """Whether a packet is known by its pts alone, wherever reading began: pictures in files."""
        return self.info.container == "image2"

    @cached_property
    def index_of_ordinal(self) -> NDArray[np.int64]:
        """int64 [packets]: index of the frame each packet becomes, -1 for none."""
        table = np.full(self.packets, -1, np.int64)
        table[self.ordinal] = np.arange(len(self))
        return table

    @cached_property
    def is_unique(self) -> NDArray[np.bool_]:
        """bool [packets]: no other packet has the same signature."""
        _, place, count = np.unique(self.signature, return_inverse=True, return_counts=True)
        unique: NDArray[np.bool_] = count[place] == 1
        return unique

    def check_unchanged(self, wanted: int) -> None:
        """Do nothing if the file is still the one that was scanned; asks the file system.

        Args:
            wanted: The frame that it is to be read for.

        Raises:
            OpenError: it has changed since, or is gone. Its pts is that of the frame.
        """
        what = f"frame {wanted} of it was asked for (at {self.seconds(wanted):.3f} s)"
        pts = int(self.pts[wanted])
        try:
            found = self.source.fingerprint()
        except OpenError as error:
            raise OpenError(f"{error}; {what}", source=error.source, pts=pts) from error
        if found != self.fingerprint:
            raise OpenError(
                f"{self.source} has changed since it was indexed: it had {self.fingerprint.size} "
                f"bytes, now {found.size}, or was written again; open it anew; {what}",
                source=str(self.source),
                pts=pts,
            )

    def check(self, index: int) -> int:
        """Return `index` if there is such a frame.

        Raises:
            ConfigError: there is not.
        """
        if not 0 <= index < len(self):
            raise ConfigError(
                f"frame {index} was asked of {self.source}, which has {len(self)} frames "
                f"(0 to {len(self) - 1})"
            )
        return index


def _note(index: StreamIndex, reference: ReferenceDecode) -> None:
    """Keep what the plain decode that counted the frames saw of each."""
    witnessed = ReferenceResult(
        digests=dict(enumerate(reference.digest.tolist())),
        reported=set(reference.reported),
        unreferenced=set(np.flatnonzero(reference.is_unreferenced).tolist()),
    )
    index.verdicts.note(0, len(index), undamaged(index, witnessed, 0, len(index)))


def _build(
    source: Source,
    fingerprint: FileStat,
    table: PacketTable,
    ordinal: NDArray[np.int64],
    pts: NDArray[np.int64],
    count_by: CountBy,
    doubled: tuple[int, ...] = (),
) -> StreamIndex:
    if not len(ordinal):
        raise ScanError(
            f"cannot index {source}: none of its {len(table)} packets is presented as a frame; "
            "its edit list hides them, or it is damaged",
            source=str(source),
        )
    is_timed = not (table.pts == NO_PTS).any()
    if (pts == NO_PTS).any():
        pts = _invented_pts(table.info, len(ordinal))
    pts = ascending(pts)
    gops = _gops(table, ordinal, pts, is_timed)
    at = gops[:, 1]
    return StreamIndex(
        source=source,
        fingerprint=fingerprint,
        info=table.info,
        pts=pts,
        duration=_durations(pts, table.duration[ordinal]),
        ordinal=ordinal,
        is_droppable=table.is_droppable[ordinal],
        gop_start=gops[:, 0],
        gop_ordinal=at,
        gop_pts=table.pts[at],
        gop_dts=table.dts[at],
        gop_position=table.position[at],
        gop_trust=np.append(np.uint8(RandomAccess.CERTAIN), table.trust[at[1:]]),
        signature=table.signature,
        told=np.frombuffer(table.told, np.uint8),
        gop_told=table.told_range[at],
        doubled=np.array(doubled, np.int64),
        is_told_once=table.is_told_once,
        verdicts=FrameStatus(len(ordinal)),
        packets=len(table),
        counted_by=count_by,
        is_seekable=is_timed,
        problems=table.problems + _lost(table, len(ordinal), count_by),
    )


def _gops(
    table: PacketTable, ordinal: NDArray[np.int64], pts: NDArray[np.int64], is_timed: bool
) -> NDArray[np.int64]:
    """Return [GOPs, 2]: index of the first frame and ordinal of the keyframe of each GOP.

    A keyframe that is itself not presented (an edit list hides it) opens its GOP at the first
    frame that is presented after it.
    """
    index_of = np.full(len(table), -1, np.int64)
    index_of[ordinal] = np.arange(len(ordinal))
    keyframes = np.flatnonzero(table.is_keyframe)
    start = index_of[keyframes]
    hidden = start < 0
    if is_timed:
        start[hidden] = np.searchsorted(pts, table.shown_pts[keyframes[hidden]], "left")
    else:
        keyframes, start = keyframes[~hidden], start[~hidden]
    rows = np.stack([start, keyframes], axis=1)[start < len(ordinal)]
    # Frames before the first keyframe, or with it, are decoded from the start unless it is certain.
    is_entry = (rows[:, 0] > 0) | (table.trust[rows[:, 1]] == RandomAccess.CERTAIN)
    rows = np.concatenate([np.zeros((1, 2), np.int64), rows[is_entry]])
    is_last_of_start = np.append(np.diff(rows[:, 0]) > 0, True)
    if not (np.diff(rows[:, 0]) >= 0).all():
        # Keyframes out of presentation order: enter only at the start.
        return rows[:1]
    gops: NDArray[np.int64] = rows[is_last_of_start]
    return gops


def _invented_pts(info: StreamInfo, num_frames: int) -> NDArray[np.int64]:
    """Return times at the nominal rate for a stream that has none."""
    rate = info.nominal_rate or Fraction(25)
    step = 1 / (rate * info.time_base)
    return np.array([round(k * step) for k in range(num_frames)], np.int64)


def _durations(pts: NDArray[np.int64], said: NDArray[np.int64]) -> NDArray[np.int64]:
    gaps = np.diff(pts)
    last = said[-1] if said[-1] > 0 else (int(np.median(gaps)) if len(gaps) else 0)
    durations: NDArray[np.int64] = np.append(gaps, last).astype(np.int64)
    return durations


def _lost(table: PacketTable, num_frames: int, count_by: CountBy) -> tuple[str, ...]:
    expected = int(table.is_shown.sum())
    if count_by == "packets" or num_frames >= expected:
        return ()
    return (f"{expected - num_frames} of {expected} packets give no frame",)
