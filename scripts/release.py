"""Builds the files of a release into dist/: wheel, sdist, SBOM and SHA256SUMS.

python -m scripts.release

The SBOM lists the versions of constraints.txt that headrace[run] needs. pip-audit checks them for
known vulnerabilities; a line reports packages that it could not check.
Exit codes: 0 success, 1 failure or a vulnerable package.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SUMS = "SHA256SUMS"
TOOLS = Path(sys.executable).parent
"""Folder of the programs of requirements-release.txt."""


class ReleaseError(Exception):
    """A tool is missing or failed, or the machine lacks something."""


def main() -> None:
    """Build the files, and print each with its size."""
    try:
        _remove_old_files(DIST)
        wheel, sdist = build(DIST)
        with TemporaryDirectory() as folder:
            pins = Path(folder) / "pins.txt"
            resolve(pins)
            sbom = write_sbom(pins, DIST)
            verdict, is_vulnerable = audit(pins)
        files = [wheel, sdist, sbom]
        (DIST / SUMS).write_text(sums(files), "utf-8")
    except ReleaseError as error:
        sys.exit(f"release: {error}")
    for file in [*files, DIST / SUMS]:
        print(f"{file.relative_to(ROOT)}  {file.stat().st_size:,} bytes")
    print(verdict)
    sys.exit(int(is_vulnerable))


def project_version() -> str:
    """Return the version of pyproject.toml, the only place that declares it."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return (wheel, sdist)."""
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    [wheel], [sdist] = folder.glob("headrace-*.whl"), folder.glob("headrace-*.tar.gz")
    return wheel, sdist


def resolve(pins: Path) -> None:
    """Write the pinned requirements of headrace[run], from constraints.txt."""
    options = ["--quiet", "--no-header", "--no-annotate", "--extra", "run"]
    options += ["--constraint", "constraints.txt", "--output-file", pins]
    _run(find_tool("uv"), "pip", "compile", "pyproject.toml", *options)


def write_sbom(pins: Path, folder: Path) -> Path:
    """Write the SBOM as CycloneDX JSON; equal pins give equal bytes."""
    sbom = folder / f"headrace-{project_version()}.cdx.json"
    options = ["--pyproject", "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
    options += ["--output-format", "JSON", "--output-file", sbom]
    _run(find_tool("cyclonedx-py"), "requirements", pins, *options)
    return sbom


def audit(pins: Path) -> tuple[str, bool]:
    """Return the verdict of pip-audit in one or more lines, and whether a package is vulnerable."""
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [find_tool("pip-audit"), "--requirement", pins, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = done.stderr.strip().splitlines()[-1:]
        return f"pip-audit failed: {''.join(last) or 'no output'}", False
    return summarize_audit(packages)


def summarize_audit(packages: list[dict]) -> tuple[str, bool]:
    """Return the verdict on the packages of pip-audit's JSON, and whether one is vulnerable."""
    lines = [
        f"  {package['name']} {package['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version'}"
        for package in packages
        for vulnerability in package.get("vulns", ())
    ]
    skipped = sum("skip_reason" in package for package in packages)
    if skipped == len(packages):
        return f"pip-audit could not reach its database: checked none of {skipped} packages", False
    verdict = f"pip-audit checked {len(packages) - skipped} of {len(packages)} packages"
    if skipped:
        verdict += f"; its database could not be reached for {skipped}"
    return "\n".join([f"{verdict}: {len(lines)} known vulnerabilities", *lines]), bool(lines)


def sums(files: list[Path]) -> str:
    """Return the SHA-256 sums in the format of `sha256sum --check`."""
    rows = [(hashlib.sha256(file.read_bytes()).hexdigest(), file.name) for file in files]
    return "".join(f"{digest}  {name}\n" for digest, name in rows)


def _remove_old_files(folder: Path) -> None:
    for old in [*folder.glob("headrace-*"), *folder.glob(SUMS)]:
        old.unlink()


def find_tool(name: str) -> str:
    """Return the path of a program of requirements-release.txt.

    Raises:
        ReleaseError: it is not installed.
    """
    path = shutil.which(name, path=str(TOOLS))
    if path is None:
        raise ReleaseError(
            f"{name} is not installed in {TOOLS}; use make release or make release-check, or run "
            f"{sys.executable} -m pip install --requirement requirements-release.txt"
        )
    return path


def _run(*words: object) -> None:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise ReleaseError(f"{' '.join(command)}: exit code {done.returncode}\n{last}")


if __name__ == "__main__":
    main()
