"""Certificates that sign themselves, made by openssl."""

import subprocess
from pathlib import Path

from missing import missing


def made(folder: Path, name: str, alternative: str) -> tuple[Path, Path]:
    """Key and certificate in one file, and the certificate alone; signed by itself."""
    key, certificate, both = (folder / f"{name}.{end}" for end in ("key", "pem", "both"))
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={alternative}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    try:
        subprocess.run(
            [*command, "-keyout", key, "-out", certificate], capture_output=True, check=True
        )
    except FileNotFoundError:
        missing("openssl is not installed")
    both.write_text(key.read_text() + certificate.read_text())
    return both, certificate
