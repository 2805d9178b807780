"""Builds what a release consists of, into dist/: wheel, sdist, SBOM and SHA256SUMS.

python -m scripts.release

The SBOM lists the versions of constraints.txt that headrace[run] needs. pip-audit asks whether one
of them is known to be vulnerable; where it cannot reach its data, a line says so.
Exit codes: 0 done, 1 failed or a package is vulnerable.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SUMS = "SHA256SUMS"
TOOLS = Path(sys.executable).parent


class ReleaseError(Exception):
    """A tool that failed: what was run, and what it said."""


def main() -> None:
    """Build, and print each file with its size."""
    try:
        _remove_old(DIST)
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
    """Return the wheel, built from the sdist, and the sdist."""
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    [wheel], [sdist] = folder.glob("headrace-*.whl"), folder.glob("headrace-*.tar.gz")
    return wheel, sdist


def resolve(pins: Path) -> None:
    """Write the versions that headrace[run] has by constraints.txt, as requirements."""
    options = ["--quiet", "--no-header", "--no-annotate", "--extra", "run"]
    options += ["--constraint", "constraints.txt", "--output-file", pins]
    _run(TOOLS / "uv", "pip", "compile", "pyproject.toml", *options)


def write_sbom(pins: Path, folder: Path) -> Path:
    """Write the SBOM, CycloneDX as JSON; equal pins give equal bytes."""
    sbom = folder / f"headrace-{project_version()}.cdx.json"
    options = ["--pyproject", "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
    options += ["--output-format", "JSON", "--output-file", sbom]
    _run(TOOLS / "cyclonedx-py", "requirements", pins, *options)
    return sbom


def audit(pins: Path) -> tuple[str, bool]:
    """Return what pip-audit found in one or more lines, and whether a package is vulnerable."""
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [str(TOOLS / "pip-audit"), "--requirement", str(pins), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = done.stderr.strip().splitlines()[-1:]
        return f"pip-audit could not look: {''.join(last) or 'it said nothing'}", False
    return audited(packages)


def audited(packages: list[dict]) -> tuple[str, bool]:
    """Return the verdict on the packages of pip-audit's JSON, and whether one is vulnerable."""
    lines = [
        f"  {package['name']} {package['version']}: {fault['id']}, "
        f"fixed in {', '.join(fault['fix_versions']) or 'no version'}"
        for package in packages
        for fault in package.get("vulns", ())
    ]
    missed = sum("skip_reason" in package for package in packages)
    if missed == len(packages):
        return f"pip-audit could not reach its data: none of {missed} packages was looked at", False
    verdict = f"pip-audit looked at {len(packages) - missed} of {len(packages)} packages"
    if missed:
        verdict += f"; it could not reach its data on {missed}"
    return "\n".join([f"{verdict}: {len(lines)} known vulnerabilities", *lines]), bool(lines)


def sums(files: list[Path]) -> str:
    """Return the SHA-256 sums, in the form of `sha256sum --check`."""
    rows = [(hashlib.sha256(file.read_bytes()).hexdigest(), file.name) for file in files]
    return "".join(f"{digest}  {name}\n" for digest, name in rows)


def _remove_old(folder: Path) -> None:
    for old in [*folder.glob("headrace-*"), *folder.glob(SUMS)]:
        old.unlink()


def _run(*words: object) -> None:
    command = [str(word) for word in words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ReleaseError(f"cannot run {command[0]} ({error}); run make release") from error
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise ReleaseError(f"{' '.join(command)}: exit code {done.returncode}\n{last}")


if __name__ == "__main__":
    main()
