"""Verification of TLS certificates, as requested by the fragment of an address.

`rtsps://camera/live#verify` trusts the certificates of this system. `...#ca=camera.pem` trusts the
certificates in the file, such as the camera's own. Without a fragment no certificate is verified,
because cameras have self-signed ones. The fragment is not sent to the host.
"""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.errors import ConfigError
from headrace.live.connect_errors import ConnectProblem

_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
"""Files of trusted certificates on common systems; FFmpeg reads files only, not folders."""
_DEFAULT_PORTS: Final = {"rtsps": 322, "https": 443}


@dataclass(frozen=True, kw_only=True)
class TlsTrust:
    """Verification of the host's certificate, before any data is sent."""

    ca_file: Path | None = None
    """File of trusted certificates; None: the certificates of this system."""

    def options(self) -> Mapping[str, str]:
        """Return FFmpeg's options of the TLS connection."""
        paths = ssl.get_default_verify_paths()
        candidates = [str(self.ca_file)] if self.ca_file else [paths.cafile or "", *_BUNDLES]
        files = [path for path in candidates if path and Path(path).is_file()]
        return {"tls_verify": "1", **({"ca_file": files[0]} if files else {})}

    def problem(self, url: str, seconds: float) -> ConnectProblem | None:
        """Return the problem of the host's certificate; None: another problem.

        FFmpeg reports a failed connection without the reason, so this function connects again.
        """
        parts = urlsplit(url)
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        address = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme.lower()]
        try:
            with (
                socket.create_connection(address, timeout=seconds) as plain,
                context.wrap_socket(plain, server_hostname=parts.hostname),
            ):
                return None
        except ssl.SSLCertVerificationError as error:
            return ConnectProblem(
                f"its certificate is not trusted ({error.verify_message.rstrip('.')})",
                "give #ca=FILE with the certificate of its issuer, or the host name in the "
                "certificate; without #verify and #ca= no certificate is verified",
                is_lasting=True,
            )
        except OSError:
            return None


def parse_trust(fragment: str, name: str) -> TlsTrust | None:
    """Return the verification of a fragment; None: the fragment is empty.

    Raises:
        ConfigError: the fragment is invalid, or names no file; the message has `name`, the address
            without credentials.
    """
    kind, separator, value = fragment.partition("=")
    if not fragment:
        return None
    if fragment == "verify":
        return TlsTrust()
    if kind != "ca" or not separator:
        raise ConfigError(
            f"cannot read {name}: after # give verify or ca=FILE; write a # in a path as %23"
        )
    path = Path(unquote(value))
    try:
        ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError) as error:
        reason = (getattr(error, "strerror", None) or "").lower()
        problem = "it has no certificate" if path.is_file() else reason or "no such file"
        raise ConfigError(
            f"cannot verify {name} with {path}: {problem}; give a file of certificates (PEM)"
        ) from error
    return TlsTrust(ca_file=path)
