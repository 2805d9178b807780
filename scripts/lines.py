"""Lines of code by room: without docstrings, comments and blank lines.

python scripts/lines.py           # a table of src/headrace, benchmarks and tests
python scripts/lines.py --json    # the same for programs
"""

import argparse
import ast
import io
import json
import tokenize
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("src/headrace", "benchmarks", "tests")
SMALL_FILE = 40
"""Lines of code; a file with fewer counts as small."""
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, kw_only=True)
class Count:
    """What stands in some files."""

    files: int = 0
    small_files: int = 0
    """Files with fewer than `SMALL_FILE` lines of code; those without any, as most `__init__.py`,
    are not counted."""
    code: int = 0
    """Lines that hold more than a docstring or a comment."""
    imports: int = 0
    """Of them, lines of import statements."""
    functions: int = 0
    """Functions and methods, nested ones too."""
    one_liners: int = 0
    """Of them, functions whose body is one line of code."""

    def __add__(self, other: "Count") -> "Count":
        mine, theirs = asdict(self), asdict(other)
        return Count(**{name: mine[name] + theirs[name] for name in mine})


def count(text: str) -> Count:
    """Return what stands in one file of Python."""
    tree = ast.parse(text)
    code = _code_lines(text) - _docstring_lines(tree)
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    imports = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _lines_of(node)
    return Count(
        files=1,
        small_files=int(0 < len(code) < SMALL_FILE),
        code=len(code),
        imports=len(imports & code),
        functions=len(functions),
        one_liners=sum(_body_lines(node, code) == 1 for node in functions),
    )


def rooms(root: Path) -> dict[str, Count]:
    """Return counts by room: each folder of src/headrace and benchmarks, and of tests.

    Files that lie right in src/headrace, benchmarks or tests are a room of their own, `.`.
    """
    found = dict[str, Count]()
    for folder in ROOMS:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).parts
            room = f"{folder}/{parts[0] if len(parts) > 1 else '.'}"
            found[room] = found.get(room, Count()) + count(path.read_text("utf-8"))
    return found


def table(found: dict[str, Count]) -> str:
    """Return the counts as text, each folder of `ROOMS` followed by its total."""
    heads = ("room", "files", f"<{SMALL_FILE} lines", "code", "imports", "functions", "one line")
    rows = [heads]
    for folder in ROOMS:
        within = {room: each for room, each in found.items() if room.startswith(f"{folder}/")}
        rows += [_row(room, each) for room, each in within.items()]
        rows += [_row(f"{folder}, all", total(within.values())), ("",) * len(heads)]
    rows.append(_row("all", total(found.values())))
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def total(counts: Iterable[Count]) -> Count:
    """Return their sum."""
    return sum(counts, Count())


def _row(name: str, found: Count) -> tuple[str, ...]:
    return (name, *(f"{number:,}" for number in asdict(found).values()))


def _code_lines(text: str) -> set[int]:
    """Lines on which a token lies that is no comment; those of a string of many lines too."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of docstrings, and of strings that say what stands above them, as of fields."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, _WITH_DOCSTRING)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for line in _lines_of(statement)
    }


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef, code: set[int]) -> int:
    body = set[int]().union(*map(_lines_of, node.body))
    return len(body & code)


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def main(arguments: list[str] | None = None, root: Path = ROOT) -> None:
    """Print the counts of a checkout."""
    parser = argparse.ArgumentParser(description="Count lines of code by room.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    asked = parser.parse_args(arguments)
    found = rooms(root)
    if asked.json:
        plain = {room: asdict(each) for room, each in found.items()}
        print(json.dumps({**plain, "all": asdict(total(found.values()))}, indent=1))
    else:
        print(table(found))


if __name__ == "__main__":
    main()
