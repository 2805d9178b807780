"""What a release says of its files and of known vulnerabilities."""

import hashlib
import subprocess

import pytest

from scripts.release import audited, sums

KNOWN = {"name": "pillow", "version": "9.0", "vulns": [{"id": "CVE-1", "fix_versions": ["9.1"]}]}
UNFIXED = {"name": "av", "version": "1", "vulns": [{"id": "CVE-2", "fix_versions": []}]}
GOOD = {"name": "rich", "version": "15", "vulns": []}
MISSED = {"name": "torch", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "verdict", "is_vulnerable"),
    [
        ([GOOD], "pip-audit looked at 1 of 1 packages: 0 known vulnerabilities", False),
        (
            [MISSED],
            "pip-audit could not reach its data: none of 1 packages was looked at",
            False,
        ),
        (
            [GOOD, MISSED],
            "pip-audit looked at 1 of 2 packages; it could not reach its data on 1: "
            "0 known vulnerabilities",
            False,
        ),
        (
            [KNOWN, UNFIXED],
            "pip-audit looked at 2 of 2 packages: 2 known vulnerabilities\n"
            "  pillow 9.0: CVE-1, fixed in 9.1\n"
            "  av 1: CVE-2, fixed in no version",
            True,
        ),
    ],
)
def test_the_verdict_counts_what_was_looked_at_and_names_each_vulnerability(
    packages, verdict, is_vulnerable
):
    assert audited(packages) == (verdict, is_vulnerable)


def test_the_sums_are_those_that_sha256sum_checks(tmp_path):
    file = tmp_path / "headrace-1.whl"
    file.write_bytes(b"wheel")
    assert sums([file]) == f"{hashlib.sha256(b'wheel').hexdigest()}  headrace-1.whl\n"
    (tmp_path / "SHA256SUMS").write_text(sums([file]))
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
