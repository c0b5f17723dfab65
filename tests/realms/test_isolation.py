"""With every credential of one tenant, everything that is another's: nothing of it is seen, nothing is touched."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256
from itertools import count

import pytest
import pytest_asyncio

from contracts.errors import ClocheError, Unavailable
from contracts.streams import SANDBOXES_BUCKET
from infra.blobs.blobs import Blobs
from infra.bus import reader
from infra.bus.connection import Bus, connect
from infra.bus.kv import Bucket
from infra.bus.puller import Puller
from infra.embedded.realm import Realm
from infra.embedded.users import ADMIN, hub_name, login_name
from tests.bus.servers import until
from tests.realms.tenants import RPC, TOLD, USERS, Tenants, secret_of, tenants_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINE, THEIRS = "acme", "globex"
SECRET = secret_of(THEIRS)
STREAMS = (
    "CLOCHE_LOG", "CLOCHE_COMMANDS", "CLOCHE_VITALS", "CLOCHE_ARCHIVE", "KV_cloche_sandboxes", "KV_cloche_replays",
    "OBJ_cloche_blobs",
)  # fmt: skip
READING = ("STREAM.INFO.{0}", "STREAM.MSG.GET.{0}", "DIRECT.GET.{0}", "CONSUMER.NAMES.{0}", "CONSUMER.LIST.{0}")
DESTROYING = (
    "STREAM.PURGE.{0}", "STREAM.DELETE.{0}", "STREAM.MSG.DELETE.{0}", "STREAM.UPDATE.{0}", "STREAM.SNAPSHOT.{0}",
    "STREAM.RESTORE.{0}", "CONSUMER.CREATE.{0}.forged", "CONSUMER.DELETE.{0}.executor-local",
    "CONSUMER.PAUSE.{0}.executor-local", "STREAM.LEADER.STEPDOWN.{0}",
)  # fmt: skip
WRITING = (
    "cloche.log.globex0.sandbox.removed", "cloche.log.globex0.command.output", "cloche.log.globex0.agent.message",
    "cloche.cmd.local.globex0.command.run", "cloche.vitals.globex0.heartbeat", "cloche.archive.globex0.x",
    "$KV.cloche_sandboxes.globex0", "$O.cloche_blobs.M.x", "$O.cloche_blobs.C.x", TOLD, *RPC.values(),
    "_INBOX_globex-client.x", "_INBOX.x", "_R_.x",
)  # fmt: skip
NUMBERS = count(1)
NEVER = -1
"""Since when nothing was heard of a source, in the words of the server."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenants]:
    names = (MINE, THEIRS, "wreck")
    async with tenants_in(tmp_path_factory.mktemp("tenants"), *(Realm(name=name) for name in names)) as made:
        for name in names:
            await made.live(name)
        yield made


def spelled(names: tuple[str, ...]) -> list[str]:
    """In every way that a name of another account might be reached by."""
    hub = hub_name(THEIRS)
    api = ("$JS.API", "cloche.api", f"$JS.{hub}.API", f"{hub}.$JS.API", f"{THEIRS}.$JS.API")
    return [f"{prefix}.{name.format(stream)}" for prefix in api for name in names for stream in STREAMS]


async def asked(bus: Bus, subject: str, payload: bytes = b"", patience_s: float = 2) -> bytes:
    """The answer, or nothing where the server refuses or nobody is there."""
    try:
        reply = await bus.request(subject, payload, timeout=patience_s)
    except ClocheError:
        return b""
    return reply.data


async def heard(bus: Bus, subjects: tuple[str, ...], into: list[bytes]) -> None:
    for subject in subjects:
        with contextlib.suppress(ClocheError):
            await bus.tap(subject, lambda name, _reply, data, headers: into.append(name + data + (headers or b"")))


EVERYTHING = (
    ">", "cloche.>", "cloche.log.>", "cloche.vitals.>", "cloche.replay.>", "cloche.cmd.>", "cloche.rpc.>", "$KV.>",
    "$O.>", "$JS.>", "$SYS.>", "_INBOX.>", "_INBOX_globex-client.>", "_INBOX_globex-spawner.>", "_R_.>",
)  # fmt: skip


async def test_whoever_listens_to_everything_hears_its_own_tenant_alone(tenants: Tenants) -> None:
    mine: dict[str, list[bytes]] = {}
    theirs: list[bytes] = []
    for user, bus in (await tenants.everybody(MINE)).items():
        await heard(bus, EVERYTHING, mine.setdefault(user, []))
    await heard(await tenants.connect(THEIRS, "client"), EVERYTHING, theirs)
    for realm in (THEIRS, MINE):
        await tenants.live(realm, next(NUMBERS))
        await tenants.settle(realm)
    own = secret_of(MINE)
    for user, found in mine.items():
        assert not [each for each in found if SECRET in each or THEIRS.encode() in each], user
        assert any(own in each for each in found), f"{user} does not even hear its own"
    assert any(SECRET in each for each in theirs)
    assert not any(own in each for each in theirs)


async def test_no_name_of_a_stream_or_of_a_consumer_leads_to_another_tenant(tenants: Tenants) -> None:
    for user, bus in (await tenants.everybody(MINE)).items():
        answers = await asyncio.gather(*(asked(bus, subject, b'{"seq": 1}') for subject in spelled(READING)))
        assert not [each for each in answers if SECRET in each], user


async def test_a_tenant_reads_its_own_by_the_same_names(tenants: Tenants) -> None:
    admin, client = await tenants.connect(THEIRS, ADMIN), await tenants.connect(THEIRS, "client")
    assert SECRET in await asked(admin, "$JS.API.DIRECT.GET.CLOCHE_LOG", b'{"seq": 1}', 30)
    assert SECRET in await asked(client, "cloche.api.DIRECT.GET.CLOCHE_LOG", b'{"seq": 1}', 30)
    assert b"CLOCHE_LOG" in await asked(client, "cloche.api.STREAM.INFO.CLOCHE_LOG", b"", 30)


@pytest.mark.parametrize(("realm", "other"), [(MINE, THEIRS), (THEIRS, MINE)])
async def test_the_log_the_bucket_and_the_blobs_hold_what_is_ones_own(tenants: Tenants, realm: str, other: str) -> None:
    bus, own = await tenants.connect(realm, "client"), secret_of(realm)
    log = [entry.data async for entry in reader.read(bus, ["cloche.log.>"], 1, follow=False)]
    kept = (await Bucket(bus, SANDBOXES_BUCKET).all()).values()
    for found in (log, kept):
        assert own in found
        assert secret_of(other) not in found
    assert await Blobs(bus).has(sha256(own + b"0").hexdigest())
    assert not await Blobs(bus).has(sha256(secret_of(other) + b"0").hexdigest())


async def test_nothing_that_a_tenant_publishes_reaches_another(tenants: Tenants) -> None:
    noticed: list[bytes] = []
    await heard(await tenants.connect(THEIRS, ADMIN), (">",), noticed)
    await heard(await tenants.connect(THEIRS, "client"), EVERYTHING, noticed)
    before = await tenants.state(THEIRS)
    hub = hub_name(THEIRS)
    for bus in (await tenants.everybody(MINE)).values():
        for subject in WRITING:
            for spelling in (subject, f"{hub}.{subject}", f"{THEIRS}.{subject}", f"$JS.{hub}.{subject}"):
                await bus.client.publish(spelling, b"from acme")
    await tenants.settle(MINE)
    assert await tenants.state(THEIRS) == before
    assert not any(b"from acme" in each for each in noticed)


async def test_the_same_words_of_the_same_tenant_are_stored(tenants: Tenants) -> None:
    """Or the test before could not fail."""
    before = await tenants.state(THEIRS)
    for bus in (await tenants.everybody(THEIRS)).values():
        for subject in WRITING:
            await bus.client.publish(subject, b"from globex")
    await tenants.settle(THEIRS)
    after = await tenants.state(THEIRS)
    for stream in ("CLOCHE_LOG", "CLOCHE_COMMANDS", "CLOCHE_VITALS", "KV_cloche_sandboxes", "OBJ_cloche_blobs"):
        assert after[stream] != before[stream], stream


async def test_no_reply_subject_carries_an_answer_into_another_tenant(tenants: Tenants) -> None:
    before = await tenants.state(THEIRS)
    targets = (
        *WRITING,
        "$JS.API.STREAM.DELETE.CLOCHE_LOG",
        "cloche.api.STREAM.PURGE.CLOCHE_LOG",
        f"{hub_name(THEIRS)}.x",
    )
    asking = (
        "cloche.api.STREAM.INFO.CLOCHE_LOG", "cloche.api.DIRECT.GET.CLOCHE_LOG", "$JS.API.STREAM.INFO.CLOCHE_LOG",
        "cloche.api.CONSUMER.MSG.NEXT.CLOCHE_COMMANDS.executor-local", "cloche.cmd.any.sb.sandbox.create",
        "cloche.rpc.state.sandboxes",
    )  # fmt: skip
    # Of a realm that may be spoilt: within it, its admin's answers do reach its own streams.
    for bus in (await tenants.everybody("wreck")).values():
        for subject in asking:
            for target in targets:
                await bus.client.publish(subject, b'{"seq": 1}', reply=target)
    await tenants.settle("wreck")
    assert await tenants.state(THEIRS) == before


async def test_no_order_to_destroy_reaches_another_tenant(tenants: Tenants) -> None:
    before = await tenants.state(THEIRS)
    for bus in (await tenants.everybody("wreck")).values():
        await asyncio.gather(*(asked(bus, subject, b'{"seq": 1}') for subject in spelled(DESTROYING)))
    assert await tenants.state("wreck") != await tenants.state(THEIRS)
    assert await tenants.state(THEIRS) == before


async def test_orders_are_pulled_and_acknowledged_within_ones_own_tenant(tenants: Tenants) -> None:
    """And an acknowledgement in the same words, from another tenant, acknowledges nothing."""
    stream, durable = "CLOCHE_COMMANDS", "executor-local"
    for realm in (MINE, THEIRS):
        pull = Puller(await tenants.connect(realm, "executor"), stream, durable)
        async with pull.open():
            taken = await pull.next()
        assert taken.data == secret_of(realm)
    before = (await tenants.state(THEIRS))[f"{stream}.{durable}"]
    for bus in (await tenants.everybody(MINE)).values():
        await bus.client.publish(taken.reply, b"+ACK")
        for sequence in range(1, 5):
            await bus.client.publish(f"$JS.ACK.{stream}.{durable}.1.{sequence}.1.1.0", b"+ACK")
    await tenants.settle(MINE)
    assert _pending((await tenants.state(THEIRS))[f"{stream}.{durable}"]) == _pending(before) == 1
    await (await tenants.connect(THEIRS, "executor")).client.publish(taken.reply, b"+ACK")
    await tenants.settle(THEIRS)
    assert _pending((await tenants.state(THEIRS))[f"{stream}.{durable}"]) == 0


def _pending(consumer: tuple[object, dict[str, int]]) -> int:
    return consumer[1]["num_ack_pending"]


async def test_requests_are_answered_by_ones_own_tenant_or_by_nobody(tenants: Tenants) -> None:
    questions: list[bytes] = []
    await tenants.answer(THEIRS, questions)
    for bus in (await tenants.everybody(MINE)).values():
        answers = await asyncio.gather(*(asked(bus, subject, b"from acme") for subject in RPC.values()))
        assert not any(answers)
    assert questions == []
    client = await tenants.connect(THEIRS, "client")
    assert [await asked(client, subject, b"ours", 30) for subject in RPC.values()] == [SECRET] * len(RPC)


async def test_a_mirror_or_a_source_does_not_reach_into_another_tenant(tenants: Tenants) -> None:
    admin, hub = await tenants.connect(MINE, ADMIN), hub_name(THEIRS)
    theirs = await (await tenants.connect(THEIRS, ADMIN)).api("STREAM.INFO.CLOCHE_LOG")
    assert theirs["state"]["messages"]
    external = [{"external": {"api": api}} for api in (f"$JS.{hub}.API", f"{hub}.$JS.API", "cloche.api")]
    made: dict[str, list[str]] = {"STOLEN": [], "OWN": []}
    try:
        # Its own log last, and in the same two ways: what fills that one had its time with the others.
        for kind, more in [*(("STOLEN", each) for each in external), ("OWN", {})]:
            source = {"name": "CLOCHE_LOG", **more}
            for copied in ({"sources": [source]}, {"mirror": source}):
                name = f"{kind}_{len(made[kind])}"
                await admin.api(f"STREAM.CREATE.{name}", {"name": name, **copied})
                made[kind].append(name)
        for name in made["OWN"]:
            await until(partial(_is_filled, admin, name), seconds=60)
        stolen = [await admin.api(f"STREAM.INFO.{name}") for name in made["STOLEN"]]
        assert [info["state"]["messages"] for info in stolen] == [0] * 6
        heard = [
            each["active"] for info in stolen for each in (*(info.get("sources") or ()), info.get("mirror")) if each
        ]
        assert heard == [NEVER] * 6
    finally:
        for name in (name for names in made.values() for name in names):
            await admin.api(f"STREAM.DELETE.{name}")


async def _is_filled(admin: Bus, name: str) -> bool:
    return bool((await admin.api(f"STREAM.INFO.{name}"))["state"]["messages"])


async def test_the_servers_own_subjects_say_nothing_of_another_tenant(tenants: Tenants) -> None:
    hub = hub_name(THEIRS)
    subjects = [
        f"$SYS.REQ.ACCOUNT.{hub}.{verb}" for verb in ("JSZ", "CONNZ", "INFO", "SUBSZ", "CONNS", "CLAIMS.LOOKUP")
    ] + [f"$SYS.REQ.SERVER.PING.{verb}" for verb in ("JSZ", "CONNZ", "ACCOUNTZ", "VARZ")]
    for user, bus in (await tenants.everybody(MINE)).items():
        answers = await asyncio.gather(*(asked(bus, subject, b'{"account": "globex-CLOCHE"}') for subject in subjects))
        assert not [each for each in answers if b"globex" in each], user


@pytest.mark.parametrize("user", USERS)
async def test_a_password_opens_its_own_login_alone(tenants: Tenants, user: str) -> None:
    own = tenants.server.password(user, MINE)
    await (await connect(tenants.server.url, login_name(MINE, user), own, "test", patience_s=30)).aclose()
    for login in (login_name(THEIRS, user), user):
        with pytest.raises(Unavailable, match="refuses user"):
            await connect(tenants.server.url, login, own, "test", patience_s=30)
