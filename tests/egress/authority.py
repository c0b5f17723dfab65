"""Certificates for names that exist only in a test, signed by an authority of its own."""

import ssl
import subprocess
from pathlib import Path

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256", "-days", "2")


class Authority:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        _openssl(
            "req", "-x509", *CURVE, "-keyout", self._key, "-out", self.certificate, "-subj", "/CN=authority of a test",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def server_context(self, *names: str) -> ssl.SSLContext:
        """For a server that is any of the names."""
        request, key, certificate, extensions = (
            self._directory / f"{names[0]}{suffix}" for suffix in (".csr", ".key", ".pem", ".ext")
        )
        extensions.write_text(f"subjectAltName={','.join(f'DNS:{name}' for name in names)}\n")
        _openssl("req", *CURVE[:5], "-keyout", key, "-out", request, "-subj", f"/CN={names[0]}")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
            "-days", "2", "-sha256", "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
