"""What the log lacks, asked for often."""

from pathlib import Path

import pytest

from infra.bus import gaps
from infra.bus.gaps import Gap, Gaps
from tests.bus.filling import fill
from tests.bus.servers import nats_in


async def test_what_was_looked_for_a_moment_ago_is_answered_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without `deny_delete` stands in for a store that has lost a message."""
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        config = {"name": "CLOCHE_LOG", "subjects": ["cloche.log.>"], "storage": "file", "allow_direct": True}
        await admin.api("STREAM.CREATE.CLOCHE_LOG", config)
        await fill(await server.connect("executor"), 20)
        client = await server.connect("client")
        assert await Gaps.of(client).lately(1, 20) == []
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 11})
        assert await Gaps.of(client).lately(1, 20) == []
        late = await server.connect("client")
        assert await Gaps.of(late).lately(1, 20) == [Gap(11, 11)]
        assert await Gaps.of(late).lately(12, 20) == []

        monkeypatch.setattr(gaps, "LOOK_AGAIN_S", 0.0)
        again = await server.connect("client")
        assert await Gaps.of(again).lately(1, 20) == [Gap(11, 11)]
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 14})
        assert await Gaps.of(again).lately(1, 20) == [Gap(11, 11), Gap(14, 14)]
