"""The verdict on known vulnerabilities, checksums and missing tools of a release."""

import hashlib
import subprocess

import pytest

from scripts.release import ReleaseError, audit, summarize_audit, sums

KNOWN = {"name": "pillow", "version": "9.0", "vulns": [{"id": "CVE-1", "fix_versions": ["9.1"]}]}
UNFIXED = {"name": "av", "version": "1", "vulns": [{"id": "CVE-2", "fix_versions": []}]}
GOOD = {"name": "rich", "version": "15", "vulns": []}
SKIPPED = {"name": "torch", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "verdict", "is_vulnerable"),
    [
        ([GOOD], "pip-audit checked 1 of 1 packages: 0 known vulnerabilities", False),
        (
            [SKIPPED],
            "pip-audit could not reach its database: checked none of 1 packages",
            False,
        ),
        (
            [GOOD, SKIPPED],
            "pip-audit checked 1 of 2 packages; its database could not be reached for 1: "
            "0 known vulnerabilities",
            False,
        ),
        (
            [KNOWN, UNFIXED],
            "pip-audit checked 2 of 2 packages: 2 known vulnerabilities\n"
            "  pillow 9.0: CVE-1, fixed in 9.1\n"
            "  av 1: CVE-2, fixed in no version",
            True,
        ),
    ],
)
def test_the_verdict_counts_checked_packages_and_names_each_vulnerability(
    packages, verdict, is_vulnerable
):
    assert summarize_audit(packages) == (verdict, is_vulnerable)


def test_a_missing_tool_is_an_error_that_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.release.TOOLS", tmp_path)
    with pytest.raises(ReleaseError, match=r"pip-audit is not installed in .*; use make release"):
        audit(tmp_path / "pins.txt")


def test_sha256sum_accepts_the_checksums(tmp_path):
    file = tmp_path / "headrace-1.whl"
    file.write_bytes(b"wheel")
    assert sums([file]) == f"{hashlib.sha256(b'wheel').hexdigest()}  headrace-1.whl\n"
    (tmp_path / "SHA256SUMS").write_text(sums([file]))
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
