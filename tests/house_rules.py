"""Architecture rules of docs/design.md, checked on the source text.

pyproject.toml lists the files that may import inside a function; ruff checks them.
"""

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = [
    *("errors", "extras", "units", "argument_names", "redaction", "atomic_file", "records"),
    "cached_property",
    "config_fields",
    *("video", "sampling", "planning", "runtime", "cache", "decode", "preprocess", "models"),
    *("profiling", "loaders", "extraction", "live", "sinks", "runs", "report", "instrumentation"),
    *("measuring", "planner", "bench", "cli"),
]
"""A file imports only from its own layer and earlier ones; `testing` imports from all."""
DRAWING = "cli/demo.py"
"""The file that may import `testing`, because it generates its videos."""
ENTRIES = ["__init__", "__main__"]
"""Files of the package root that may import every layer."""
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

OWNERS = {
    "threads and processes": (
        r"threading|_thread|multiprocessing|concurrent\.futures|queue|torch\.multiprocessing",
        ["runtime/*", "testing/*"],
    ),
    "a cluster": (r"ray", ["extraction/ray/*"]),
    "the codec library": (
        r"av",
        [
            *(
                "video/container.py",
                "video/packet_table.py",
                "video/codec.py",
                "video/content_digest.py",
                "video/pyav_version.py",
            ),
            *(
                "video/reference_codec.py",
                "video/reference_decode.py",
                "decode/*",
                "sinks/video_file.py",
            ),
            # Encodes, and compares the result with the source.
            *(f"extraction/proxies/{name}.py" for name in ("encoder", "proxy_options")),
            "live/stream_reader.py",  # cameras and network streams, which are not files
            *("profiling/machine.py", "testing/*"),
        ],
    ),
    "the clock": (r"time|datetime\.(datetime|date)\.(now|utcnow|today)", ["runtime/clock.py"]),
    "randomness": (
        r"random|secrets|numpy\.random|torch\.(rand\w*|(manual_)?seed|normal|bernoulli|multinomial)",
        # A token must not depend on a seed.
        ["sampling/*", "models/load.py", "sinks/web/web_options.py", "testing/*"],
    ),
    # Missing on Windows: tests/test_systems.py, docs/reference/systems.md.
    "parts of one operating system": (
        r"fcntl|resource|msvcrt|termios|pwd|grp|sys\.platform"
        r"|os\.(fork|killpg|set(sid|pgid)|ctermid|tcgetpgrp|pread|pwrite|writev|fchmod|sched_\w+"
        r"|register_at_fork|mkfifo|get(uid|pgrp|pgid)|memfd_\w+|O_(CLOEXEC|NOFOLLOW|NOCTTY))"
        r"|signal\.(SIG(KILL|STOP|CONT|HUP|ALRM|USR[12])|pthread_\w+|alarm|setitimer)",
        [
            *("runtime/*", "testing/*", "cache/spill_folder.py", "cli/signals.py"),
            *("live/open_options.py", "decode/gpu/nvdec.py"),
        ],
    ),
    # A profiled script has no command that could print its verdict.
    "printing": (r"builtins\.print", ["cli/*", "instrumentation/loop_profile.py"]),
    # torchrun passes the rank to a process in its environment.
    "the environment": (
        r"os\.(environb?|getenvb?|putenv|unsetenv)",
        ["cli/*", "instrumentation/loop_profile.py"],
    ),
}
"""Effect → pattern of its dotted names, and the files that may use them."""

BLIND = {
    "runtime/*": r"headrace\.(video|sampling|planning)",  # independent of video
    "report/*": r"headrace\.runtime\.clock",  # measures nothing
}
"""Files → modules of lower layers that they must not import."""

UNSAFE = (
    r"pickle(?!\.UnpicklingError)|marshal|shelve|dill|yaml\.(unsafe_|full_)?load|os\.(system|popen)"
    r"|builtins\.(eval|exec)"
)
VAGUE = r"(.*_)?(utils?|common|helpers?|core|managers?)|base(_.*)?"


@dataclass(frozen=True)
class Module:
    """A source file, parsed once."""

    path: str
    """Path relative to src/headrace, with slashes."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, f"src/headrace/{self.path}")

    @property
    def parts(self) -> list[str]:
        return self.path.removesuffix(".py").split("/")

    @property
    def name(self) -> str:
        return ".".join(["headrace", *self.parts]).removesuffix(".__init__")

    @property
    def layer(self) -> str:
        return self.parts[0]

    def is_in(self, patterns: list[str]) -> bool:
        return any(fnmatch(self.path, pattern) for pattern in patterns)

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """(line, dotted name) of each import in the file."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = "." * node.level + (node.module or "")
                found += [(node.lineno, f"{start}.{alias.name}") for alias in node.names]
        return found

    @cached_property
    def uses(self) -> list[tuple[int, str]]:
        """(line, dotted name) of each import, each name of an import, and each built-in name."""
        known = {name: f"builtins.{name}" for name in dir(builtins)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                known |= {a.asname or a.name.split(".")[0]: _bound(a) for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        found = list(self.imports)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name | ast.Attribute):
                first, *rest = ast.unparse(node).split(".")
                found += [(node.lineno, ".".join([known[first], *rest]))] if first in known else []
        return found


Problems = Iterator[tuple[int, str]]
"""Line and problem."""


def layers(module: Module) -> Problems:
    """A file imports only from its own layer and earlier ones in `LAYERS`."""
    if module.layer == "testing":
        return
    if module.layer not in LAYERS + ENTRIES:
        yield 1, f"{module.layer!r} is not in the list of layers"
        return
    later = [] if module.layer in ENTRIES else LAYERS[LAYERS.index(module.layer) + 1 :]
    for line, name in module.imports:
        target = name.split(".")[1] if name.startswith("headrace.") else ""
        if target in later or (target == "testing" and module.path != DRAWING):
            yield line, f"{module.layer} imports {name}, which is in a later layer"


def root(module: Module) -> Problems:
    """Imports are absolute and never name the package root."""
    inside = {*LAYERS, "testing"}
    for line, name in module.imports:
        first, *rest = name.split(".")
        if not first or (first == "headrace" and (not rest or rest[0] not in inside)):
            yield line, f"imports {name}: name the module as headrace.<layer>.<file>"


def owners(module: Module) -> Problems:
    """Only its owners have an effect."""
    for effect, (names, files) in OWNERS.items():
        if not module.is_in(files):
            for line, name in _used(module, names):
                yield line, f"{name}: {effect} belong to {', '.join(files)}"


def blindness(module: Module) -> Problems:
    """`runtime` is independent of video, `report` of the clock."""
    for files, names in BLIND.items():
        if module.is_in([files]):
            for line, name in _used(module, names):
                yield line, f"{files} must not import {name}"


def safety(module: Module) -> Problems:
    """No data or text is run as code."""
    for line, name in _used(module, UNSAFE):
        yield line, f"{name} can run data as code"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            given = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if given.get("shell", "False") != "False":
                yield node.lineno, "shell= runs a text in a shell; pass a list of arguments"
            is_load = ast.unparse(node.func) in {"torch.load", "load"}
            is_torch = is_load and any(name == "torch.load" for _, name in module.uses)
            if is_torch and given.get("weights_only") != "True":
                yield node.lineno, "torch.load without weights_only=True can run data as code"


def names(module: Module) -> Problems:
    """A name describes the contents."""
    for part in module.parts:
        if re.fullmatch(VAGUE, part):
            yield 1, f"the name {part!r} does not describe the contents"


def sizes(module: Module) -> Problems:
    """Files and functions have a maximum length."""
    lines = len(module.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield lines, f"{lines} lines in one file, at most {MAX_FILE_LINES} are allowed"
    for function in _functions(module):
        lines = (function.end_lineno or 0) - function.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield function.lineno, f"{function.name} has {lines} lines, not <= {MAX_FUNCTION_LINES}"


def folders(module: Module) -> Problems:
    """Every file has a docstring; the `__init__` of a folder has nothing else."""
    is_plain = module.path.endswith("/__init__.py") and module.layer != "cli"
    if is_plain and len(module.tree.body) != 1:
        yield module.tree.body[1].lineno, "has more than a docstring; move the rest to its own file"
    if ast.get_docstring(module.tree) is None:
        yield 1, "the file has no docstring"


RULES: dict[str, Callable[[Module], Problems]] = {
    rule.__name__: rule for rule in (layers, root, owners, blindness, safety, names, sizes, folders)
}


def cycle(modules: list[Module]) -> list[str]:
    """Return the modules of an import cycle, the first one again at the end."""
    all_names = {module.name for module in modules}
    graph = {
        module.name: {_module_of(name, all_names) for _, name in module.imports} - {None}
        for module in modules
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@cache
def house() -> list[Module]:
    """Return all source files, read once."""
    source = ROOT / "src" / "headrace"
    files = sorted(source.rglob("*.py"))
    return [Module(file.relative_to(source).as_posix(), file.read_text("utf-8")) for file in files]


def _bound(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.split(".")[0]


def _used(module: Module, names: str) -> list[tuple[int, str]]:
    """Return the uses that match `names`, one per line."""
    pattern = re.compile(rf"({names})(\..*)?")
    found = sorted((line, name) for line, name in module.uses if pattern.fullmatch(name))
    return list(dict(found).items())


def _functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(module.tree) if isinstance(node, kinds)]


def _module_of(name: str, all_names: set[str]) -> str | None:
    """Return the module of an imported name: itself, or its owner."""
    owner = name.rpartition(".")[0]
    return next((found for found in (name, owner) if found in all_names), None)
