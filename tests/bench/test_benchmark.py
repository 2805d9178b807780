"""An experiment described in one file has options, page, JSON and console table for free."""

import json
from pathlib import Path

import pytest

from bench import checksums
from bench.checksums import CHECKSUMS, ChecksumsConfig
from headrace.bench.contest import ContestRecord, ContestTurn, contest_rows
from headrace.cli.bench import command_of
from headrace.errors import ConfigError
from headrace.measuring.interleaved import Spread
from headrace.profiling.findings.finding import Finding
from headrace.profiling.machine import provenance


@pytest.fixture
def call(capsys):
    """Return a function: arguments -> (exit code, stdout)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            command_of(CHECKSUMS)([*map(str, arguments)], prog_name="checksums")
        return end.value.code, capsys.readouterr().out

    return run


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(bytes(range(256)) * 40)
    return path


def recorded(seconds_by_way, others=0.0):
    """Return a record of turns that each did 100 MB."""
    turns = [
        ContestTurn(way=way, amount=100, seconds=s, cpu_seconds=s, others_cpu_seconds=others * s)
        for way, seconds in seconds_by_way.items()
        for s in seconds
    ]
    made = provenance({}, ())
    machine = made.machine.model_copy(update={"usable_cores": 4})
    made = made.model_copy(update={"machine": machine})
    return ContestRecord(provenance=made, turns=tuple(turns))


def found(seconds_by_way, others=0.0) -> Finding:
    [finding] = CHECKSUMS.page(recorded(seconds_by_way, others)).findings
    return finding


def test_the_whole_experiment_is_at_most_sixty_lines():
    assert len(Path(checksums.__file__).read_text().splitlines()) <= 60


def test_its_options_are_the_fields_of_its_configuration(call):
    code, out = call("--help")
    assert code == 0
    for said in (
        *("Time checksums of whole files; name the fastest.", "Video files, or folders of them."),
        *("--checksums", "[default:", "sha256,blake2b,crc32]", "--repeats"),
        *("Turns of each checksum.  [default: 3; x>=1]", "--out", "--json"),
    ):
        assert said in out, said


def test_it_prints_a_table_and_leaves_numbers_and_page(call, video, tmp_path):
    out_dir = tmp_path / "out"
    code, out = call(video, "--checksums", "sha256,crc32", "--repeats", 2, "--out", out_dir)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "Megabytes per second by checksum"
    assert [line.split()[0] for line in lines[2:5]] == ["checksum", "sha256", "crc32"]
    assert out.endswith(f"Numbers: {out_dir}/checksums.json\nChart: {out_dir}/checksums.html\n")
    record = CHECKSUMS.record.model_validate_json((out_dir / "checksums.json").read_text())
    assert [turn.way for turn in record.turns] == ["sha256", "crc32"] * 2
    assert record.provenance.configuration == {
        "videos": 1,
        "checksums": "sha256,crc32",
        "repeats": 2,
    }
    assert "Megabytes per second by checksum" in (out_dir / "checksums.html").read_text()


def test_its_json_is_alone_on_stdout(call, video, tmp_path):
    code, out = call(video, "--out", tmp_path, "--json")
    assert (code, len(json.loads(out)["turns"])) == (0, 9)


def test_what_is_not_possible_is_refused(video):
    with pytest.raises(ConfigError, match=r"checksums must be among sha256, .*; got md5"):
        ChecksumsConfig(videos=(str(video),), checksums=("md5",))


def test_the_fastest_is_named_with_its_gain_on_the_first():
    finding = found({"sha256": [2, 2, 2], "blake2b": [1, 1, 1]})
    assert finding.headline == "Fastest is blake2b: 100 MB/s"
    assert finding.change == "blake2b: 2.00 times the 50.0 MB/s of sha256."


def test_where_the_first_is_as_fast_no_gain_is_known():
    finding = found({"sha256": [1.02], "blake2b": [1]})
    assert finding.headline == "Fastest is sha256 and blake2b: 100 MB/s"
    assert finding.change == "No gain is known: nothing here is clearly faster than sha256."


@pytest.mark.parametrize(
    ("seconds", "others", "doubt", "said"),
    [
        ([1, 2], 0, "Too unsteady to say", "Turns of one way differ by up to 67 %"),
        ([1, 1], 0.5, "Other programs ran meanwhile, so it is uncertain", "0.500 of 4 usable"),
    ],
)
def test_what_cannot_be_told_apart_is_no_verdict(seconds, others, doubt, said):
    finding = found({"sha256": seconds, "crc32": [5, 5]}, others)
    assert finding.headline == f"{doubt} which is the fastest; by the median sha256"
    assert finding.change.startswith("The same again with nothing else running")
    assert said in finding.evidence[0]


def test_rows_are_medians_of_the_turns():
    [row] = contest_rows(recorded({"crc32": [1, 2, 4]}))
    assert row.rate == Spread(median=50, lowest=25, highest=100)
