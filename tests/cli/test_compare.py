"""`headrace compare` as a user meets it."""

import json

import pytest

from profiling.comparison.simulated import session
from report.recorded import SOURCE


@pytest.fixture
def runs(tmp_path):
    """Return a function: names and sessions -> their folders."""

    def write(**sessions):
        folders = []
        for name, each in sessions.items():
            (tmp_path / name).mkdir()
            each.save(tmp_path / name / "session.json")
            folders.append(tmp_path / name)
        return folders

    return write


def test_what_differs_is_told_before_the_figures_in_80_columns(call, runs, tmp_path):
    made = session(1).provenance
    newer = made.model_copy(update={"versions": {**made.versions, "torch": "2.16.0"}})
    folders = runs(before=session(1), after=session(2, model_ms=120.0, provenance=newer))
    code, out, err = call("compare", *folders, "--out", tmp_path / "page.html")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("after is slower than before: −1")
    assert max(map(len, lines[:-1])) <= 80
    torch = lines.index("  versions: torch")
    assert lines[torch + 1 : torch + 3] == ["    before: 2.15.0", "    after: 2.16.0"]
    assert torch < lines.index("Figures: before, after, change")
    assert "no difference shown" in out
    assert lines[-1] == f"Page: {tmp_path}/page.html"
    assert "after is slower than before" in (tmp_path / "page.html").read_text()


def test_the_same_twice_is_called_no_difference(call, runs):
    code, out, _ = call("compare", *runs(a=session(1), b=session(3)))
    assert code == 0
    assert "Nothing differs around b and a" in out
    assert "No difference shown between b and a." in out


def test_json_is_alone_on_stdout(call, runs):
    folders = runs(a=session(1), b=session(2), c=session(3))
    code, out, _ = call("compare", *folders, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["names"] == ["a", "b", "c"]
    assert {each["name"] for each in found["runs"]} == {"b", "c"}


def test_runs_of_one_name_are_told_apart_by_their_paths(call, runs, tmp_path):
    (folder,) = runs(a=session(1))
    other = tmp_path / "other" / "a"
    other.mkdir(parents=True)
    session(2).save(other / "session.json")
    code, out, _ = call("compare", folder / "session.json", other)
    assert code == 0
    said = f"No difference shown between {other} and {folder}."
    assert "".join(out.split()).startswith("".join(said.split()))


def test_a_folder_that_is_no_run_is_called_what_it_is(call, runs, tmp_path):
    (run,) = runs(a=session(1))
    bench = tmp_path / "bench"
    bench.mkdir()
    (bench / "workers.json").write_text("{}")
    for given, message in (
        (bench, f"{bench} holds what headrace bench workers found, and no run"),
        (bench / "workers.json", "holds what headrace bench workers found"),
        (tmp_path, f"{tmp_path} is no run, but holds 1; give those: {run}"),
    ):
        code, out, err = call("compare", run, given)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_what_cannot_be_compared_is_said_in_one_line(call, runs, tmp_path):
    videos = [(SOURCE.model_copy(update={"content": f"sha256:{k}"}),) for k in range(2)]
    a, b = runs(a=session(1, inputs=videos[0]), b=session(2, inputs=videos[1]))
    for arguments, message in (
        ((a, b), "a and b read different inputs"),
        ((a,), "needs two runs or more, got 1"),
        ((a, a), "a run is given twice"),
        ((a, tmp_path / "gone"), "give the session.json of a run folder"),
        ((a, b, "--any-input", "--out", tmp_path), "give a file such as"),
    ):
        code, out, err = call("compare", *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1
    assert call("compare", a, b, "--any-input")[0] == 0
