"""Extracting features: planned, found or computed, recorded; where one ended, the next goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.cache.cache import Cache, unheard
from headrace.cache.open import NONE, open_cache
from headrace.decode.index_store import IndexStore
from headrace.extraction.attempt import Attempt, Extracted, startup_parts
from headrace.extraction.features.child import extract_features, feature_facts
from headrace.extraction.features.forecast import Forecast, forecast
from headrace.extraction.features.job import FeatureJob
from headrace.extraction.features.known_facts import KnownFacts
from headrace.extraction.features.plan import FeaturePlan
from headrace.extraction.features.request import FeatureOptions, table_facts
from headrace.extraction.features.table import check_tables
from headrace.extraction.features.tabled import Tables
from headrace.extraction.ledger import Ledger
from headrace.extraction.videos import Videos
from headrace.profiling.setup import StartUpPart
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureExtraction:
    """An extraction that can begin: `FeatureExtraction.prepare(options).run()`."""

    options: FeatureOptions
    plan: FeaturePlan
    store: IndexStore
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
    function: ChildFunction = field(default=extract_features)
    """What each worker runs."""
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def prepare(
        cls,
        options: FeatureOptions,
        *,
        command: Sequence[str] = (),
        store: IndexStore | None = None,
        imports_seconds: float | None = None,
        on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
        function: ChildFunction = extract_features,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "FeatureExtraction":
        """Check everything that can be checked before the first frame; nothing is written.

        A model that was not seen before is loaded once, in a process of its own, to know the shape
        of its features and the digest of its weights; that is remembered.

        Args:
            options: What to extract.
            command: The command line, for the record.
            store: Where indexes are kept; None means the user's cache folder.
            imports_seconds: How long the program took to get here, for the record.
            on_video: Called with a name, how many are done and of how many, as videos are indexed.
            function: What each worker runs.
            clock: What measures.

        Raises:
            ConfigError: no sample is wanted, there is no such model or layer, the folder holds
                something else or another extraction.
            BackendError: pyarrow is missing, or the device.
            MediaError: a video cannot be opened, and this is to be an error, or none can.
        """
        check_tables()
        ledger = Ledger(options.out)
        ledger.before()
        store = store or IndexStore()
        plan, seconds = _planned(options, store, on_video, clock)
        ledger.check(plan.request)
        return cls(
            options=options,
            plan=plan,
            store=store,
            command=tuple(command),
            startup=startup_parts({"imports": imports_seconds, **seconds}),
            function=function,
            clock=clock,
        )

    def forecast(self) -> Forecast:
        """Return how many features, how large and how long: computes a few, and keeps none."""
        with self._open_cache() as cache:
            tables = self._tables()
            return forecast(self.options, self.plan, self.store, cache, tables, self.function)

    def run(
        self,
        on_samples: Callable[[int], None] = lambda count: None,
        on_warning: Callable[[str], None] = lambda warning: None,
    ) -> Extracted:
        """Make the features that are missing in the folder, and put them into tables.

        An interrupt or an error ends it early; what is done is in tables, and the next run goes on.

        Args:
            on_samples: Called with a number of samples that are settled: came, lost, or were there.
            on_warning: Is told each warning of the cache, one line.

        Raises:
            ConfigError: another run has the folder, or it holds another extraction; the cache is
                somebody else's.
        """
        options = self.options
        attempt = Attempt(
            out=options.out,
            request=self.plan.request,
            configuration=options.configuration(),
            command=self.command,
            startup=self.startup,
            retry=options.retry,
            clock=self.clock,
        )
        with self._open_cache(on_warning) as cache:
            job = FeatureJob(
                options=options,
                plan=self.plan,
                store=self.store,
                cache=cache,
                tables=self._tables(),
                function=self.function,
                clock=self.clock,
            )
            return attempt.run(job, on_samples)

    def _open_cache(self, on_warning: Callable[[str], None] = unheard) -> Cache:
        where = NONE if self.plan.facts.uncached else self.options.cache
        return open_cache(where, on_warning=on_warning, clock=self.clock)

    def _tables(self) -> Tables:
        facts = table_facts(self.options, self.plan.request, self.plan.facts)
        return Tables(self.options.out, facts)


def _planned(
    options: FeatureOptions,
    store: IndexStore,
    on_video: Callable[[str, int, int], None],
    clock: Clock,
) -> tuple[FeaturePlan, dict[str, float]]:
    """Return the plan, and the seconds that its parts took."""
    began_ns = clock.now_ns()
    videos = Videos.of(
        options.sources,
        store,
        workers=options.processes,
        stall_seconds=options.stall_seconds,
        raises=options.on_error == "raise",
        on_video=on_video,
    )
    indexed_ns = clock.now_ns()
    with KnownFacts() as known:
        facts = feature_facts(options.model, options.sampling, options.numerics, known)
    seconds = {
        "index": (indexed_ns - began_ns) / 1e9,
        "model": (clock.now_ns() - indexed_ns) / 1e9,
    }
    return FeaturePlan.of(options, videos, facts), seconds
