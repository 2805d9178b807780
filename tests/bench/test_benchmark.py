"""Custom benchmark in one file, with options, page, JSON and table."""

import csv
import json
import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from bench import checksums
from bench.checksums import CHECKSUMS, ChecksumsConfig
from headrace.bench import registry
from headrace.bench.registry import load_benchmark
from headrace.cli import main
from headrace.errors import ConfigError

FILE = Path(checksums.__file__)
FILES = {"Numbers": "json", "Table": "csv", "Chart": "html"}
BROKEN = {
    "none.py": ("x = 1\n", "must define exactly one Benchmark, got none"),
    "two.py": (
        "from dataclasses import replace\nfrom bench.checksums import CHECKSUMS\n"
        "other = replace(CHECKSUMS, name='other')\n",
        "must define exactly one Benchmark, got 2",
    ),
    "fails.py": ("1 / 0\n", "cannot be run: ZeroDivisionError: division by zero"),
    "wrong.py": ("def\n", "cannot be run: SyntaxError"),
    "taken.py": (
        "from dataclasses import replace\nfrom bench.checksums import CHECKSUMS as known\n"
        "own = replace(known, name='amp')\ndel known\n",
        "must not reuse the name of a headrace benchmark, got 'amp'; give it another name",
    ),
}


@pytest.fixture
def call(capsys):
    """Return a function: arguments -> (exit code, stdout, stderr)."""

    def run(*arguments):
        code = 0
        try:
            main(["bench", *map(str, arguments)])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(bytes(range(256)) * 40)
    return path


def test_the_benchmark_has_at_most_sixty_lines():
    assert len(FILE.read_text().splitlines()) <= 60


def test_its_options_are_the_fields_of_its_configuration(call):
    code, out, err = call(FILE, "--help")
    assert (code, err) == (0, f"running the code of {FILE} with your permissions\n")
    for text in (
        *("Time checksums of whole files; name the fastest.", "Video files, or folders of them."),
        *("--checksums", "[default:", "sha256,blake2b,crc32]", "--repeats"),
        *("Repetitions per checksum.  [default: 3; x>=1]", "--out", "--json"),
    ):
        assert text in out, text


def test_it_prints_a_table_and_writes_numbers_and_page(call, video, tmp_path):
    folder = tmp_path / "out"
    options = ("--checksums", "sha256,crc32", "--repeats", 2, "--out", folder)
    code, out, _ = call(FILE, video, *options)
    assert code == 0
    machine, title, _, heads, *rows = out.splitlines()
    assert machine.startswith("Machine: CPU")
    assert title == "Megabytes per second by checksum"
    assert [line.split()[0] for line in (heads, *rows[:2])] == ["checksum", "sha256", "crc32"]
    written = [f"{what}: {folder}/checksums.{kind}" for what, kind in FILES.items()]
    assert out.splitlines()[-3:] == written
    record = CHECKSUMS.record.model_validate_json((folder / "checksums.json").read_text())
    assert [turn.way for turn in record.turns] == ["sha256", "crc32"] * 2
    assert record.provenance.configuration == {
        "videos": 1,
        "checksums": "sha256,crc32",
        "repeats": 2,
    }
    with (folder / "checksums.csv").open(encoding="utf-8", newline="") as table:
        lines = [(line["row"], line["repetition"]) for line in csv.DictReader(table)]
    assert lines == [(checksum, number) for checksum in ("sha256", "crc32") for number in "12"]
    assert record.spread.between >= 0
    page = (folder / "checksums.html").read_text()
    assert "Megabytes per second by checksum" in page
    assert "chart-rates" in page


def test_its_json_is_alone_on_stdout(call, video, tmp_path):
    code, out, err = call(FILE, video, "--out", tmp_path, "--json")
    assert (code, len(json.loads(out)["turns"])) == (0, 9)
    assert json.loads(out) == json.loads((tmp_path / "checksums.json").read_text())
    assert err == f"running the code of {FILE} with your permissions\n"


def test_an_unknown_checksum_is_refused(video):
    with pytest.raises(ConfigError, match=r"checksums must be among sha256, .*; got md5"):
        ChecksumsConfig(videos=(str(video),), checksums=("md5",))


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_without_a_new_benchmark_is_refused(tmp_path, name):
    text, message = BROKEN[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_benchmark(tmp_path / name)
    assert message in str(caught.value)


def test_for_a_missing_file_a_similar_name_is_suggested(call, tmp_path):
    (tmp_path / "sharpness.py").touch()
    code, out, err = call(tmp_path / "sharpnes.py", "a.mp4")
    assert (code, out) == (2, "")
    assert f"there is no such file; did you mean {tmp_path}/sharpness.py?" in err


def test_deferred_functions_exist():
    """A type checker does not see them."""
    files = Path(registry.__file__).parent.glob("*.py")
    names = [
        name for file in files for name in re.findall(r'=deferred\("(.*?)"\)', file.read_text())
    ]
    assert len(names) >= 3
    assert all(callable(resolve_name(f"headrace.bench.{name}")) for name in names)
