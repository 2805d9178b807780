"""Making proxies: an extraction of small copies, and a list of them."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from headrace.extraction.extraction import Extraction
from headrace.extraction.proxies.codecs import check_encoder
from headrace.extraction.proxies.forecast import ProxyForecast, forecast, make_samples
from headrace.extraction.proxies.job import ProxyJob
from headrace.extraction.proxies.plan import ProxyPlan
from headrace.extraction.proxies.request import ProxyOptions
from headrace.extraction.proxies.worker import make_proxies
from headrace.extraction.videos import Videos
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyMaking(Extraction[ProxyOptions, ProxyPlan]):
    """Proxies that can be made: `ProxyMaking.prepare(options).run()`."""

    function: ChildFunction = field(default=make_proxies)

    @property
    def wanted(self) -> int:
        """Frames of all videos that can be opened."""
        return self.plan.frames

    def forecast(self, function: ChildFunction = make_samples) -> ProxyForecast:
        """Return how large the proxies will be and how long they take: makes a few frames of them.

        Args:
            function: What makes them, in a child process.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C.
        """
        return forecast(self, function)

    @classmethod
    def _check(cls, options: ProxyOptions) -> None:
        check_encoder(options.codec)

    @classmethod
    def _planned(
        cls,
        options: ProxyOptions,
        videos: Videos,
        clock: Clock,
        on_phase: Callable[[str], None],
    ) -> tuple[ProxyPlan, Mapping[str, float]]:
        return ProxyPlan.of(options, videos), {}

    def _job(self, on_warning: Callable[[str], None]) -> nullcontext[ProxyJob]:
        return nullcontext(ProxyJob(extraction=self))
