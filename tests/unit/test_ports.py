import socket
from pathlib import Path

import pytest

from infra import ports


def test_ports_are_different_and_free() -> None:
    found = ports.free_ports(50)
    assert len(set(found)) == 50
    assert all(ports.is_free(port) for port in found)


def test_no_connection_of_the_machine_is_given_a_port_that_was_found_free() -> None:
    first, last = (int(word) for word in ports.RANGE.read_text().split())
    assert not [port for port in ports.free_ports(50) if first <= port <= last]


def test_a_port_that_somebody_listens_on_is_taken() -> None:
    with socket.create_server((ports.HERE, 0)) as server:
        assert not ports.is_free(server.getsockname()[1])


def test_where_the_kernel_has_nearly_all_ports_they_are_shared_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "RANGE", tmp_path / "range")
    assert len(set(ports.free_ports(50))) == 50
