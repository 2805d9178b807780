"""Tests of benchmarks/pages.py: a page is written from the results, and a stale one is seen."""

from pathlib import Path

import pytest

from benchmark_fakes import result, row
from benchmarks.pages import main, replace_block
from benchmarks.tables.compared import sequential

RESULT = result(row("headrace", [1140.0]), row("pyav_loop", [1200.0]), repeats=1)


def test_a_block_is_replaced_and_the_rest_kept() -> None:
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
def test_missing_or_double_markers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="exactly once"):
        replace_block(text, "x", "new")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# A\n")
    page = "<!-- benchmark:sequential -->\n<!-- /benchmark -->\n"
    (tmp_path / "docs" / "benchmarks.md").write_text(page)
    RESULT.save(tmp_path / "sequential.json")
    return tmp_path


def test_the_check_sees_a_page_that_the_results_have_outgrown(root: Path) -> None:
    words = ["--root", str(root), "--results", str(root)]
    with pytest.raises(SystemExit, match="not what the results say: sequential-light"):
        main([*words, "--check"])
    main(words)
    assert sequential(RESULT) in (root / "docs" / "benchmarks.md").read_text("utf-8")
    main([*words, "--check"])
    RESULT.model_copy(update={"rows": RESULT.rows[:1]}).save(root / "sequential.json")
    with pytest.raises(SystemExit, match=r"benchmarks\.md"):
        main([*words, "--check"])


def test_a_result_that_no_page_has_a_place_for_is_named(root: Path) -> None:
    RESULT.save(root / "startup.json")
    with pytest.raises(SystemExit, match="benchmark:startup"):
        main(["--root", str(root), "--results", str(root)])
