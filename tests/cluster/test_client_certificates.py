"""A server that asks clients for a certificate, beside their password."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.errors import Invalid, Unavailable
from infra.access import open_as
from infra.configuration import load
from infra.nats.servers import Server, on_free_ports
from infra.settings import Settings
from tests.cluster.command_line import cloche


@contextlib.contextmanager
def _server(directory: Path, environment: dict[str, str]) -> Iterator[None]:
    """Fills `environment` with what its clients need."""
    [address] = on_free_ports(1)
    out = directory / "nats"
    more = ("--server", f"{address.name}={address.host}:{address.port}", "--make-certificates", "--verify-clients")
    ran = cloche(directory / "data", "nats", "config", "--out", str(out), *more)
    environment |= dict(line.split("=", 1) for line in ran.out.splitlines())
    server = Server(address, out)
    server.start()
    try:
        yield
    finally:
        server.kill()


def _settings(environment: dict[str, str], directory: Path, *without: str) -> Settings:
    left = {name: value for name, value in environment.items() if name not in without}
    return load({**left, "CLOCHE_DATA": str(directory / "data")})


async def test_only_who_has_a_certificate_is_let_in(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    with _server(tmp_path, environment):
        async with open_as(_settings(environment, tmp_path), "client", patience_s=60) as bus:
            assert bus.is_connected
        bare = _settings(environment, tmp_path, "CLOCHE_CERT", "CLOCHE_KEY")
        with pytest.raises(Unavailable, match="asks for a certificate"):
            async with open_as(bare, "client", patience_s=60):
                pass
        half = _settings(environment, tmp_path, "CLOCHE_KEY")
        with pytest.raises(Invalid, match="belong together"):
            async with open_as(half, "client"):
                pass


async def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    (tmp_path / "client.json").write_text('{"user": "client", "password": "x"}')
    environment = {"CLOCHE_URL": "tls://127.0.0.1:1", "CLOCHE_CREDS": str(tmp_path)}
    for name in ("ca.pem", "missing.pem"):
        settings = _settings(environment | {"CLOCHE_CA": str(tmp_path / name)}, tmp_path)
        with pytest.raises(Invalid, match=f"{name}: cannot be used"):
            async with open_as(settings, "client"):
                pass
