"""Lines of code by folder, without docstrings, comments and blank lines.

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
TREES = ("src/headrace", "benchmarks", "tests")
SMALL_FILE = 40
"""A file with fewer lines of code is small."""
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, kw_only=True)
class Count:
    """Counts of some files."""

    files: int = 0
    small_files: int = 0
    """Files with 1 to `SMALL_FILE` - 1 lines of code; most `__init__.py` have none."""
    code: int = 0
    """Lines with code."""
    imports: int = 0
    """Lines of import statements, included in `code`."""
    functions: int = 0
    """Functions and methods, nested ones included."""
    one_liners: int = 0
    """Functions whose body is one line of code, included in `functions`."""

    def __add__(self, other: "Count") -> "Count":
        left, right = asdict(self), asdict(other)
        return Count(**{name: left[name] + right[name] for name in left})


def count(text: str) -> Count:
    """Return the counts of the source of one Python file."""
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


def count_folders(root: Path) -> dict[str, Count]:
    """Return folder → counts, for each first-level folder of `TREES`.

    Files directly in a tree are counted as its folder `.`.
    """
    counts = dict[str, Count]()
    for tree in TREES:
        for path in sorted((root / tree).rglob("*.py")):
            parts = path.relative_to(root / tree).parts
            folder = f"{tree}/{parts[0] if len(parts) > 1 else '.'}"
            counts[folder] = counts.get(folder, Count()) + count(path.read_text("utf-8"))
    return counts


def table(counts: dict[str, Count]) -> str:
    """Return the counts as text, each tree followed by its total."""
    header = ("folder", "files", f"<{SMALL_FILE} lines", "code", "imports", "functions", "one line")
    rows = [header]
    for tree in TREES:
        folders = {name: value for name, value in counts.items() if name.startswith(f"{tree}/")}
        rows += [_row(name, value) for name, value in folders.items()]
        rows += [_row(f"{tree}, all", total(folders.values())), ("",) * len(header)]
    rows.append(_row("all", total(counts.values())))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of the counts."""
    return sum(counts, Count())


def _row(name: str, counts: Count) -> tuple[str, ...]:
    return (name, *(f"{number:,}" for number in asdict(counts).values()))


def _code_lines(text: str) -> set[int]:
    """Return the lines with a token other than a comment; a multi-line string covers its lines."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Return the lines of docstrings, including those below fields and constants."""
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
    parser = argparse.ArgumentParser(description="Count lines of code by folder.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    options = parser.parse_args(arguments)
    counts = count_folders(root)
    if options.json:
        all_counts = {**counts, "all": total(counts.values())}
        print(json.dumps({name: asdict(value) for name, value in all_counts.items()}, indent=1))
    else:
        print(table(counts))


if __name__ == "__main__":
    main()
