"""What the store of a tenant may take, the server itself holds."""

import contextlib
from contextlib import AsyncExitStack
from pathlib import Path

import nats.errors
import pytest

from contracts.errors import Unavailable
from infra.bus.connection import connect
from infra.bus.errors import ApiError
from infra.configuration import load
from infra.embedded.realm import Realm
from infra.embedded.users import ADMIN, login_name
from infra.realms import served_realms
from infra.settings import Tenant
from tests.realms.tenants import tenants_in


async def test_a_tenant_cannot_take_more_of_the_disk_than_it_was_given(tmp_path: Path) -> None:
    bounded = Realm(name="acme", limits=Tenant(max_disk_mb=2048, max_memory_mb=64, max_streams=9))
    async with tenants_in(tmp_path, bounded, Realm(name="globex")) as tenants:
        asked = {"name": "MORE", "subjects": ["more.>"], "max_bytes": 1 << 30}
        with pytest.raises(ApiError, match="insufficient storage"):
            await (await tenants.connect("acme", ADMIN)).api("STREAM.CREATE.MORE", asked)
        with pytest.raises(ApiError, match="insufficient memory"):
            body = asked | {"storage": "memory"}
            await (await tenants.connect("acme", ADMIN)).api("STREAM.CREATE.MORE", body)
        assert await (await tenants.connect("globex", ADMIN)).api("STREAM.CREATE.MORE", asked)


async def test_a_tenant_cannot_make_more_streams_than_it_was_given(tmp_path: Path) -> None:
    async with tenants_in(tmp_path, Realm(name="acme", limits=Tenant(max_streams=8))) as tenants:
        admin = await tenants.connect("acme", ADMIN)
        await admin.api("STREAM.CREATE.EIGHTH", {"name": "EIGHTH", "subjects": ["eighth"]})
        with pytest.raises(ApiError, match="maximum number of streams"):
            await admin.api("STREAM.CREATE.NINTH", {"name": "NINTH", "subjects": ["ninth"]})


async def test_a_tenant_that_takes_every_connection_it_may_have_takes_none_from_another(tmp_path: Path) -> None:
    bounded = Realm(name="acme", limits=Tenant(max_connections=3))
    async with AsyncExitStack() as stack, tenants_in(tmp_path, bounded, Realm(name="globex")) as tenants:
        for _ in range(3):
            await stack.enter_async_context(await tenants.server.connect("client", realm="acme"))
        login, password = login_name("acme", "client"), tenants.server.password("client", "acme")
        with pytest.raises(Unavailable):
            await connect(tenants.server.url, login, password, "one more", patience_s=0.1)
        assert (await tenants.connect("acme", "spawner")).is_connected, "each of its users has as many"
        assert (await tenants.connect("globex", "client")).is_connected


async def test_a_tenant_cannot_fill_the_servers_memory_with_subscriptions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tenants_in(tmp_path, Realm(name="acme", limits=Tenant(max_subscriptions=50))) as tenants:
        client = (await tenants.connect("acme", "client")).client
        with contextlib.suppress(nats.errors.Error):
            for number in range(60):
                await client.subscribe(f"cloche.log.sb-{number}.>")
            await client.flush()
        assert "maximum subscriptions exceeded" in caplog.text


def test_a_tenant_of_the_settings_is_bounded_and_whoever_runs_the_servers_is_not(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text("[realms.acme]")
    mine, acme = served_realms(load({"CLOCHE_DATA": str(tmp_path)}))
    assert (mine.limits.max_connections, acme.limits.max_connections) == (None, 1000)
    assert (mine.limits.max_subscriptions, acme.limits.max_subscriptions) == (None, 100_000)
