"""A backup that somebody else made: its contents are taken, its settings are not, and nothing else comes with it."""

import asyncio
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contracts.errors import Invalid
from contracts.streams import COMMANDS_STREAM, LOG_STREAM, Limits
from infra.audit.signing import public_of, sign
from infra.backup.archive import Writer, members, signer
from infra.backup.contents import ORDER, Backup, Signature
from infra.backup.looking import look
from infra.backup.putting_back import ours, restore
from infra.backup.taking import take
from infra.bus.connection import Bus
from infra.bus.provision import plan, wanted
from infra.settings import Settings
from tests.bus.servers import nats_in

ONE = wanted(Limits(), ["local"])
OURS = {config["name"]: config for config in ONE.streams}

Rewrite = Callable[[str, bytes], bytes]


def rewritten(path: Path, rewrite: Rewrite, more: dict[str, bytes] | None = None) -> Path:
    """Whole by its own sums, as whoever knows the format can make it."""
    other = path.with_name(f"{path.name}.other")
    with Writer(other) as writer:
        waiting = dict(more or {})
        for member in members(path):
            while waiting and member.name.startswith("streams/"):
                writer.add(*waiting.popitem())
            writer.add(member.name, rewrite(member.name, member.content.read()))
    return other


def with_config(stream: str, **fields: Any) -> Rewrite:
    def rewrite(name: str, content: bytes) -> bytes:
        if name != f"streams/{stream}/about.json":
            return content
        about = json.loads(content)
        about["config"] |= fields
        return json.dumps(about).encode()

    return rewrite


def as_it_is(_: str, content: bytes) -> bytes:
    return content


async def strangers(tmp_path: Path, stream: str, **settings: Any) -> Backup:
    """Of a server whose stream of that name has settings that ours never has."""
    async with nats_in(tmp_path / "stranger", provisioned=False) as server:
        admin = await server.connect("admin")
        await admin.api(f"STREAM.CREATE.{stream}", OURS[stream] | settings)
        return await take(Settings(data=server.data), admin, tmp_path / "backup")


async def taken(work: Path) -> Path:
    async with nats_in(work / "one") as server:
        (server.data / "gateway").mkdir()
        (server.data / "gateway" / "key.pem").write_text("key")
        await take(Settings(data=server.data), await server.connect("admin"), work / "backup")
    return work / "backup"


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(taken(tmp_path_factory.mktemp("ordinary")))


@pytest.mark.parametrize(
    ("stream", "fields", "named"),
    [
        (LOG_STREAM, {"deny_delete": False}, "deny_delete"),
        (LOG_STREAM, {"deny_purge": False}, "deny_purge"),
        (LOG_STREAM, {"allow_rollup_hdrs": True, "deny_purge": False}, "deny_purge"),
        (LOG_STREAM, {"allow_msg_ttl": True}, "allow_msg_ttl"),
        (LOG_STREAM, {"sources": [{"name": "OTHER"}]}, "sources"),
        (LOG_STREAM, {"subject_transform": {"src": "a", "dest": "b"}}, "subject_transform"),
        (LOG_STREAM, {"republish": {"src": ">", "dest": "elsewhere.>"}}, "republish"),
        (LOG_STREAM, {"subjects": ["cloche.log.>", "cloche.cmd.>"]}, "subjects"),
        (COMMANDS_STREAM, {"sources": [{"name": "OTHER"}]}, "sources"),
        (COMMANDS_STREAM, {"retention": "limits"}, "retention"),
        (ORDER[0], {"republish": {"src": ">", "dest": "elsewhere.>"}}, "republish"),
        (ORDER[-1], {"subjects": ["$JS.API.>"]}, "subjects"),
    ],
)  # fmt: skip
def test_settings_that_contradict_ours_are_refused_by_their_name(
    ordinary: Path, tmp_path: Path, stream: str, fields: dict[str, Any], named: str
) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(ordinary.read_bytes())
    backup = look(rewritten(copy, with_config(stream, **fields)))
    with pytest.raises(Invalid) as refused:
        ours(backup, ONE)
    assert refused.value.code == "INVALID"
    assert refused.value.details["field"] == f"{stream}.{named}"


async def test_a_log_without_guards_is_refused_and_one_that_lies_about_it_is_guarded(tmp_path: Path) -> None:
    backup = await strangers(tmp_path, LOG_STREAM, deny_delete=False, deny_purge=False, allow_rollup_hdrs=True)
    with pytest.raises(Invalid):
        ours(backup, ONE)
    lie = with_config(LOG_STREAM, deny_delete=True, deny_purge=True, allow_rollup_hdrs=False)
    lying = look(rewritten(Path(backup.file), lie))
    async with nats_in(tmp_path / "here", provisioned=False) as server:
        admin = await server.connect("admin")
        await restore(admin, lying, ours(lying, ONE))
        changes = [change.what for change in await plan(admin, ONE)]
        assert not [what for what in changes if LOG_STREAM in what], changes
        config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
        assert (config["deny_delete"], config["deny_purge"], config["allow_rollup_hdrs"]) == (True, True, False)


async def packed_with(admin: Bus, path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, deliver: str) -> Backup:
    """With a consumer among the packed messages, that delivers the stranger's own to any subject."""
    pushing = {"name": "p", "durable_name": "p", "deliver_subject": deliver, "deliver_policy": "all"}
    body = {"stream_name": COMMANDS_STREAM, "action": "", "config": pushing | {"ack_policy": "explicit"}}
    await admin.api(f"CONSUMER.CREATE.{COMMANDS_STREAM}.p", body)
    real = admin.api

    async def api(name: str, body: Any = None, **options: Any) -> dict[str, Any]:
        return await real(name, body | {"no_consumers": False} if "SNAPSHOT" in name else body, **options)

    monkeypatch.setattr(admin, "api", api)
    return await take(Settings(data=data), admin, path)


async def test_a_consumer_that_comes_along_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nats_in(tmp_path / "stranger") as server:
        admin = await server.connect("admin")
        for consumer in (await admin.api(f"CONSUMER.NAMES.{COMMANDS_STREAM}"))["consumers"]:
            await admin.api(f"CONSUMER.DELETE.{COMMANDS_STREAM}.{consumer}")
        backup = await packed_with(admin, tmp_path / "backup", server.data, monkeypatch, "cloche.log.sb-1.agent.said")
    async with nats_in(tmp_path / "here", provisioned=False) as server:
        admin = await server.connect("admin")
        await restore(admin, backup, ours(backup, ONE))
        assert not (await admin.api(f"CONSUMER.NAMES.{COMMANDS_STREAM}"))["consumers"]


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        ("STREAM.CREATE.EVIL", {"name": "EVIL", "subjects": ["evil"]}),
        (f"STREAM.UPDATE.{ORDER[0]}", OURS[ORDER[0]] | {"max_msgs_per_subject": 2}),
    ],
)
async def test_what_such_a_consumer_may_have_done_meanwhile_is_refused_and_nothing_is_left(
    ordinary: Path, tmp_path: Path, request_: str, body: dict[str, Any]
) -> None:
    """A deliver subject may be one of the server's own: in place of its push the same request is made."""
    doing: list[asyncio.Task[Any]] = []
    async with nats_in(tmp_path / "here", provisioned=False) as server:
        admin = await server.connect("admin")

        def push(stream: str, *_: int) -> None:
            if stream == ORDER[1] and not doing:
                doing.append(asyncio.create_task(admin.api(request_, body)))

        backup = look(ordinary)
        with pytest.raises(Invalid, match=r"no part of a backup|was changed"):
            await restore(admin, backup, ours(backup, ONE), push)
        await doing[0]
        assert not (await admin.api("STREAM.NAMES"))["streams"]


@pytest.mark.parametrize(
    "name",
    [
        "files/../outside",
        "files//etc/cron.d/x",
        "files/audit/../../outside",
        "files/audit/./key.pem",
        "files/run/keeper",
        "files/nats/server.conf",
        "files/gateway/key.pem/below",
        "streams/EVIL/about.json",
        "streams/CLOCHE_LOG/about.json",
        "streams/CLOCHE_LOG/00000099",
        "cloche-backup.json",
        "elsewhere",
    ],
)
def test_a_member_that_no_backup_has_is_refused_before_anything_is_read(
    ordinary: Path, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(ordinary.read_bytes())
    with pytest.raises(Invalid, match=r"is no part of a backup|does not belong|is a file"):
        look(rewritten(copy, as_it_is, {name: json.dumps({"config": {}, "state": {}}).encode()}))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_nothing_but_a_plain_file_is_a_member(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "linked"
    with tarfile.open(path, "w:") as tar:
        member = tarfile.TarInfo("files/audit/key.pem")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(Invalid, match="no part of a backup"):
        look(path)


@pytest.mark.parametrize("name", ["cloche-backup.json", f"streams/{LOG_STREAM}/about.json"])
def test_what_is_read_at_once_is_bounded(ordinary: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(ordinary.read_bytes())
    with pytest.raises(Invalid, match="are the most that it may"):
        look(rewritten(copy, lambda each, content: content + b" " * (2 << 20) if each == name else content))


def test_a_header_that_promises_more_than_the_file_has_is_refused(ordinary: Path, tmp_path: Path) -> None:
    header = tarfile.TarInfo("sums.json")
    header.size = 7 << 30
    path = tmp_path / "promising"
    path.write_bytes(header.tobuf(tarfile.USTAR_FORMAT) + bytes(512))
    with pytest.raises(Invalid, match="cut off"):
        look(path)


def test_a_signature_tells_who_made_a_file_and_no_other_can_be_put_in_its_place(tmp_path: Path) -> None:
    key, stranger = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()

    def written(name: str, content: bytes, sign_with: Ed25519PrivateKey, told: Ed25519PrivateKey) -> Path:
        def signed(said: bytes) -> Signature:
            return Signature(key=public_of(told), signature=sign(sign_with, said))

        with Writer(tmp_path / name, signed) as writer:
            writer.add("cloche-backup.json", content)
        return tmp_path / name

    good = written("good", b"{}", key, key)
    assert signer(good) == public_of(key)
    with pytest.raises(Invalid, match="signature is wrong"):
        signer(written("forged", b"{}", stranger, key))
    other = written("other", b"{ }", stranger, stranger)
    at = other.read_bytes().index(b"signature.json")
    mixed = tmp_path / "mixed"
    mixed.write_bytes(other.read_bytes()[:at] + good.read_bytes()[good.read_bytes().index(b"signature.json") :])
    with pytest.raises(Invalid, match="signature is wrong"):
        signer(mixed)
    with Writer(tmp_path / "unsigned") as writer:
        writer.add("cloche-backup.json", b"{}")
    assert signer(tmp_path / "unsigned") is None
