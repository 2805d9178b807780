"""Extracting features: found in the cache or computed, and put into tables."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.cache.cache import unheard
from headrace.cache.cache_url import NONE, open_cache
from headrace.extraction.decoders import check_decoder
from headrace.extraction.extraction import Extraction
from headrace.extraction.features.child import extract_features, feature_facts
from headrace.extraction.features.forecast import Forecast, forecast
from headrace.extraction.features.job import FeatureJob
from headrace.extraction.features.known_facts import KnownFacts
from headrace.extraction.features.plan import FeaturePlan
from headrace.extraction.features.request import FeatureOptions, table_facts
from headrace.extraction.features.tabled import Tables
from headrace.extraction.videos import Videos
from headrace.extras import check_extra
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureExtraction(Extraction[FeatureOptions, FeaturePlan]):
    """An extraction of features that can begin: `FeatureExtraction.prepare(options).run()`.

    A model that was not seen before is loaded once to prepare it, in a process of its own, to know
    the shape of its features and the digest of its weights; that is remembered.
    """

    function: ChildFunction = field(default=extract_features)

    @property
    def wanted(self) -> int:
        """Samples that are wanted."""
        return self.plan.samples

    @property
    def workers(self) -> int:
        """Processes that work, here or on a cluster, if none of it is done yet."""
        ray = self.options.ray
        most = self.options.processes if ray is None else ray.most_actors or 1
        return max(1, min(most, len(self.plan.chunks)))

    def forecast(self) -> Forecast:
        """Return how many features, how large and how long: computes a few, and keeps none."""
        with self._job(unheard) as job:
            return forecast(job)

    @classmethod
    def _check(cls, options: FeatureOptions) -> None:
        check_extra("parquet", "a table of features")
        if options.ray is None:  # else its machines decode
            check_decoder(options.decode)

    @classmethod
    def _planned(
        cls,
        options: FeatureOptions,
        videos: Videos,
        clock: Clock,
        on_phase: Callable[[str], None],
    ) -> tuple[FeaturePlan, Mapping[str, float]]:
        if options.ray is None:
            check_decoder(options.decode, videos.indexes.values())
        on_phase("loading the model")
        began_ns = clock.now_ns()
        with KnownFacts() as known:
            facts = feature_facts(options.model, options.sampling, options.numerics, known)
        seconds = {"model": (clock.now_ns() - began_ns) / 1e9}
        return FeaturePlan.of(options, videos, facts), seconds

    @contextmanager
    def _job(self, on_warning: Callable[[str], None]) -> Iterator[FeatureJob]:
        options, plan = self.options, self.plan
        where = NONE if plan.facts.uncached else options.cache
        tables = Tables(options.out, table_facts(options, plan.request, plan.facts))
        with open_cache(where, on_warning=on_warning, clock=self.clock) as cache:
            yield FeatureJob(extraction=self, cache=cache, tables=tables)
