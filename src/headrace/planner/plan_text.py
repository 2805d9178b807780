"""Plan as console text."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from headrace.measuring.interleaved import disturbance
from headrace.planner.plan_facts import loader_call, proxy_command
from headrace.planner.plan_table import columns_of
from headrace.planner.planner import Plan
from headrace.profiling.number_format import (
    count,
    counted,
    decimal,
    megabytes,
    milliseconds,
    percent,
    seconds,
)
from headrace.report.benchmark_page import table
from headrace.sampling.rho_estimate import DEFAULT_RHO

_WIDTH: Final = 132
"""Width of the table, where the output is no terminal."""
_READABLE: Final = 80
"""Width of sentences."""
_NAMED: Final = 20
"""Max paths in a printed command."""


def render_plan(plan: Plan, videos: Sequence[str]) -> str:
    """Return the videos, strategies, advice and explanations as text.

    Args:
        plan: The plan.
        videos: Files, folders and lists, as the user named them.
    """
    return "\n".join(_page(plan, videos))


def _page(plan: Plan, videos: Sequence[str]) -> Iterator[str]:
    yield from _setting_text(plan)
    yield ""
    yield _table(plan)
    yield ""
    yield from _rows_in_words(plan)
    yield ""
    yield from _how_to_read(plan)
    yield ""
    yield from _spill_text(plan)
    yield from _proxies_text(plan, videos)
    yield from _skipped_videos(plan)
    yield ""
    yield from _recommendation(plan)


def _skipped_videos(plan: Plan) -> Iterator[str]:
    left_out = plan.contents.left_out
    if left_out:
        yield ""
        are = "is" if len(left_out) == 1 else "are"
        yield f"Warning: {counted(len(left_out), 'video')} cannot be read and {are} left out"
        yield from (f"  {error}" for error in left_out[:5])
        if len(left_out) > 5:
            yield f"  and {len(left_out) - 5} more; `headrace index` lists them all"


def _setting_text(plan: Plan) -> Iterator[str]:
    has, decoding, config = plan.contents, plan.decoding, plan.config
    speed, (height, width) = decoding.speed, config.size
    yield (
        f"{counted(has.videos, 'video')}, {count(has.frames)} frames, {counted(has.gops, 'GOP')}: "
        f"a frame lies in a GOP of {has.gop_of_a_frame:.0f} on average, the longest has "
        f"{has.longest_gop}"
    )
    yield (
        f"Decoding, timed on {counted(decoding.gops, 'GOP')} of them in "
        f"{seconds(decoding.seconds)}, {counted(speed.workers, 'thread')} at a time: "
        f"{milliseconds(1e3 * speed.seconds_per_seek)} to enter a GOP,"
    )
    skipped = (
        f"; {percent(speed.droppable_share)} of frames are decoded only if asked for"
        if speed.droppable_share
        else ""
    )
    yield (
        f"  {milliseconds(1e3 * speed.seconds_per_decoded)} for each frame decoded, "
        f"{milliseconds(1e3 * speed.seconds_per_delivered)} to make one {height}x{width}{skipped}"
    )
    batches = f"For batches of {config.samples_per_batch}"
    if config.num_frames is not None:
        yield f"{batches} clips of {config.num_frames} frames in {_memory(plan.memory_bytes)}"
        return
    yield (
        f"{batches} in {_memory(plan.memory_bytes)}; gradients of two "
        f"frames of a burst are taken to correlate by rho = {config.rho:g}"
    )


def _table(plan: Plan) -> str:
    columns = columns_of(plan)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(width=_WIDTH, highlight=False, markup=False, emoji=False)
    drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        is_name = column is columns[0]
        drawn.add_column(column.header, no_wrap=is_name, justify="left" if is_name else "right")
    shown = table(columns, plan.strategies, "")
    for row, cells in zip(plan.strategies, shown.rows, strict=True):
        is_best = row is plan.recommendation.strategy
        style = "bold" if is_best else ("" if row.is_sound else "dim")
        drawn.add_row(*map(Text, cells), style=style)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def _recommendation(plan: Plan) -> Iterator[str]:
    best = plan.recommendation
    verdict = "Recommended" if best.reaches_target else "Out of reach; nearest"
    yield f"{verdict}: {best.strategy.name}"
    yield from _wrap(best.why)
    for sentence in disturbance(plan.others, plan.cores):
        yield from _wrap(sentence)
    if not plan.decoding.is_told_apart:
        yield from _wrap(
            "Warning: the times it rests on do not add up: the cost of a seek could not be "
            "separated from that of decoding, so that frames/s are too high; try again when the "
            "machine is quiet, or let --measure run the strategies"
        )
    yield f"  {loader_call(best.strategy, plan)}"


def _wrap(sentence: str) -> list[str]:
    return wrap(
        sentence, _READABLE, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _rows_in_words(plan: Plan) -> Iterator[str]:
    yield "Strategies"
    for row in plan.strategies:
        yield from _wrap(f"{row.name}: {row.words}")
        if row.why_not:
            yield f"    not possible here: {row.why_not}"


def _how_to_read(plan: Plan) -> Iterator[str]:
    batch, noun = plan.config.samples_per_batch, plan.config.noun
    yield "How to read it"
    yield "  frames/s: if nothing but decoding is slow, once the window is filled"
    if any(not trial.is_filled for trial in plan.trials.values()):
        yield "  *: measured while the window was still filling, so it will be faster"
    yield "  decoded/frame: 1 is as cheap as reading in order; below 1, frames are used again"
    yield "  memory: buffered frames and three batches; each thread's decoder comes on top"
    if plan.trials:
        yield "    measured is the maximum at any time, expected the mean"
    yield "  bias: how far gradients are off on average, in standard deviations of one frame's"
    yield f"  ESS batch: effective sample size of a batch of {batch}: independent {noun}s whose"
    yield "    gradient is as noisy"
    yield "  ESS SGD: the same for consecutive steps, where step size x curvature is"
    yield f"    a = {plan.noise.contraction:g}; above {batch} where no frame comes twice an epoch"
    yield "  ESS long-run: the same over many steps, at worst: in directions of little curvature"
    if plan.config.num_frames is not None:
        return
    if plan.trials:
        yield "  batch and long-run, measured: ESS from the frames of one GOP that met in the"
        yield "    measured batches; - where these were too few"
    yield "  rho: assumed; headrace.sampling.rho_estimate.burst_correlation measures it."
    yield f"    Features of 8 neighbouring frames gave {DEFAULT_RHO:g} on real clips; gradients"
    yield "    usually correlate less; bursts are then worth more (docs/explanation/sampling.md)"


def _spill_text(plan: Plan) -> Iterator[str]:
    spill = plan.spill
    if spill is None:
        return
    given = "DIR" if plan.config.spill is None else plan.config.spill
    yield f"Frames stored on a local disk: spill={given!r} (estimated)"
    yield from _wrap(
        f"about {megabytes(spill.disk_bytes)} for all frames, "
        f"{spill.bytes_per_frame / 1e3:,.0f} kB each, packed by {spill.codec}; every frame is "
        f"decoded once: {decimal(spill.first_epoch)} frames/s in the first epoch, in the mean, "
        f"with its start the slowest; {decimal(spill.later_epochs)} from the second on"
    )
    if spill.free_bytes is not None:
        room = ", enough" if spill.fits else "; frames beyond that are decoded again each time"
        yield f"  {megabytes(spill.free_bytes)} are free there{room}"
    yield ""


def _proxies_text(plan: Plan, videos: Sequence[str]) -> Iterator[str]:
    copies = plan.reencode
    height, width = plan.config.size
    yield f"Proxies of {height}x{width} with GOPs of {copies.gop} " + (
        "would pay (estimated)" if copies.pays else "would not pay"
    )
    if not copies.pays:
        yield f"  {copies.why_not}"
        return
    yield from _wrap(
        f"about {megabytes(copies.disk_bytes)} on disk and {seconds(copies.seconds)} to make; "
        f"decoded per frame {decimal(copies.amplification_before)} -> "
        f"{decimal(copies.amplification_after)}, look-ahead {decimal(copies.before)} -> "
        f"{decimal(copies.after)} frames/s; earned back after {copies.epochs or 0:.1f} epochs; "
        f"what is finer than {height}x{width} is lost"
    )
    is_long = len(videos) > _NAMED
    command = proxy_command(plan, ["VIDEOS"] if is_long else videos)
    yield f"  {command}"
    if is_long:
        yield f"  where VIDEOS are the {len(videos)} paths that were given here"
    loader = "FrameLoader" if plan.config.num_frames is None else "ClipLoader"
    yield f'  then {loader}(headrace.Proxies("proxies").all(videos), ...): same samples'


def _memory(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"
