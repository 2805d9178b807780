"""What limits the fastest row, by the rule and in words; the rows and the chart beside it."""

import pytest

from bench.sampling_records import (
    AHEAD,
    BASELINE,
    BURSTS,
    IMPOSSIBLE,
    NAIVE,
    QUARTER,
    recorded,
    turns,
)
from headrace.bench.sampling_report import SAMPLING, ladder_of, rows_of
from headrace.measuring.interleaved import Spread
from headrace.report.experiment import render_experiment_text

USUAL = (
    turns("baseline", [500, 510, 490], decoded=15.5, opens=500),
    turns("look-ahead", [5000, 4900, 5100], decoded=0.7, bytes_read=15_000_000),
    turns("bursts", [2500, 2500, 2500], decoded=2.5, is_filled=False),
)


def test_rows_are_medians_and_counts_for_each_frame():
    baseline, ahead, bursts = rows_of(recorded(*USUAL))
    assert (baseline.rate.median, baseline.times) == (50, 1)
    assert ahead.rate == Spread(median=500, lowest=490, highest=510)
    assert (ahead.times, ahead.decoded, ahead.seeks, ahead.cpu_ms) == (10, 0.7, 0.25, 4)
    assert (ahead.frames, ahead.held_bytes, ahead.cores) == (15_000, 50_000_000, 2)
    assert (baseline.opens, baseline.bytes_read, ahead.bytes_read) == (1, 0, 3000)
    assert ahead.is_filled
    assert not bursts.is_filled


def verdict(*timed, **options):
    finding = SAMPLING.page(recorded(*timed, **options)).findings[0]
    return finding.headline, finding.change


BASE = turns("baseline", [500])


@pytest.mark.parametrize(
    ("timed", "options", "bound", "change"),
    [
        (turns("look-ahead", [5000]), {}, "bound by decoding, on all cores", "More cores"),
        (
            turns("look-ahead", [5000], cores=1.81, decoded=3),
            {},
            "bound by decoding, on all cores",
            "More --memory",
        ),
        (
            turns("look-ahead", [5000], cores=1.95),
            {"usable": 8},
            "bound by decoding, with 2 workers",
            "--workers 8",
        ),
        (
            turns("look-ahead", [5000], cores=1.0, others=0.9),
            {},
            "other programs ran meanwhile, but processor time is 20.0 times less",
            "The same again",
        ),
        (
            turns("look-ahead", [5000], cores=1.0, others=0.1),
            {},
            "not bound by processors, which had time to spare",
            "Faster storage",
        ),
        (
            turns("look-ahead", [5000, 3000]),
            {},
            "too unsteady to say what limits it",
            "The same again",
        ),
    ],
)
def test_what_limits_the_fastest_is_told_by_a_rule(timed, options, bound, change):
    said, tried = verdict(BASE, timed, **options)
    assert said.startswith("Fastest is look-ahead 1,024 MiB: ")
    assert said.endswith(f" times the baseline; {bound}")
    assert tried.startswith(change)


def test_the_advice_is_the_gain_on_the_baseline_where_that_is_certain():
    advised = [
        SAMPLING.page(recorded(BASE, turns("look-ahead", frames, **options))).findings[0].advice
        for frames, options in (([5000], {}), ([300], {}), ([5000], {"others": 0.9}))
    ]
    assert [each and each.gain for each in advised] == [10.0, None, None]
    assert advised[0].rests_on == "500 against 50.0 images/s"


@pytest.mark.parametrize("others", [0.0, 0.9])
def test_a_turn_too_short_for_the_processor_s_clock_promises_no_gain(others):
    said, tried = verdict(BASE, turns("look-ahead", [5000], cores=0.0, others=others))
    assert "times less" not in said
    assert " times, " not in tried


def test_advice_names_the_gain_that_the_figures_predict():
    for options, gain in (
        ({"cores": 1.0}, "up to 2.00 times, until they are busy"),
        ({"decoded": 3.0}, "up to 3.00 times, if each were decoded once"),
        ({}, "What either gains is not known."),
    ):
        assert gain in verdict(BASE, turns("look-ahead", [5000], **options))[1]
    assert (
        "--workers 8, one for each core: up to 4.00 times"
        in (verdict(BASE, turns("look-ahead", [5000]), usable=8)[1])
    )


def test_other_programs_beside_the_baseline_count_as_well():
    said, _ = verdict(turns("baseline", [500], others=0.5), turns("look-ahead", [5000]))
    assert "other programs ran meanwhile" in said


def test_an_unsteady_row_in_between_does_not_spoil_the_verdict():
    record = recorded(BASE, turns("look-ahead", [5000]), turns("bursts", [1000, 2000]))
    finding = SAMPLING.page(record).findings[0]
    assert finding.headline.endswith("bound by decoding, on all cores")
    assert "Turns of one strategy differ by up to 67 %" in finding.evidence[-1]


def test_what_is_as_fast_within_five_percent_is_named_with_it():
    said, _ = verdict(BASE, turns("look-ahead", [5000]), turns("bursts", [4800]))
    assert said.startswith("Fastest is look-ahead 1,024 MiB and bursts of 8: 500 images/s, 10.0 ")


def memory(naive, quarter, full, **options):
    """Return what is said of memory, where three amounts of it gave so many frames in 10 s."""
    record = recorded(
        BASE,
        turns("naive", naive, **options),
        turns("quarter", quarter),
        turns("look-ahead", full, decoded=0.8),
        turns("bursts", [9000]),
        strategies=(BASELINE, NAIVE, AHEAD, QUARTER, BURSTS),
    )
    return record, SAMPLING.page(record).findings[1]


@pytest.mark.parametrize(
    ("frames", "name", "said"),
    [
        (([500], [4800], [5000]), "quarter", "Memory saturates at look-ahead 256 MiB: 480"),
        (([4800], [4700], [5000]), "naive", "Memory saturates at naive: 480 images/s"),
        (
            ([500], [4700], [5000]),
            "look-ahead",
            "No saturation of memory up to look-ahead 1,024 MiB: 500 images/s, 94 % of it with "
            "look-ahead 256 MiB",
        ),
    ],
)
def test_memory_saturates_at_the_least_of_it_within_five_percent_of_the_best(frames, name, said):
    """Bursts are faster here, but other frames: they are on no ladder of memory."""
    record, finding = memory(*frames)
    assert ladder_of(rows_of(record)).point.strategy.name == name
    assert finding.headline.startswith(said)
    assert "look-ahead 1,024 MiB 500 images/s" in finding.evidence[0]


@pytest.mark.parametrize("options", [{"others": 0.5}, {}])
def test_nothing_certain_is_said_of_memory_on_a_machine_that_was_busy(options):
    naive = [500] if options else [500, 1000]
    _, finding = memory(naive, [4800], [5000], **options)
    why = "Other programs ran meanwhile, so it is uncertain" if options else "Too unsteady to say"
    assert finding.headline == (f"{why} where memory saturates; by the rule at look-ahead 256 MiB")
    assert finding.change.startswith("The same again with nothing else running")


def test_a_window_that_was_still_filling_is_named_with_memory():
    _, finding = memory([500], [4800], [5000], is_filled=False)
    assert finding.evidence[-1].endswith("faster in the long run: naive.")


def test_the_chart_shows_from_where_memory_is_enough():
    record, _ = memory([500], [4800], [5000])
    [chart] = SAMPLING.page(record).charts
    _, _, enough = chart.figure.data
    assert list(enough.x) == [475, 475]
    assert list(enough.y) == ["bursts of 8", "baseline"]


def test_the_baseline_may_be_the_fastest():
    said, _ = verdict(BASE)
    assert said.startswith("Fastest is baseline: 50.0 images/s, 1.00 times the baseline; ")


def test_the_text_is_rows_and_words():
    record = recorded(*USUAL, strategies=(BASELINE, AHEAD, IMPOSSIBLE, BURSTS))
    assert render_experiment_text(SAMPLING.page(record)) == TEXT


TEXT = """\
Images per second by strategy: random frames of 40 videos, batches of 128

              strategy  images/s    from - to  times  decoded  CPU ms  seeks  opens  kB read  held MB  frames  bias  deff     D
              baseline      50.0  49.0 - 51.0   1.00     15.5    40.0  0.249   1.00        -     50.0   1,500     0  1.00  1.00
  look-ahead 1,024 MiB       500    490 - 510   10.0    0.700    4.00  0.250      0     3.00     50.0  15,000     0  1.00  1.00
           bursts of 8      250*    250 - 250   5.00     2.50    8.00  0.250      0        -     50.0   7,500     0  1.00  7.30

Fastest is look-ahead 1,024 MiB: 500 images/s, 10.0 times the baseline; bound by decoding, on all
cores
  - look-ahead 1,024 MiB decodes 0.700 frames for each image, the baseline 15.5; that takes 4.00 ms
    of processor time against 40.0 ms.
  - look-ahead 1,024 MiB keeps 2.00 of 2 usable cores busy with 2 workers, the baseline 2.00; other
    programs meanwhile 0 and 0.
  - It counts as bound by decoding from 90 % of the cores that its workers can use.
  - Before it was timed, 16 frames came out equal, bit for bit, from the baseline, a FrameDataset
    and a FrameLoader.
  Try next: More cores, or copies of the videos at the size of the model (see headrace plan): hardly
    anything is decoded in vain any more. What either gains is not known.

Where memory saturates was not measured
  - It takes two of naive, quarter, look-ahead: the same frames in ever more memory.
  Try next: --strategies naive,quarter,look-ahead, or more --memory where one is not possible.

What it costs in statistics: nothing, but for what draws other frames
  - baseline, look-ahead 1,024 MiB, look-ahead 256 MiB: independent frames, the very same batches.
    No bias, no more noise than random frames have; a batch of 128 is worth 128.
  - bursts of 8: each frame once an epoch, 8 from one decoding. No bias, and no two of a burst in a
    batch; but they come soon after one another, and over many steps a batch of 128 is worth as
    little as 18 independent frames (D = 1 + 7 x 0.9 = 7.30), until whole epochs even it out.

The strategies
  - baseline: a stock DataLoader; for each frame it opens the file, seeks and decodes.
  - look-ahead 1,024 MiB: FrameLoader(); a GOP is decoded once for as many batches as fit the
    memory.
  - look-ahead 256 MiB: the same in a quarter of the memory. Not possible here: three batches do not
    fit.
  - bursts of 8: FrameLoader(sampling=Bursts(frames_per_burst=8, lanes=128), lookahead=897); holds
    what its bursts need, however much memory there is.
"""  # noqa: E501


def test_the_reading_explains_the_star_only_where_there_is_one():
    filling = SAMPLING.page(recorded(*USUAL)).table.reading
    assert "at most 6 times the measured time (* is still warming up)" in filling
    assert "(*" not in SAMPLING.page(recorded(*USUAL[:2])).table.reading


def test_the_chart_shows_every_row_with_its_multiple():
    [chart] = SAMPLING.page(recorded(*USUAL)).charts
    bars, times = chart.figure.data
    assert list(bars.y) == ["bursts of 8", "look-ahead 1,024 MiB", "baseline"]
    assert list(bars.x) == [250, 500, 50]
    assert [text.strip() for text in times.text] == ["5.00x", "10.0x", "1.00x"]
    assert list(times.x) == [250, 510, 51]
    assert chart.figure.layout.xaxis.range[1] > 510
