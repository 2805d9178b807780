"""Extraction of features: read from the cache or computed by workers, and written to tables."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import ClassVar, Final, Self

import numpy as np

from headrace.cache.cache_url import NONE, Cache, open_cache
from headrace.cache.store import ignore_warning
from headrace.cached_property import cached_property
from headrace.errors import ConfigError, HeadraceError
from headrace.extraction.chunk_worker import chunk_message
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_plan import (
    Estimate,
    ExtractionPlan,
    KindSummary,
    Progress,
    Videos,
)
from headrace.extraction.features.feature_options import (
    FeatureOptions,
    feature_chunks,
    on_ray,
    table_facts,
    weights_digest_of,
)
from headrace.extraction.features.feature_result import VideoName
from headrace.extraction.features.model_signature import KeyMaker, KnownFacts, Lookup, feature_facts
from headrace.extraction.features.model_spec import ModelSignature
from headrace.extraction.features.table_store import PartFiles, TableStore, gather
from headrace.extraction.journal import Journal, JournalEntry, Outcome
from headrace.extraction.pilot import Pilot, pilot
from headrace.extraction.progress_recorder import ProgressRecorder
from headrace.extras import check_extra
from headrace.profiling.number_format import counted, megabytes, seconds
from headrace.profiling.run_records import Role, Setup
from headrace.profiling.session import Outcome as RunOutcome
from headrace.records import from_dict, to_dict
from headrace.runtime.child_process import ChildFunction, Json
from headrace.runtime.clock import Clock
from headrace.runtime.worker_pool import PoolResult, PoolTask
from headrace.video.frames import FrameLoss
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturePlan(ExtractionPlan):
    """Samples and chunks of an extraction, and the signature of its model."""

    facts: ModelSignature
    """Signature of the model."""

    @classmethod
    def of(cls, options: FeatureOptions, videos: Videos, facts: ModelSignature) -> Self:
        """Cut the samples of all videos into chunks.

        Raises:
            ConfigError: no video has a sample, or a time lies after the end of a video.
        """
        size, indexes = sample_bytes(options, facts), videos.indexes
        chunks = {
            number: feature_chunks(number, index, options.sampling, sample_bytes=size)
            for number, index in indexes.items()
        }
        without_samples = [indexes[number] for number in chunks if not chunks[number]]
        if len(without_samples) == len(chunks):
            raise ConfigError(_no_sample(options, without_samples[0]))
        losses = [
            FrameLoss(source=str(index.source), index=None, cause=_no_sample(options, index))
            for index in without_samples
        ]
        notes = [f"not cached: {facts.uncached}"] if facts.uncached else []
        if facts.is_training:
            notes.append(f"{facts.origin} is in training mode; it runs in evaluation mode")
        return cls(
            request=options.request(videos.asked, weights_digest=weights_digest_of(facts)),
            facts=facts,
            indexes=indexes,
            wanted={number: options.sampling.starts(index) for number, index in indexes.items()},
            chunks=tuple(chunk for chunks_of_video in chunks.values() for chunk in chunks_of_video),
            left_out=(*videos.left_out, *losses),
            notes=(*videos.notes, *notes),
        )


_CHUNKS: Final = 4
"""Chunks whose first samples are computed for an estimate."""
_SAMPLES: Final = 8
"""Samples computed per chunk for an estimate."""


@dataclass(frozen=True, kw_only=True)
class FeatureEstimate(Estimate):
    """Size and time of an extraction of features. `num_bytes` is exact, before compression."""

    num_bytes: int
    samples: int
    """Features in the output, exact if no frame is damaged."""
    chunks: int
    done: int
    """Chunks with features in the output folder."""
    cached: int
    """Chunks with features in the cache but not in the folder."""
    missing: int
    """Samples in all other chunks."""
    shape: tuple[int, ...]
    """Shape of one feature."""
    dtype: str
    tried: int
    """Samples computed for the time estimate."""

    def lines(self, out: Path) -> Iterator[str]:
        """Yield the text of a dry run: see `Estimate.lines`."""
        shape = "x".join(map(str, self.shape)) or "1"
        yield (
            f"Dry run: {counted(self.samples, 'feature')} of {counted(self.videos, 'video')}, "
            f"{shape} {self.dtype} each, would be written to {out}"
        )
        yield f"Size: {megabytes(self.num_bytes)}, before compression"
        yield f"Chunks: {self.chunks:,}; {self.done:,} are done, {self.cached:,} are in the cache"
        if self.seconds is None:
            reason = "no sample could be computed" if self.missing else "nothing is left to compute"
            yield f"Time: not estimated, {reason}"
        else:
            chunks = counted(self.chunks - self.done - self.cached, "chunk")
            yield (
                f"Time: about {seconds(self.seconds)} on {counted(self.workers, 'worker')} for the "
                f"{chunks} to compute, estimated from {counted(self.tried, 'sample')} on one worker"
            )


def extract_features(argument: Json, send: Callable[[Json], None]) -> Json:
    """Run all remaining chunks: see `Extraction.pool_task`.

    An error of the whole run (a full disk, a failing model, a bad frame with `on_error` "raise") is
    reported, and ends this worker.
    """
    from headrace.extraction.features.feature_worker import do_loaded_features

    assert isinstance(argument, dict)
    do_loaded_features(argument, send)
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureExtraction(Extraction[FeatureOptions]):
    """Prepared extraction of features: `FeatureExtraction.prepare(options).run()`.

    For a new model, `prepare` loads the model once in a child process, to determine the shape of
    its features and the digest of its weights; both are cached.
    """

    noun: ClassVar[str] = "feature"
    roles: ClassVar[Mapping[str, Role]] = {
        "decode": "decode",
        "prepare": "preprocess",
        "transfer": "transfer",
        "model": "model",
        "write": "sink",
    }
    concealed: ClassVar[str] = (
        "the file is damaged there; the feature is of the frame as FFmpeg conceals it"
    )
    plan: FeaturePlan
    function: ChildFunction = field(default=extract_features)
    cache: Cache = field(default_factory=lambda: open_cache(NONE))
    """Cache of results, open during a run."""
    contents: dict[int, str] = field(default_factory=dict)
    """Video number → content digest, if known."""

    @property
    def workers(self) -> int:
        """Worker processes of a new run, local or on a cluster."""
        ray = self.options.ray
        limit = self.options.processes if ray is None else ray.most_actors or 1
        return max(1, min(limit, len(self.plan.chunks)))

    @classmethod
    def check(cls, options: FeatureOptions) -> None:
        """Check that tables can be written: see `Extraction.check`."""
        check_extra("parquet", "a table of features")

    @classmethod
    def make_plan(
        cls,
        options: FeatureOptions,
        videos: Videos,
        clock: Clock,
        on_phase: Callable[[str], None],
    ) -> tuple[FeaturePlan, Mapping[str, float]]:
        """Return the plan; loads the model once: see `Extraction.make_plan`."""
        on_phase("loading the model")
        began_ns = clock.now_ns()
        with KnownFacts() as known:
            facts = feature_facts(options.model, options.sampling, options.numerics, known)
        spent_seconds = {"model": (clock.now_ns() - began_ns) / 1e9}
        return FeaturePlan.of(options, videos, facts), spent_seconds

    @contextmanager
    def open_resources(self, on_warning: Callable[[str], None]) -> Iterator[Self]:
        """Keep the cache open during a run: see `Extraction.open_resources`."""
        where = NONE if self.plan.facts.uncached else self.options.cache
        with open_cache(where, on_warning=on_warning, clock=self.clock) as cache:
            yield replace(self, cache=cache)

    @cached_property
    def tables(self) -> TableStore:
        """Tables of the output folder."""
        options, plan = self.options, self.plan
        return TableStore(options.out, table_facts(options, plan.request, plan.facts))

    @cached_property
    def lookup(self) -> Lookup:
        """Lookup of the plan's chunks in the cache."""
        options, plan = self.options, self.plan
        raises = options.on_error == "raise"
        keys = KeyMaker.of(plan.request, plan.facts, options.decode, raises=raises)
        return Lookup(
            plan.indexes, keys, self.cache, sample_bytes(options, plan.facts), self.contents
        )

    def pool_task(
        self, journal: Journal, workers: int, more: Mapping[str, Json] | None = None
    ) -> PoolTask:
        """Return the task of `workers` processes. The cache URL may hold a password: see
        `Journal.sharing_secret`."""
        options = self.options
        model: dict[str, Json] = {
            "device": options.numerics.device,
            "facts": to_dict(self.plan.facts),
            "effort": to_dict(options.effort_each),
        }
        return super().pool_task(journal, workers, {**model, **(more or {})})

    def outcome_of(self, entry: JournalEntry) -> Outcome:
        """Return the outcome of a chunk with a part file; reads no feature."""
        return from_dict(Outcome, entry.facts["outcome"], file="an entry of the journal")

    def progress(self, journal: Journal, failed: Mapping[str, str]) -> Progress:
        """Return the progress from tables and journal. Reads the size of every part file."""
        in_tables = self.tables.outcomes()
        failed = {name: reason for name, reason in failed.items() if name not in in_tables}
        in_journal = super().progress(journal, failed)
        return replace(in_journal, done={**in_journal.done, **in_tables})

    def run_chunks(
        self, journal: Journal, progress: Progress, recorder: ProgressRecorder
    ) -> PoolResult:
        """Write cached results to tables, and compute the others with workers."""
        options, plan, lookup = self.options, self.plan, self.lookup
        self.tables.set_aside_damaged()
        todo = self.progress(journal, progress.failed).without(plan.chunks)
        numbers = list(dict.fromkeys(chunk.video for chunk in todo))
        for done, video in enumerate(numbers):
            recorder.on_phase(f"reading files, {done} of {len(numbers)} done")
            lookup.content(video)
        recorder.on_phase("extracting")
        cached = set[str]()
        for name in self.tables.write(lookup.results(todo), self._video):
            cached.add(name)
            recorder.on_frames(plan.by_name[name].frames)
        missing = {
            chunk.name: chunk_message(
                chunk, lookup.content(chunk.video) if lookup.is_needed else None
            )
            for chunk in todo
            if chunk.name not in cached
        }
        run = None if options.ray is None else on_ray(options.ray)
        with journal.sharing_secret(options.cache_absolute):
            return self.work_through(missing, journal, recorder, run=run)

    def finish(self, journal: Journal, progress: Progress) -> None:
        """Write the features of all part files to tables."""
        parts, in_tables = PartFiles(journal), self.tables.outcomes()
        parts.forget_all(in_tables)
        done = [
            chunk
            for chunk in self.plan.chunks
            if chunk.name in progress.done and chunk.name not in in_tables
        ]
        gather(self.tables, parts, done, self._video)

    def summarize(self, recorder: ProgressRecorder, outcome: RunOutcome) -> KindSummary:
        """Return the settings of the model, the tables, and notes on tables, cluster, cache and
        decoding."""
        options = self.options
        model, size = options.model, options.effort.batch_size
        ray, cache, notes = options.ray, self.cache, list(self.tables.damaged)
        if ray is not None:
            notes.append(
                f"run by up to {ray.most_actors} workers of the Ray cluster {ray.address}; "
                "CPU time and memory are of the driver process alone"
            )
        hits, lookups = cache.counters.hits, cache.counters.hits + cache.counters.misses
        if lookups:
            notes.append(f"{hits} of {lookups} chunks were found in the cache {cache.where}")
        notes += cache.warnings
        return KindSummary(
            setup=Setup(
                batch_size=size if isinstance(size, int) else 1,  # 1: measured by each worker
                device=options.numerics.device,
                model=getattr(model, "name", None),
                prep_level=getattr(model, "prep_level", None),
                threads=options.effort_each.threads,
            ),
            outputs=tuple(path.name for path in self.tables.paths()),
            notes=tuple(dict.fromkeys((*notes, *recorder.decoding_notes()))),
        )

    def estimate(self) -> FeatureEstimate:
        """Return count, size and time of the features, from up to 32 discarded samples.

        Cost: loads the model; reads cached results.
        """
        with self.open_resources(ignore_warning) as extraction:
            progress = extraction.progress(Journal(self.options.out), {})
            undone = progress.without(self.plan.chunks)
            cached = {result.chunk_id for result in extraction.lookup.results(undone)}
        plan, samples = self.plan, Pilot(size_of=self.options.shape.output_size)
        missing = [chunk for chunk in undone if chunk.name not in cached]
        pilot_chunks = []
        for chunk in plan.sample(_CHUNKS, missing) if missing else ():
            starts = chunk.of(plan.wanted[chunk.video])[:_SAMPLES]
            pilot_chunks.append(replace(chunk, stop=int(starts[-1]) + 1, frames=len(starts)))
        if pilot_chunks:
            with suppress(HeadraceError):
                samples = pilot(self, pilot_chunks, samples.size_of)
        missing_samples = sum(chunk.frames for chunk in missing)
        spent_ms = sum(samples.work_ms.values())
        return FeatureEstimate(
            videos=len({chunk.video for chunk in plan.chunks}),
            samples=plan.total,
            chunks=len(plan.chunks),
            done=len(progress.done),
            cached=len(cached),
            missing=missing_samples,
            shape=plan.facts.shape,
            dtype=self.options.numerics.dtype,
            num_bytes=plan.total * sample_bytes(self.options, plan.facts),
            tried=samples.frames,
            seconds=spent_ms / samples.frames * missing_samples / self.workers / 1e3
            if samples.frames
            else None,
            workers=self.workers,
        )

    def _video(self, chunk: str) -> VideoName:
        video = self.plan.by_name[chunk].video
        requested = self.plan.request.videos[video]
        return VideoName(
            name=requested.name, path=requested.path, content=self.lookup.content(video)
        )


def sample_bytes(options: FeatureOptions, facts: ModelSignature) -> int:
    """Return the bytes of one feature."""
    return prod(facts.shape) * np.dtype(options.numerics.dtype).itemsize


def _no_sample(options: FeatureOptions, index: StreamIndex) -> str:
    clip = options.sampling.clip
    if clip is None:
        return (
            f"{str(options.sampling.selection)!r} selects no frame of {index.source}; select "
            "others, as with --every 1"
        )
    return (
        f"{index.source} has {len(index)} frames, but a clip of {clip.num_frames} frames with "
        f"stride {clip.stride} spans {clip.span}; reduce --clip-len or --stride"
    )
