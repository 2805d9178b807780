"""Proxies of many videos: plan, estimate, list and totals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from headrace.decode.proxies import LIST, ProxyRow, write_rows
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_plan import KindSummary, Progress
from headrace.extraction.journal import Journal, JournalEntry, Lost, Outcome
from headrace.extraction.pilot import PixelEstimate, pilot
from headrace.extraction.progress_recorder import ProgressRecorder
from headrace.extraction.proxies.encoder import check_encoder
from headrace.extraction.proxies.make_proxy import make_proxies
from headrace.extraction.proxies.proxy_options import ProxyOptions
from headrace.profiling.number_format import counted, percent
from headrace.profiling.run_records import Role, Setup
from headrace.profiling.session import Outcome as RunOutcome
from headrace.runtime.child_process import ChildFunction

_SAMPLES: Final = 4
"""Max samples for an estimate."""
_FRAMES: Final = 64
"""Max frames of a sample."""


@dataclass(frozen=True, kw_only=True)
class ProxyEstimate(PixelEstimate):
    """Size and time of the proxies of an extraction."""

    original_bytes: int
    """Bytes of the files of the originals."""

    @property
    def contents(self) -> str:
        """The output in words."""
        return f"proxies of {counted(self.frames, 'frame')} of {counted(self.videos, 'video')}"

    @property
    def size_basis(self) -> str:
        """Basis of the estimated size, in words."""
        share = percent((self.num_bytes or 0) / self.original_bytes)
        return f"{share} of the originals, estimated from {counted(self.samples, 'frame')}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyMaking(Extraction[ProxyOptions]):
    """Prepared extraction of proxies: `ProxyMaking.prepare(options).run()`.

    A worker makes one proxy at a time.
    """

    noun: ClassVar[str] = "frame"
    roles: ClassVar[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "compare": "sink"}
    concealed: ClassVar[str] = "the file is damaged there; FFmpeg conceals the damage in the proxy"
    outputs: ClassVar[tuple[str, ...]] = (LIST,)
    is_by_video: ClassVar[bool] = True
    function: ChildFunction = field(default=make_proxies)

    @classmethod
    def check(cls, options: ProxyOptions) -> None:
        """Check that the encoder is installed: see `Extraction.check`."""
        check_encoder(options.codec)

    def outcome_of(self, entry: JournalEntry) -> Outcome:
        """Return the outcome of a video from its journal entry."""
        if not entry.files:
            return Outcome(came=0, lost=(Lost(0, str(entry.facts["left_out"])),))
        row = ProxyRow.parse(entry.facts)
        return Outcome(came=row.frames, concealed=tuple(row.lost))

    def finish(self, journal: Journal, progress: Progress) -> None:
        """Write the list of the finished proxies."""
        entries = [progress.entries.get(chunk.name) for chunk in self.plan.chunks]
        rows = (ProxyRow.parse(entry.facts) for entry in entries if entry and entry.files)
        write_rows(journal.folder, rows)

    def summarize(self, recorder: ProgressRecorder, outcome: RunOutcome) -> KindSummary:
        """Return the settings of encoding, and the list of proxies."""
        return KindSummary(setup=Setup(batch_size=1), outputs=self.outputs)

    def estimate(self) -> ProxyEstimate:
        """Return size and time of the proxies.

        Makes up to 4 samples of 64 frames, spread over the videos, and discards them.
        """
        plan, chunks = self.plan, []
        for chunk in plan.sample(_SAMPLES):
            index = plan.indexes[chunk.video]
            first = int(index.gop_start[index.num_gops // 2]) if index.num_gops > 1 else 0
            stop = min(first + _FRAMES, len(index))
            chunks.append(replace(chunk, start=first, stop=stop, frames=stop - first))
        return ProxyEstimate.of(
            self,
            pilot(self, chunks, self.options.size.of),
            {chunk.name: plan.path_of(chunk) for chunk in chunks},
            original_bytes=sum(index.fingerprint.size for index in plan.indexes.values()),
        )


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Luma quality relative to the originals, in the size of the proxies."""

    mean: float
    """Mean over all frames, from the means of their videos."""
    worst: float
    """Worst frame."""
    worst_path: str
    """Path of the original with the worst frame."""


@dataclass(frozen=True, kw_only=True)
class ProxyTotals:
    """Totals of all proxies in a folder."""

    proxies: int
    frames: int
    bytes: int
    original_bytes: int
    seconds: float
    """Seconds to make them, summed over the workers."""
    psnr: Quality | None
    """Decibel; 100 for equal frames."""
    ssim: Quality | None
    """Up to 1; windows of 8x8. None if all proxies are smaller."""

    @classmethod
    def of(cls, rows: Sequence[ProxyRow]) -> "ProxyTotals | None":
        """Return the totals of `rows`; None without rows."""
        if not rows:
            return None
        return cls(
            proxies=len(rows),
            frames=sum(row.frames for row in rows),
            bytes=sum(row.bytes for row in rows),
            original_bytes=sum(row.original_bytes for row in rows),
            seconds=round(sum(row.seconds for row in rows), 3),
            psnr=_quality(rows, [row.psnr for row in rows]),
            ssim=_quality(rows, [row.ssim for row in rows]),
        )


def _quality(rows: Sequence[ProxyRow], measures: Sequence[Mapping[str, float]]) -> Quality | None:
    pairs = [(row, measure) for row, measure in zip(rows, measures, strict=True) if measure]
    if not pairs:
        return None
    frames = sum(row.frames for row, _ in pairs)
    mean = sum(row.frames * measure["mean"] for row, measure in pairs) / frames
    worst, path = min((measure["worst"], row.path) for row, measure in pairs)
    return Quality(mean=round(mean, 5), worst=worst, worst_path=path)
