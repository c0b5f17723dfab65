"""What the store of a tenant may take, the server itself holds."""

from pathlib import Path

import pytest

from infra.bus.errors import ApiError
from infra.embedded.realm import Realm
from infra.embedded.users import ADMIN
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
