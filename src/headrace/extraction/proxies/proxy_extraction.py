"""Proxies of many videos: plan, estimate and list."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from headrace.decode.proxies import LIST, ProxyRow, write_rows
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_plan import KindSummary, PixelEstimate, Progress
from headrace.extraction.journal import Journal, JournalEntry, Lost, Outcome
from headrace.extraction.pilot import pilot, pixels_of
from headrace.extraction.progress_recorder import ProgressRecorder
from headrace.extraction.proxies.encoder import check_encoder
from headrace.extraction.proxies.proxy_options import ProxyOptions
from headrace.extraction.proxies.proxy_worker import make_proxies
from headrace.profiling.number_format import counted, percent
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Outcome as RunOutcome
from headrace.profiling.stage_records import Role
from headrace.runtime.child_spec import ChildFunction

_SAMPLES: Final = 4
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
    """Prepared extraction of proxies: `ProxyMaking.prepare(options).run()`. A worker produces one
    proxy at a time."""

    noun: ClassVar[str] = "frame"
    roles: ClassVar[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "compare": "sink"}
    concealed: ClassVar[str] = (
        "the file is damaged there; the proxy shows what FFmpeg shows instead"
    )
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
        plan, options = self.plan, self.options
        chunks = []
        for chunk in plan.spread(_SAMPLES):
            index = plan.indexes[chunk.video]
            first = int(index.gop_start[index.num_gops // 2]) if index.num_gops > 1 else 0
            stop = min(first + _FRAMES, len(index))
            chunks.append(replace(chunk, start=first, stop=stop, frames=stop - first))

        def size_of(upright: tuple[int, int]) -> tuple[int, int]:
            return options.size.of(upright)

        samples, indexes = pilot(self, chunks, size_of), plan.indexes.values()
        pixels = sum(pixels_of(size_of(index.info.upright_size)) * len(index) for index in indexes)
        seconds = samples.seconds(
            pixels, sum(pixels_of(index.info.upright_size) * len(index) for index in indexes)
        )
        return ProxyEstimate(
            videos=len(indexes),
            frames=plan.total,
            original_bytes=sum(index.fingerprint.size for index in indexes),
            samples=samples.frames,
            num_bytes=samples.num_bytes(pixels),
            seconds=None if seconds is None else seconds / self.workers,
            workers=self.workers,
            failures=tuple(
                f"a sample of {plan.path_of(chunk)} could not be made: {samples.failed[chunk.name]}"
                for chunk in chunks
                if chunk.name in samples.failed
            ),
        )
