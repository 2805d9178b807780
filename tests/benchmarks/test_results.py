"""Results are saved and loaded, and the pages are generated from them."""

import re
from xml.etree import ElementTree

import pytest

from benchmark_fakes import origin, result, row
from benchmarks.bench_sequential import sequential
from benchmarks.pages import BLOCKS, RECORDS, THEMES, bars, load, main, picture, replace_block
from benchmarks.record import RESULTS, Repeat, TimedResult, command
from benchmarks.worker import ROOT

ORDER = ["baseline", "decord", "spdl"]
RESULT = result(row("decord", [10.0]), row("spdl"))


def test_new_rows_replace_older_versions():
    newer, other = row("decord", failure="no decoder"), row("decord", kind="cam")
    updated = RESULT.updated([newer, other], ORDER)
    assert updated.rows == (newer, other, RESULT.rows[1])
    assert updated.row("decord", "cam") == other
    assert updated.row("spdl", "cam") is None


def test_a_variant_timed_later_has_its_place_in_the_order():
    """The table compares all variants with the first."""
    late = row("baseline")
    assert RESULT.updated([late], ORDER).rows == (late, *RESULT.rows)


def test_an_interrupted_run_continues_in_another_process(tmp_path):
    RESULT.save(tmp_path / "out.json")
    later = RESULT.provenance.model_copy(update={"pid": 7, "command": ("again", "--resume")})
    now = RESULT.model_copy(update={"provenance": later, "rows": ()})
    assert now.resumed(tmp_path / "out.json") == RESULT


def test_a_run_without_a_file_starts_anew(tmp_path):
    assert RESULT.resumed(tmp_path / "out.json") is RESULT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commit", "4567def"),
        ("configuration", {"repeats": 5}),
        ("machine", origin().machine.model_copy(update={"usable_cores": 4})),
    ],
)
def test_repeats_under_other_conditions_are_refused(name, value, tmp_path):
    RESULT.save(tmp_path / "out.json")
    other = RESULT.provenance.model_copy(update={name: value})
    with pytest.raises(ValueError, match=rf"other conditions \({name}\)"):
        RESULT.model_copy(update={"provenance": other}).resumed(tmp_path / "out.json")


def test_missing_values_are_left_out_and_loaded_as_none(tmp_path):
    RESULT.save(tmp_path / "out.json")
    assert "null" not in (tmp_path / "out.json").read_text()
    assert TimedResult.load(tmp_path / "out.json") == RESULT
    assert Repeat(wall_seconds=1.0).others_share is None


def test_amplification_covers_all_repeats_with_counts():
    assert row("headrace", [10, 20], decoded=1800).amplification == 1.5
    assert row("decord", [10, 20]).amplification is None


RESULT_NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))


def test_every_result_is_saved_and_shown_if_it_has_a_page():
    shown = {name.rstrip("?") for *_, names in BLOCKS for name in names.split()}
    assert {*RECORDS, *shown} - {*RESULT_NAMES} == set()
    assert {*RESULT_NAMES} - shown == {"before", "conformance", "correlation", "draws", "run"}


@pytest.mark.parametrize("name", RESULT_NAMES)
def test_a_saved_result_loads_with_its_provenance(name):
    provenance = load(RESULTS, name).provenance
    assert provenance.machine.usable_cores == 2
    assert provenance.commit
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    assert not re.search(r"[\"']/\w", text), "an absolute path"


def test_a_command_is_relative_to_the_root_of_the_checkout(monkeypatch):
    monkeypatch.setattr("sys.argv", [f"{ROOT}/benchmarks/x.py", "--out", "/data/x.json", "--quick"])
    assert command() == ("benchmarks/x.py", "--out", "x.json", "--quick")


def test_the_pages_are_up_to_date():
    main(check=True)


NEEDS_ANOTHER_COMMIT = "bench_before"


def test_every_benchmark_is_run_once():
    text = (ROOT / "Makefile").read_text("utf-8")
    run = re.findall(r"-m benchmarks\.(bench_\w+)$", text, re.MULTILINE)
    modules = {path.stem for path in (ROOT / "benchmarks").glob("bench_*.py")}
    assert sorted(run) == sorted(modules - {NEEDS_ANOTHER_COMMIT})


PAGED = result(row("headrace", [1140.0]), row("pyav_loop", [1200.0]), repeats=1)


def test_a_block_is_replaced_and_the_rest_kept():
    text = "a\n<!-- benchmark:x -->\nold\n<!-- /benchmark -->\nb <!-- /benchmark -->"
    new = "a\n<!-- benchmark:x -->\n\\1 new\n<!-- /benchmark -->\nb <!-- /benchmark -->"
    assert replace_block(text, "x", "\\1 new") == new
    assert replace_block(new, "x", "\\1 new") == new


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- benchmark:x -->",
        "<!-- benchmark:y --><!-- /benchmark -->",
        "<!-- benchmark:x --><!-- /benchmark -->" * 2,
    ],
)
def test_missing_or_double_markers_are_refused(text):
    with pytest.raises(ValueError, match="exactly once"):
        replace_block(text, "x", "new")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# A\n")
    page = "<!-- benchmark:sequential -->\n<!-- /benchmark -->\n"
    (tmp_path / "docs" / "benchmarks.md").write_text(page)
    PAGED.save(tmp_path / "sequential.json")
    return tmp_path


def test_the_check_fails_on_pages_out_of_date(root):
    folders = {"root": root, "results": root}
    with pytest.raises(SystemExit, match="out of date: sequential-light"):
        main(check=True, **folders)
    main(**folders)
    assert sequential(PAGED) in (root / "docs" / "benchmarks.md").read_text("utf-8")
    main(check=True, **folders)
    PAGED.model_copy(update={"rows": PAGED.rows[:1]}).save(root / "sequential.json")
    with pytest.raises(SystemExit, match=r"benchmarks\.md"):
        main(check=True, **folders)


def test_a_result_without_markers_on_its_page_is_named(root):
    PAGED.save(root / "startup.json")
    with pytest.raises(SystemExit, match="benchmark:startup"):
        main(root=root, results=root)


LINES = [
    [row("headrace", [1140]), row("headrace", [900], kind="cam")],
    [row("decord", [1100])],
    [row("opencv", failure="no decoder")],
    [row("spdl", [50])],
]
NAMES = {"headrace": "**headrace**", "decord": "decord & more", "opencv": "OpenCV"}


@pytest.mark.parametrize("theme", THEMES)
def test_each_timed_entrant_with_a_name_has_bars(theme):
    chart = ElementTree.fromstring(bars("Frames", LINES, NAMES, theme))
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        *("web", "cam", "frames/s"),
        *("headrace", "1,140", "900", "decord & more", "1,100"),
    ]


def test_a_picture_has_a_light_and_a_dark_chart():
    html = picture("speed", 'of "all"', "../results")
    assert 'srcset="../results/speed-dark.svg"' in html
    assert '<img alt="of &quot;all&quot;" src="../results/speed-light.svg">' in html
