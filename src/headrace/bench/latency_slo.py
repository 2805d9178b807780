"""A promise on latency and drops, and what breaks it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.report.numbers import counted, milliseconds, percent
from headrace.runtime.distribution import P95_SAMPLES


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What is to be kept."""

    p95_ms: float
    """Latency that 95 % of the results stay within."""
    max_drop: float
    """Share of the frames that may be dropped, in [0, 1)."""

    @property
    def words(self) -> str:
        """`p95 latency at most 100 ms, at most 1 % dropped`."""
        return (
            f"p95 latency at most {milliseconds(self.p95_ms)}, at most {_share(self.max_drop)} "
            "dropped"
        )

    @property
    def results_needed(self) -> int:
        """Results after which a p95 can be told, where as many are dropped as may be."""
        return round(P95_SAMPLES * 1.1 / (1 - self.max_drop)) + 1

    def broken_by(
        self, *, p95_ms: float | None, results: int, drop_share: float, dropped: Mapping[str, int]
    ) -> tuple[str, ...]:
        """Return why it is not kept, as phrases; nothing where it is.

        Args:
            p95_ms: None where the results were too few for it, which breaks it too.
            results: How many there were.
            drop_share: Of the frames, in [0, 1].
            dropped: "cause at stage" -> frames.
        """
        said = []
        if p95_ms is None:
            came = counted(results, "result")
            said.append(f"only {came} came out, {P95_SAMPLES} are needed to tell a p95")
        elif p95_ms > self.p95_ms:
            said.append(f"p95 latency {milliseconds(p95_ms)}")
        if drop_share > self.max_drop:
            causes = ", ".join(
                f"{cause}: {frames:,}" for cause, frames in sorted(dropped.items()) if frames
            )
            said.append(f"{_share(drop_share)} dropped ({causes})")
        return tuple(said)


def _share(share: float) -> str:
    return percent(share) if share >= 0.1 else f"{100 * share:.2g} %"
