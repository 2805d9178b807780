"""Whether the certificate of a host is verified, and by what: the end of an address says.

`rtsps://camera/live#verify` trusts whom this system trusts, `...#ca=camera.pem` what that file
holds, such as the camera's own certificate. Without either none is verified: those of cameras are
signed by nobody. What follows # never leaves this machine.
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
"""Where systems keep the certificates they trust, in one file: FFmpeg takes no folder."""
_PORTS: Final = {"rtsps": 322, "https": 443}


@dataclass(frozen=True, kw_only=True)
class TlsTrust:
    """The certificate of the host is verified before anything is sent to it."""

    ca_file: Path | None = None
    """Who may have signed it; None: whom this system trusts."""

    def options(self) -> Mapping[str, str]:
        """Return FFmpeg's, for its connection by TLS."""
        paths = ssl.get_default_verify_paths()
        known = [str(self.ca_file)] if self.ca_file else [paths.cafile or "", *_BUNDLES]
        found = [path for path in known if path and Path(path).is_file()]
        return {"tls_verify": "1", **({"ca_file": found[0]} if found else {})}

    def problem(self, url: str, seconds: float) -> ConnectProblem | None:
        """Return what is wrong with the certificate at an address, None where it is another thing.

        FFmpeg tells nothing of it but that the connection failed, so this connects once more.
        """
        parts = urlsplit(url)
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        address = parts.hostname or "", parts.port or _PORTS[parts.scheme.lower()]
        try:
            with (
                socket.create_connection(address, timeout=seconds) as plain,
                context.wrap_socket(plain, server_hostname=parts.hostname),
            ):
                return None
        except ssl.SSLCertVerificationError as error:
            return ConnectProblem(
                f"its certificate is not to be trusted ({error.verify_message.rstrip('.')})",
                "give #ca=FILE with who signed it, or the name it was made for; without #verify or "
                "#ca= none is verified",
                is_lasting=True,
            )
        except OSError:
            return None


def parse_trust(fragment: str, name: str) -> TlsTrust | None:
    """Return what the end of an address, behind its #, asks for; None where it is empty.

    Raises:
        ConfigError: it is something else, or names no file. `name` is the address for a reader.
    """
    kind, mark, value = fragment.partition("=")
    if not fragment:
        return None
    if fragment == "verify":
        return TlsTrust()
    if kind != "ca" or not mark:
        raise ConfigError(
            f"cannot read {name}: behind # stands verify or ca=FILE; write a # of a path as %23"
        )
    path = Path(unquote(value))
    try:
        ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError) as error:
        reason = (getattr(error, "strerror", None) or "").lower()
        is_there = path.is_file()
        found = "it holds no certificate" if is_there else reason or "no such file"
        raise ConfigError(
            f"cannot verify {name} by {path}: {found}; give a file of certificates (PEM)"
        ) from error
    return TlsTrust(ca_file=path)
