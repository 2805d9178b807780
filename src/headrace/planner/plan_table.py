"""Columns of the table of `headrace plan`, predicted and measured."""

from collections.abc import Callable

from headrace.planner.plan_probe import PlanProbe
from headrace.planner.planner import Plan
from headrace.profiling.number_format import decimal
from headrace.report.benchmark_page import Column
from headrace.sampling.strategies import Strategy

Columns = tuple[Column[Strategy], ...]


def columns_of(plan: Plan) -> Columns:
    """Return the columns, predicted figures and with trials also measured ones."""
    batch = plan.config.samples_per_batch

    def measured(head: str, cell: Callable[[PlanProbe], str]) -> Columns:
        def of(row: Strategy) -> str:
            return cell(plan.trials[row.name]) if row.name in plan.trials else "-"

        return (Column(head, _if_feasible(of)),) if plan.trials else ()

    def ess(head: str, variance: Callable[[Strategy], float]) -> Column[Strategy]:
        return Column(head, lambda row: f"{batch / variance(row):,.0f}" if row.is_sound else "-")

    return (
        Column("   strategy", lambda row: f"{_mark(row, plan)}{row.name}"),
        Column("frames/s\nexpected", _if_feasible(lambda row: decimal(row.frames_per_second))),
        Column("decoded\n/frame", _if_feasible(lambda row: decimal(row.amplification))),
        *measured(
            "frames/s\nmeasured", lambda trial: _star_unfilled(trial.frames_per_second, trial)
        ),
        *measured("decoded\nmeasured", lambda trial: _star_unfilled(trial.amplification, trial)),
        Column("memory\nMiB", _if_feasible(lambda row: decimal(row.memory_bytes / 2**20))),
        *measured("max\nmeasured", lambda trial: decimal(trial.memory_bytes / 2**20)),
        Column("bias", _if_feasible(_bias)),
        ess("ESS\nbatch", lambda row: row.design_effect),
        ess("ESS\nSGD", lambda row: row.inflation_at),
        ess("ESS\nlong-run", lambda row: row.inflation),
        *measured("batch\nmeasured", lambda trial: _ess(batch, trial.design_effect)),
        *measured("long-run\nmeasured", lambda trial: _ess(batch, trial.inflation)),
    )


def _if_feasible(cell: Callable[[Strategy], str]) -> Callable[[Strategy], str]:
    return lambda row: cell(row) if row.is_feasible else "-"


def _mark(row: Strategy, plan: Plan) -> str:
    if row is plan.recommendation.strategy:
        return "=> "
    return "   " if row.is_sound else "!  "


def _bias(row: Strategy) -> str:
    return f"≤ {row.bias_bound:.1f} σ" if row.bias_bound else "none"


def _star_unfilled(figure: float, trial: PlanProbe) -> str:
    """Return a figure, with a star if the window was still filling."""
    return decimal(figure) + ("" if trial.is_filled else "*")


def _ess(batch_size: int, variance: float | None) -> str:
    """Return the effective sample size of a batch, in frames; `-`: unknown."""
    return "-" if variance is None else f"{batch_size / max(variance, 0.01):,.0f}"
