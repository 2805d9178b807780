"""`headrace compare`: text, JSON, page, repeats and errors."""

import pytest

from profiling.loops import Loop, profile_loop
from profiling.sessions import session
from report.recorded import SOURCE


@pytest.fixture
def runs(tmp_path):
    """Return a function: sessions by name -> their folders."""

    def write(**sessions):
        for name, recorded in sessions.items():
            (tmp_path / name).mkdir()
            recorded.save(tmp_path / name / "session.json")
        return [tmp_path / name for name in sessions]

    return write


def test_environment_differences_precede_the_figures_in_80_columns(printed, runs, tmp_path):
    made = session(1).provenance
    newer = made.model_copy(update={"versions": {**made.versions, "torch": "2.16.0"}})
    folders = runs(before=session(1), after=session(2, model_ms=120.0, provenance=newer))
    out = printed("compare", *folders, "--out", tmp_path / "page.html")
    lines = out.splitlines()
    assert lines[0].startswith("after is slower than before: −1")
    assert max(map(len, lines[:-1])) <= 80
    torch = lines.index("  versions: torch")
    assert lines[torch + 1 : torch + 3] == ["    before: 2.15.0", "    after: 2.16.0"]
    assert torch < lines.index("Figures: before; after; change")
    assert "no difference shown" in out
    assert lines[-1] == f"Page: {tmp_path}/page.html"
    assert "after is slower than before" in (tmp_path / "page.html").read_text()


def test_the_commands_of_both_runs_are_printed_without_their_equal_words(printed, runs):
    made = session(1).provenance
    words = ("headrace", "run", "a.mp4", "--pace", "offline", "--threads")
    commands = {name: (*words, number, "--out", name) for name, number in (("a", "1"), ("b", "2"))}
    folders = runs(
        **{
            name: session(1, provenance=made.model_copy(update={"command": command}))
            for name, command in commands.items()
        }
    )
    lines = printed("compare", *folders).splitlines()
    command = lines.index("  command")
    assert lines[command + 1 : command + 3] == [
        *("    a: headrace run … 1", "    b: headrace run … 2")
    ]


def test_equal_runs_have_no_difference_and_json_is_the_only_output(printed, as_json, runs):
    a, b, c = runs(a=session(1), b=session(3), c=session(3))
    out = printed("compare", a, b)
    assert "Environment differences of b and a: none" in out
    assert "No difference shown between b and a." in out
    found = as_json("compare", a, b, c)
    assert found["names"] == ["a", "b", "c"]
    assert {run["name"] for run in found["runs"]} == {"b", "c"}


def test_runs_with_equal_names_are_named_by_path(printed, runs, tmp_path):
    (tmp_path / "other").mkdir()
    folder, other = runs(a=session(1), **{"other/a": session(2)})
    message = f"No difference shown between {other} and {folder}."
    out = printed("compare", folder / "session.json", other)
    assert "".join(out.split()).startswith("".join(message.split()))


def test_any_input_allows_different_inputs(printed, runs):
    videos = [(SOURCE.model_copy(update={"content": f"sha256:{k}"}),) for k in range(2)]
    folders = runs(a=session(1, inputs=videos[0]), b=session(2, inputs=videos[1]))
    printed("compare", *folders, "--any-input")


def test_a_loop_and_a_run_are_not_comparable(call, runs):
    loop = profile_loop(Loop(fetch=2, step=9))
    code, out, err = call("compare", *runs(loop=loop, run=session(1)))
    assert (code, out) == (2, "")
    assert err.startswith("headrace: loop is a profiled loop and run is a run, ")


def test_two_dashes_separate_the_repeats_of_both_sides(printed, as_json, runs):
    folders = runs(
        **{f"a{k}": session(k) for k in range(3)},
        **{f"b{k}": session(k + 5, model_ms=150.0) for k in range(3)},
    )
    sides = (*folders[:3], "--", *folders[3:])
    found = as_json("compare", *sides)
    assert found["names"] == ["a0, a1, a2", "b0, b1, b2"]
    (run,) = found["runs"]
    assert run["differences"][0]["verdict"] == "worse"
    assert run["differences"][0]["between"] > 0
    out = printed("compare", *sides)
    assert out.startswith("b0, b1, b2 is slower than a0, a1, a2: −")
    assert "would have been shown" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("words", [["--", 0, 1], [0, 1, "--"], ["--"]])
def test_two_dashes_need_runs_on_both_sides(call, runs, words):
    folders = runs(a=session(1), b=session(2))
    arguments = [word if word == "--" else folders[word] for word in words]
    message = "headrace: -- has runs on one side only; give runs before and after it\n"
    assert call("compare", *arguments) == (2, "", message)
