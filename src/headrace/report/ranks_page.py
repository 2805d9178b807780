"""Report of the ranks of one training: the late rank, then a table of all ranks."""

from pathlib import Path
from typing import Any, Final

from headrace.atomic_file import write_whole
from headrace.errors import ConfigError
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.late_rank import (
    DATA,
    MACHINE,
    RankTimes,
    describe_even_ranks,
    find_late_rank,
    measure_ranks,
)
from headrace.profiling.findings.verdict import busy_banner, find, qualify
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import Record
from headrace.profiling.session import Session
from headrace.report.benchmark_page import BenchmarkPage, Table, render_benchmark
from headrace.report.page import Chart, bar, draw, label

RECORD: Final = "ranks.json"
REPORT: Final = "report.html"
_COLORS: Final = ("#4a8ad4", "#2fa28c", "#dd8233", "#9283cc", "#b0a04a", "#7389ab", "#d9536a")
_WAITS_COLOR: Final = "rgba(128, 136, 148, 0.32)"


class RanksRecord(Record):
    """Sessions of the ranks of one launch."""

    ranks: dict[int, Session]
    """Rank → session of its longest loop."""
    missing: int = 0
    """Ranks of this machine without a record."""


def write_ranks(record: RanksRecord, folder: Path) -> None:
    """Write the record and its page into `folder`.

    Raises:
        ConfigError: the folder cannot be written.
    """
    write_whole(folder / RECORD, record.model_dump_json() + "\n")
    write_whole(folder / REPORT, render_benchmark(ranks_page(record)))


def ranks_page(record: RanksRecord) -> BenchmarkPage:
    """Return the page: the late rank and the reason, and the times of all ranks.

    Raises:
        ConfigError: no rank has a loop.
    """
    if not record.ranks:
        raise ConfigError("no rank took a batch from a DataLoader or a headrace loader")
    ranks = measure_ranks(record.ranks)
    sessions = [*record.ranks.values()]
    late = find_late_rank(ranks)
    share = max((session.others_cpu_share or 0.0 for session in sessions), default=None)
    return BenchmarkPage(
        name="profile",
        title=f"A training on {counted(len(record.ranks), 'rank')}",
        findings=(
            qualify(share, late or describe_even_ranks(ranks)),
            *_others(record, ranks, late),
        ),
        banner=busy_banner(share),
        charts=(_chart(ranks),) if ranks else (),
        table=_table(ranks),
        provenance=sessions[0].provenance,
    )


def _others(
    record: RanksRecord, ranks: tuple[RankTimes, ...], late: Finding | None
) -> tuple[Finding, ...]:
    """Return the bottleneck if no rank is late, and the number of missing ranks."""
    findings = [] if late or not ranks else [find(record.ranks[ranks[0].rank])[0]]
    if record.missing:
        missing = counted(record.missing, "rank")
        findings.append(Finding(headline=f"No session was recorded for {missing}."))
    return tuple(findings)


def _columns(ranks: tuple[RankTimes, ...]) -> list[str]:
    """Return the causes, the one with the largest time in any rank first."""
    names = {name for rank in ranks for name in rank.costs}
    largest = {name: max(rank.costs.get(name, 0.0) for rank in ranks) for name in names}
    return sorted(sorted(names), key=lambda name: -largest[name])


def _table(ranks: tuple[RankTimes, ...]) -> Table:
    names = _columns(ranks)
    headers = {DATA: "data", MACHINE: "core"}
    return Table(
        reading="Milliseconds of a step, means. Data: wait for the batch. Core: wait of the loop's "
        "thread for a core. Others: time without work in backward and collectives, mostly waits "
        "for other ranks.",
        headers=("rank", "steps", "step", *(headers.get(n, n) for n in names), "others"),
        rows=tuple(
            (
                str(rank.rank),
                str(rank.load.steps),
                _ms(rank.load.total_ms),
                *(_ms(rank.costs.get(name, 0.0)) for name in names),
                _ms(rank.waits_ms),
            )
            for rank in ranks
        ),
    )


def _ms(value: float) -> str:
    return f"{value:.3g}"


def _chart(ranks: tuple[RankTimes, ...]) -> Chart:
    shown = ranks[::-1]  # plotly draws the first category at the bottom
    rows = [label(f"rank {rank.rank}") for rank in shown]
    bars: list[Any] = [
        _bars(rows, name, [rank.costs.get(name, 0.0) for rank in shown], color)
        for name, color in zip(_columns(ranks), _COLORS * 3, strict=False)
    ]
    bars.append(_bars(rows, "others", [rank.waits_ms for rank in shown], _WAITS_COLOR))
    figure = draw(bars, height=80 + 36 * len(rows), barmode="stack")
    figure.update_xaxes(title_text="ms per step")
    return Chart(
        name="ranks",
        title="Steps of the ranks",
        reading="Mean time of a step. The others wait (gray) for the rank with the longest colored "
        "bar.",
        figure=figure,
    )


def _bars(rows: list[str], name: str, values: list[float], color: str) -> Any:
    hover = f"{name} %{{x:.3g}} ms<extra></extra>"
    return bar(x=values, y=rows, orientation="h", name=name, color=color, hovertemplate=hover)


def ranks_of(folder: Path, others_cpu_share: float | None) -> RanksRecord:
    """Return the record of the sessions that the ranks wrote into `folder`.

    Args:
        folder: Folder with a session per rank (`rank_0.json`), and the number of ranks of this
            machine (`0.size`).
        others_cpu_share: CPU share of programs other than the ranks.

    Raises:
        ConfigError: a file is damaged.
    """
    sessions = {
        int(path.stem.removeprefix("rank_")): Session.load(path)
        for path in sorted(folder.glob("rank_*.json"))
    }
    sizes = [int(path.read_text("ascii")) for path in folder.glob("*.size")]
    share = {"others_cpu_share": others_cpu_share}
    return RanksRecord(
        ranks={rank: session.model_copy(update=share) for rank, session in sessions.items()},
        missing=max(0, max(sizes, default=0) - len(sessions)),
    )
