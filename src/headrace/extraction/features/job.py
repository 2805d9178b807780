"""What is particular to an extraction of features: the cache first, then workers, then tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.cache.cache import Cache
from headrace.decode.decoding import Decoding
from headrace.extraction.attempt import Remarks
from headrace.extraction.extraction import Extraction
from headrace.extraction.features.cached import Lookup
from headrace.extraction.features.facts import KeyMaker
from headrace.extraction.features.parts import Parts
from headrace.extraction.features.plan import FeaturePlan, sample_bytes
from headrace.extraction.features.request import FeatureOptions
from headrace.extraction.features.settled import Settled
from headrace.extraction.features.table_row import VideoName
from headrace.extraction.features.tabled import Tables, gather
from headrace.extraction.features.told import told_of
from headrace.extraction.ledger import Ledger
from headrace.extraction.ray.open import on_ray
from headrace.extraction.recorder import Recorder
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Outcome
from headrace.profiling.stage_records import Role
from headrace.records import to_dict
from headrace.runtime.child import Json
from headrace.runtime.workers import WorkOutcome


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureJob:
    """A `Job`: features of samples."""

    noun: ClassVar[str] = "feature"
    roles: ClassVar[Mapping[str, Role]] = {
        "decode": "decode",
        "prepare": "preprocess",
        "transfer": "transfer",
        "model": "model",
        "write": "sink",
    }
    extraction: Extraction[FeatureOptions, FeaturePlan]
    cache: Cache
    tables: Tables
    contents: dict[int, str] = field(default_factory=dict)
    """Number of a video → digest of its content, as far as it was read."""

    def lookup(self) -> Lookup:
        """Return what looks chunks of the plan up in the cache; it has read no video yet."""
        options, plan = self.extraction.options, self.extraction.plan
        keys = KeyMaker(
            facts=plan.facts,
            sampling=options.sampling,
            on_error=options.on_error,
            decoding=Decoding.named(options.decode),
        )
        return Lookup(plan, keys, self.cache, sample_bytes(options, plan.facts), self.contents)

    @property
    def told(self) -> dict[str, Json]:
        """What all workers are told; the cache, which may have a password, by the ledger."""
        options = self.extraction.options
        return {
            "device": options.numerics.device,
            "facts": to_dict(self.extraction.plan.facts),
            "effort": to_dict(options.effort_each),
            "decode": options.decode,
        }

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> Settled:
        """Return what tables and ledger tell. Asks for the size of every part."""
        plan = self.extraction.plan
        tabled = self.tables.outcomes()
        parted = Parts(ledger).outcomes(plan.without(tabled))
        fallen = {name: why for name, why in left_out.items() if name not in {**tabled, **parted}}
        return Settled(plan=plan, tabled=tabled, parted=parted, fallen=fallen)

    def do(self, ledger: Ledger, settled: Settled, recorder: Recorder) -> WorkOutcome:
        """Take from the cache what it has, and have workers make what is missing then."""
        options, plan = self.extraction.options, self.extraction.plan
        self.tables.set_aside_damaged()
        todo = list(plan.without({**self.settle(ledger, {}).done, **settled.fallen}))
        lookup = self.lookup()
        found = set[str]()
        numbers = list(dict.fromkeys(chunk.video for chunk in todo))
        for done, video in enumerate(numbers):
            recorder.listening.on_phase(f"reading files, {done} of {len(numbers)} done")
            lookup.content(video)
        recorder.listening.on_phase("extracting")
        for name in self.tables.write(lookup.found(todo), self._video):
            found.add(name)
            recorder.listening.on_frames(plan.by_name[name].samples)
        missing = {
            chunk.name: told_of(chunk, lookup.content(chunk.video) if lookup.is_needed else None)
            for chunk in todo
            if chunk.name not in found
        }
        run = None if options.ray is None else on_ray(options.ray)
        with ledger.telling(options.cache_absolute):
            return self.extraction.work_through(missing, ledger, recorder, more=self.told, run=run)

    def finish(self, ledger: Ledger, settled: Settled) -> None:
        """Put the parts that there are into tables."""
        parts = Parts(ledger)
        parts.forget_all(settled.tabled)
        done = [chunk for chunk in self.extraction.plan.chunks if chunk.name in settled.parted]
        gather(self.tables, parts, done, self._video)

    def remarks(self, recorder: Recorder, outcome: Outcome) -> Remarks:
        """Return how the model was run, the tables, and what there is to say of them and of it."""
        options = self.extraction.options
        model, size = options.model, options.effort.batch_size
        return Remarks(
            setup=Setup(
                batch_size=size if isinstance(size, int) else 1,  # where it was measured
                device=options.numerics.device,
                model=getattr(model, "name", None),
                prep_level=getattr(model, "prep_level", None),
                threads=options.effort_each.threads,
            ),
            outputs=tuple(path.name for path in self.tables.paths()),
            notes=(
                *self.tables.damaged,
                *_cluster_notes(options),
                *_cache_notes(self.cache),
                *(note for note in recorder.notes_on_decoding() if note not in self.cache.warnings),
            ),
        )

    def _video(self, number: int) -> VideoName:
        asked = self.extraction.plan.request.videos[number]
        return VideoName(name=asked.name, path=asked.path, content=self.lookup().content(number))


def _cluster_notes(options: FeatureOptions) -> tuple[str, ...]:
    if options.ray is None:
        return ()
    return (
        f"up to {options.ray.most_actors} workers of the Ray cluster {options.ray.address} did it; "
        "processor time and memory are of this process, which shared the work out",
    )


def _cache_notes(cache: Cache) -> tuple[str, ...]:
    counters = cache.counters
    asked = counters.hits + counters.misses
    found = (f"{counters.hits} of {asked} chunks were found in the cache {cache.where}",)
    return (*(found if asked else ()), *cache.warnings)
