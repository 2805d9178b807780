"""Tests of benchmarks/bench_overhead.py: what looking at a run costs a step."""

from benchmarks.bench_overhead import WAYS, Overhead, OverheadResult, Times, main, render
from benchmarks.record import origin
from headrace.testing.synth import SynthClip, write_clip


def test_the_smallest_measurement_is_kept_and_can_be_read(tmp_path, capsys):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=24))
    out = tmp_path / "overhead.json"
    words = ["--turns", "1", "--steps", "4", "--batch-size", "2", "--video", clip, "--out", out]
    main([str(word) for word in words])
    found = OverheadResult.load(out)
    assert [row.way for row in found.rows] == list(WAYS)
    assert {len(row.turns) for row in found.rows} == {1}
    assert all(each.wall > 0 and each.cpu >= 0 for row in found.rows for each in row.turns)
    assert "bare: " in capsys.readouterr().out


def test_a_cost_is_the_median_of_the_turns_beside_bare():
    walls = {
        "bare": (0.010, 0.020, 0.040),
        "recorded": (0.011, 0.020, 0.041),
        "nvtx": (0.010, 0.020, 0.040),
        "trace": (0.020, 0.040, 0.080),
    }
    result = OverheadResult(
        provenance=origin({}),
        rows=tuple(
            Overhead(way=way, turns=tuple(Times(wall=wall, cpu=2 * wall) for wall in found))
            for way, found in walls.items()
        ),
        empty_step_seconds=(0.0002, 0.0001, 0.0003),
    )
    assert render(result) == (
        "bare: 20.00 ms a step\n"
        "recorded: +2.5% of a step (+0.0% to +10.0%); +2.5% of its CPU time (+0.0% to +10.0%)\n"
        "nvtx: +0.0% of a step (+0.0% to +0.0%); +0.0% of its CPU time (+0.0% to +0.0%)\n"
        "trace: +100.0% of a step (+100.0% to +100.0%); "
        "+100.0% of its CPU time (+100.0% to +100.0%)\n"
        "the runtime: 200 us a step, 1.00% of it"
    )
