"""There is a loopback interface of its own, and nothing else."""

import socket
from pathlib import Path

from tests.conformance.inside import a_sandbox
from tests.security.tiers import on_each_tier


@on_each_tier
async def test_the_hosts_loopback_is_not_the_sandboxs(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with a_sandbox(tmp_path, name=name) as inside:
            result = await inside.python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)")
            assert "ConnectionRefusedError" in result.err


@on_each_tier
async def test_abstract_sockets_of_the_host_are_out_of_reach(tmp_path: Path, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        address = f"\0cloche-test-{tmp_path}"[:100]
        server.bind(address)
        server.listen()
        async with a_sandbox(tmp_path, name=name) as inside:
            result = await inside.python(f"import socket; socket.socket(socket.AF_UNIX).connect({address!r})")
            assert "ConnectionRefusedError" in result.err


@on_each_tier
async def test_there_is_no_interface_and_no_route_to_the_outside(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        interfaces = (await inside.python("import socket; print([n for _, n in socket.if_nameindex()])")).out
        assert interfaces == "['lo']\n"
        result = await inside.python("import socket; socket.create_connection(('192.0.2.1', 80), 5)")
        assert "Network is unreachable" in result.err
        assert not (await inside.python("import socket; socket.getaddrinfo('example.com', 80)")).ok


@on_each_tier
async def test_raw_and_packet_sockets_are_refused(tmp_path: Path, name: str) -> None:
    script = """
import socket
for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 768)):
    try: socket.socket(family, kind, protocol); print("opened", family)
    except OSError as error: print(type(error).__name__)
"""
    async with a_sandbox(tmp_path, name=name) as inside:
        assert "opened" not in (await inside.python(script)).out


async def test_only_sockets_that_stay_within_the_namespace_can_be_made(tmp_path: Path) -> None:
    """vsock, for one, speaks with the host of a virtual machine. In containers the engine's own filter decides."""
    script = """
import socket
for family in range(64):
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind, 0); print(family)
        except OSError: pass
"""
    async with a_sandbox(tmp_path, name="local") as inside:
        made = {int(line) for line in (await inside.python(script)).out.split()}
    assert made == {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
