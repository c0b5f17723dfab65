"""A tenant's own node on servers that others share, from the configuration to a command's output."""

import json
from pathlib import Path

from contracts.queries import ListSandboxes
from infra.client import Cloche
from infra.embedded import secrets
from infra.embedded.server import EmbeddedServer
from infra.provisioning import provision_realms
from tests.cli.shell import Shell
from tests.nodes.joined import JoinedNode
from tests.services.node import settings_in


def test_the_configuration_of_servers_has_every_realm_and_partition(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text("partitions = 2\n[realms.acme]\nmax_disk_mb = 8000\n")
    out = tmp_path / "servers"
    said = Shell(tmp_path)("nats", "config", "--plain", "--out", str(out))
    assert said.code == 0, said.err
    accounts = json.loads((out / "accounts.conf").read_text())["accounts"]
    hubs = {name: account["jetstream"] for name, account in accounts.items() if "jetstream" in account}
    assert set(hubs) == {"CLOCHE", "p0-CLOCHE", "p1-CLOCHE", "acme-CLOCHE", "acme-p0-CLOCHE", "acme-p1-CLOCHE"}
    assert hubs["acme-p1-CLOCHE"] == {"max_file": 4000 << 20}
    login = json.loads((out / "secrets" / "acme-p1" / "client.json").read_text())
    assert login["user"] == "acme-p1-client"
    assert not (out / "secrets" / "acme" / "client.json").exists()


async def test_a_tenant_has_a_node_of_its_own_and_nobody_else_sees_it(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "cloche.toml").write_text("[realms.acme]\n")
    operator = settings_in(tmp_path / "servers")
    async with EmbeddedServer.of(operator) as server:
        await provision_realms(operator)
        values = {
            "CLOCHE_URL": server.url,
            "CLOCHE_CREDS": str(secrets.directory(operator.data)),
            "CLOCHE_REALM": "acme",
        }
        async with (
            JoinedNode("local", tmp_path / "node", values) as node,
            Cloche.connect(node.settings) as cloche,
        ):
            sandbox = await cloche.create(id="ours")
            assert (await sandbox.run("echo seen by acme")).stdout == b"seen by acme\n"
            assert [each.sandbox for each in (await cloche.sandboxes(ListSandboxes())).sandboxes] == ["ours"]
        async with Cloche.connect(operator) as others:
            assert [told async for told in others.everything()] == []
