"""What is particular to an extraction of features: the cache first, then workers, then tables."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final

from headrace.cache.cache import Cache
from headrace.decode.index_store import IndexStore
from headrace.extraction.attempt import Ended
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
from headrace.extraction.workers import Work, WorkOutcome, work_through
from headrace.profiling.inputs import with_content
from headrace.profiling.media import summarize
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Session
from headrace.profiling.setup import Setup
from headrace.profiling.stages import Role
from headrace.profiling.steps import Steps
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import Clock

_ROLES: Final[Mapping[str, Role]] = {
    "decode": "decode",
    "prepare": "preprocess",
    "transfer": "transfer",
    "model": "model",
    "write": "sink",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureJob:
    """A `Job`: features of samples."""

    noun: ClassVar[str] = "feature"
    roles: ClassVar[Mapping[str, Role]] = _ROLES
    options: FeatureOptions
    plan: FeaturePlan
    store: IndexStore
    cache: Cache
    tables: Tables
    function: ChildFunction
    """What each worker runs."""
    clock: Clock

    @property
    def places(self) -> Mapping[int, int]:
        """Number of a video in the request → its place among those that could be opened."""
        return self.plan.places

    @property
    def workers(self) -> int:
        """Processes that work, if none of it is done yet."""
        return workers_for(self.options, self.plan)

    @property
    def wanted(self) -> int:
        """Samples that are wanted."""
        return self.plan.samples

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> Settled:
        """Return what tables and ledger tell. Asks for the size of every part."""
        tabled = self.tables.outcomes()
        parted = Parts(ledger).outcomes(self.plan.without(tabled))
        fallen = {name: why for name, why in left_out.items() if name not in {**tabled, **parted}}
        return Settled(tabled=tabled, parted=parted, fallen=fallen)

    def do(self, ledger: Ledger, settled: Settled, recorder: Recorder) -> WorkOutcome:
        """Take from the cache what it has, and have workers make what is missing then."""
        self.tables.set_aside_damaged()
        todo = list(self.plan.without({**self.settle(ledger, {}).done, **settled.fallen}))
        lookup = lookup_in(self.cache, self.options, self.plan)
        found = set[str]()
        for name in self.tables.write(lookup.found(todo), self._video(lookup)):
            found.add(name)
            recorder.listening.on_frames(self.plan.by_name[name].samples)
        missing = {
            chunk.name: told_of(chunk, lookup.contents.get(chunk.video))
            for chunk in todo
            if chunk.name not in found
        }
        work = Work(
            function=self.function,
            argument=work_argument(self.options, self.plan, self.store, self.options.out),
            claims=ledger.claims(),
            workers=self.options.processes,
            stall_seconds=self.options.stall_seconds,
        )
        with ledger.telling(self.options.cache_absolute):
            return work_through(
                work,
                missing,
                on_said=recorder.hear,
                on_fallen=ledger.quarantine().add,
                run=None if self.options.ray is None else on_ray(self.options.ray),
                clock=self.clock,
            )

    def finish(self, ledger: Ledger, settled: Settled) -> None:
        """Put the parts that there are into tables."""
        parts = Parts(ledger)
        parts.forget_all(settled.tabled)
        done = [chunk for chunk in self.plan.chunks if chunk.name in settled.parted]
        gather(self.tables, parts, done, self._video(None))

    def session(
        self, settled: Settled, recorder: Recorder, made: Provenance, ended: Ended
    ) -> Session:
        """Return the session of a run. Reads the videos, for their digests."""
        steps, model = recorder.steps, self.options.model
        return Session(
            kind="extract",
            provenance=made,
            setup=Setup(
                batch_size=_whole(self.options.effort.batch_size),
                device=self.options.numerics.device,
                model=getattr(model, "name", None),
                prep_level=getattr(model, "prep_level", None),
                threads=self.options.effort_each.threads,
            ),
            inputs=with_content([summarize(index) for index in self.plan.indexes.values()]),
            outcome=ended.outcome,
            error=ended.error,
            wall_seconds=0.0,
            steps=Steps.of(steps),
            decode=recorder.decode,
            lost=tuple(settled.lost(self.plan)),
            notes=(
                *self.plan.notes,
                *self.tables.damaged,
                *_cluster_notes(self.options),
                *_cache_notes(self.cache),
                *(note for note in recorder.notes if note not in self.cache.warnings),
            ),
            outputs=tuple(path.name for path in self.tables.paths()),
        )

    def _video(self, lookup: Lookup | None) -> Callable[[int], VideoName]:
        contents = {} if lookup is None else lookup.contents

        def name(number: int) -> VideoName:
            asked = self.plan.request.videos[number]
            return VideoName(name=asked.name, path=asked.path, content=contents.get(number))

        return name


def work_argument(
    options: FeatureOptions, plan: FeaturePlan, store: IndexStore, folder: Path
) -> dict[str, Json]:
    """Return what all workers are told; the cache, which may have a password, by the ledger."""
    effort: dict[str, Json] = asdict(options.effort_each)
    return {
        "folder": str(folder.absolute()),
        "store": str(store.folder.absolute()),
        "raises": options.on_error == "raise",
        "device": options.numerics.device,
        "facts": plan.facts.plain(),
        "effort": effort,
    }


def workers_for(options: FeatureOptions, plan: FeaturePlan) -> int:
    """Return how many processes work, here or on a cluster, if none of it is done yet."""
    most = options.processes if options.ray is None else options.ray.most_actors or 1
    return max(1, min(most, len(plan.chunks)))


def lookup_in(cache: Cache, options: FeatureOptions, plan: FeaturePlan) -> Lookup:
    """Return what looks chunks of a plan up."""
    keys = KeyMaker(facts=plan.facts, sampling=options.sampling, on_error=options.on_error)
    return Lookup(plan, keys, cache, sample_bytes(options, plan.facts))


def _cluster_notes(options: FeatureOptions) -> tuple[str, ...]:
    if options.ray is None:
        return ()
    return (
        f"up to {options.ray.most_actors} workers of the Ray cluster {options.ray.address} did it; "
        "processor time and memory are of this process, which shared the work out",
    )


def _whole(batch_size: int | str) -> int:
    """The batch size that was asked for; 1 where it was measured."""
    return batch_size if isinstance(batch_size, int) else 1


def _cache_notes(cache: Cache) -> tuple[str, ...]:
    counters = cache.counters
    asked = counters.hits + counters.misses
    found = (f"{counters.hits} of {asked} chunks were found in the cache {cache.where}",)
    return (*(found if asked else ()), *cache.warnings)
