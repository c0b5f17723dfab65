"""What left is on the record: each request once, also where egress died meanwhile; storms in few events."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts import codec
from contracts.events.network import NetworkAllowed, NetworkBatch, NetworkDenied
from contracts.spec import Network, Secret
from contracts.streams import MAX_MESSAGE_BYTES
from infra import clock
from infra.bus import reader
from infra.journal import Journal
from infra.proxy.port import Refused
from infra.resolving import Resolver, is_own
from services.egress import gates, record
from services.egress.addresses import networks_of
from services.egress.denials import LONGEST_WINDOW_S, MOST_KINDS, Denials
from services.egress.ledger import Ledger, name_of
from services.egress.paths import BURST_BYTES, BYTES_PER_S, CUT, LONGEST_BYTES, Paths
from services.egress.reach import Forbidden, Reach
from services.egress.record import MOST_UNTOLD, Pen
from tests.bus.servers import until
from tests.egress.gates_rig import PINNED, Rig, gates_in, wanted

OPEN = Network(allowed_hosts=("good.test", "inner.test", "meta.test", "own.test", "nowhere.invalid"))


def ledgers(place: Path) -> list[Path]:
    return sorted((place / "data" / "egress").iterdir())


async def test_a_request_is_told_at_its_end_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        passage = await rig.gate.ask(wanted(path="/a/b", method="POST"))
        assert passage.addresses == ("127.7.0.1",)
        passage.connected("127.7.0.1")
        passage.end(status=201, sent=10, received=20, error=None)
        passage.end(status=500, sent=0, received=0, error="twice")
        await rig.until("allowed")
        (told,) = await rig.requests()
        assert (told.host, told.port, told.method, told.path) == ("good.test", 443, "POST", "/a/b")
        assert (told.address, told.status, told.sent_bytes, told.received_bytes) == ("127.7.0.1", 201, 10, 20)
        assert (told.error, told.via) == (None, "http")
        assert told.began_at is not None
        assert told.duration_ms > 0


async def test_paths_are_not_told_where_the_settings_say_so(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN, replace(PINNED, record_paths=False)) as rig:
        (await rig.gate.ask(wanted(path="/private"))).end(status=200, sent=0, received=0, error=None)
        await rig.until("allowed")
        assert (await rig.requests())[0].path is None


def test_only_so_much_of_paths_is_told() -> None:
    paths = Paths(0.0)
    assert paths.told("/short", 0.0) == "/short"
    for path in ("/" + "x" * 5000, "/" + "ü" * 5000, "/\ud800" + "x" * 5000):
        told = paths.told(path, 0.0)
        assert told.startswith("/")
        assert told.endswith(CUT)
        assert LONGEST_BYTES - 2 <= len(told.encode()) <= LONGEST_BYTES
    told_bytes = sum(len(paths.told("/" + "x" * 200, 0.0).encode()) for _ in range(2 * BURST_BYTES // 200))
    assert told_bytes < 1.1 * BURST_BYTES
    assert paths.told("/long" + "x" * 200, 0.0) == CUT
    assert paths.told("/later" + "x" * 200, LONGEST_BYTES / BYTES_PER_S) != CUT


async def test_a_burst_goes_in_few_events_in_the_order_of_its_ends_and_each_fits(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        for number in range(1000):
            passage = await rig.gate.ask(wanted(path=f"/{number}/{'x' * 2000}"))
            passage.end(status=200, sent=0, received=0, error=None)
        async with asyncio.timeout(30):
            while len(told := await rig.requests()) < 1000:
                await asyncio.sleep(0.02)
        assert [each.path and each.path.split("/")[1] for each in told] == [str(number) for number in range(1000)]
        entries = [each async for each in reader.read(rig.bus, ["cloche.log.sb.network.*"], 1, follow=False)]
        assert len(entries) < 50
        assert max(len(entry.data) for entry in entries) < MAX_MESSAGE_BYTES / 2


async def test_what_a_dead_egress_had_let_through_is_told_once_by_the_next(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        told = await rig.gate.ask(wanted(path="/told"))
        told.end(status=200, sent=0, received=0, error=None)
        await rig.until("allowed")
        for number in range(3):
            await rig.gate.ask(wanted(path=f"/{number}"))
        denied = await rig.gate.ask(wanted(path="/denied"))
        denied.deny("the server's name is another")
        await rig.die()
        (left,) = ledgers(tmp_path)
        before = left.read_bytes()
        await rig.start()
        await rig.until("batch")
        await until(lambda: not left.exists())
        # Killed between the publishing and the end: the same is done once more, and nothing is told twice.
        await rig.die()
        left.write_bytes(before)
        await rig.start()
        await until(lambda: not left.exists())
        requests = await rig.requests()
        assert [(each.path, each.error) for each in requests] == [
            ("/told", None), ("/0", "egress died"), ("/1", "egress died"), ("/2", "egress died"),
        ]  # fmt: skip


async def test_a_batch_that_was_on_its_way_when_egress_died_is_on_the_log_once(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "egress"
    request = NetworkAllowed(host="good.test", port=443, method="GET")
    async with gates_in(tmp_path, OPEN) as rig:
        await rig.die()
        for published in (False, True):
            ledger = Ledger.begin(directory, "sb")
            number = ledger.intend(request)
            told = ledger.tell(clock.now(), [(number, replace(request, status=204))])
            pen = await _pen(rig)
            if published:
                await pen.publish(ledger.name, told)
            assert await pen.has(ledger.name, told) == published
            # Torn in the middle of a line, as a death may leave it.
            with open(directory / f"sb.{ledger.name.life}.requests", "ab") as file:
                file.write(b'{"type":"begun","num')
        await rig.start()
        await until(lambda: not ledgers(tmp_path))
        assert [each.status for each in await rig.requests()] == [204, 204]


async def _pen(rig: Rig) -> Pen:
    bus = await rig.server.connect("egress")
    return Pen(bus, Journal(bus, service="egress", node="local"))


async def test_egress_that_is_told_to_stop_tells_all_before(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        passage = await rig.gate.ask(wanted())
        passage.end(status=200, sent=0, received=0, error=None)
        with pytest.raises(Refused):
            await rig.gate.ask(wanted("evil.test"))
        await rig.stop()
        assert len(await rig.requests()) == 1
        assert [each.host for each in await rig.denials()] == ["evil.test"]
        assert ledgers(tmp_path) == []
        await rig.start()


async def test_what_has_ended_and_cannot_be_told_before_egress_stops_is_told_whole_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "FLUSH_S", 0.05)
    monkeypatch.setattr(record, "BATCH_BYTES", 1000)
    async with gates_in(tmp_path, replace(OPEN, allowed_hosts=("good.test", "nowhere.invalid"))) as rig:
        os.kill(rig.server.embedded.pid, signal.SIGSTOP)
        try:
            for number in range(20):
                passage = await rig.gate.ask(wanted(path=f"/{number}"))
                passage.end(status=200 + number, sent=0, received=0, error=None)
            await rig.gate.ask(wanted(path="/open"))
            rig.gate._record.end(None, NetworkAllowed(host="nowhere.invalid", port=1, method="GET", error="nowhere"))
            await rig._end()
            await rig.gates.aclose()
        finally:
            os.kill(rig.server.embedded.pid, signal.SIGCONT)
        await rig.die()
        await rig.start()
        await until(lambda: not ledgers(tmp_path))
        told = {each.path: (each.status, each.error) for each in await rig.requests()}
        assert told.pop("/open") == (None, "egress died")
        assert told.pop(None) == (None, "nowhere")
        assert told == {f"/{number}": (200 + number, None) for number in range(20)}


async def test_while_the_log_cannot_be_written_nothing_is_forgotten_and_little_passes(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        os.kill(rig.server.embedded.pid, signal.SIGSTOP)
        try:
            passed = 0
            async with asyncio.timeout(60):
                while rig.gate._record.has_room:
                    passage = await rig.gate.ask(wanted(path=f"/{passed}"))
                    passage.end(status=200, sent=0, received=0, error=None)
                    passed += 1
            assert passed <= 2 * MOST_UNTOLD
            waiting = asyncio.create_task(rig.gate.ask(wanted(path="/last")))
            await asyncio.sleep(0)
            assert not waiting.done()
        finally:
            os.kill(rig.server.embedded.pid, signal.SIGCONT)
        (await waiting).end(status=200, sent=0, received=0, error=None)
        async with asyncio.timeout(60):
            while len(told := await rig.requests()) < passed + 1:
                await asyncio.sleep(0.05)
        assert [each.path for each in told] == [*(f"/{number}" for number in range(passed)), "/last"]


async def test_a_disk_that_is_full_lets_nothing_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        gate = rig.gate
        # A descriptor that takes nothing, as a full disk does.
        full = os.open("/dev/full", os.O_WRONLY)
        monkeypatch.setattr(gate._record._ledger, "_descriptor", full)
        with pytest.raises(Refused, match="cannot be recorded") as refused:
            await gate.ask(wanted())
        assert refused.value.status == 503
        monkeypatch.undo()
        os.close(full)
        (await gate.ask(wanted())).end(status=200, sent=0, received=0, error=None)


async def test_the_ledger_of_a_busy_sandbox_does_not_grow_without_end(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path, "sb")
    request = NetworkAllowed(host="good.test", port=443, method="GET", path="x" * 2000)
    held = ledger.intend(replace(request, path="held"))
    for _ in range(4000):
        ledger.tell(clock.now(), [(ledger.intend(request), request)])
        ledger.confirm()
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 6 << 20
    name = name_of(path)
    assert name is not None
    again = Ledger.again(path, name)
    assert [each.path for each in again.open.values()] == ["held"]
    assert again.tell(clock.now(), [(held, request)]).number == 4001
    assert again.intend(request) > 4000


async def test_denials_have_their_reason_and_the_address_that_was_found(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        for host in ("evil.test", "meta.test", "inner.test", "own.test", "127.0.0.1"):
            with pytest.raises(Refused):
                await rig.gate.ask(wanted(host))
        with pytest.raises(Refused, match="port") as refused:
            await rig.gate.ask(wanted("good.test", 22))
        assert "cloche net sb --port 22" in refused.value.reason
        rig.gate.refused(wanted("good.test", 80), "a second Host header")
        rig.gate.refused(None, "not HTTP", raw="GARBAGE\\x00")
        await rig.until("denied", 8)
        told = {(each.host, each.port): each for each in await rig.denials()}
        assert told["evil.test", 443].reason == "the host is not allowed"
        assert (told["meta.test", 443].address, told["inner.test", 443].address) == ("169.254.169.254", "10.0.0.1")
        assert told["inner.test", 443].reason == "it leads to a private address"
        assert told["own.test", 443].reason == "it leads to a loopback address"
        assert told["127.0.0.1", 443].reason == "the host is not allowed"
        assert told["good.test", 80].reason == "a second Host header"
        assert told["", 0].reason == "not HTTP: GARBAGE\\x00"
        assert await rig.requests() == []


async def test_a_name_that_leads_nowhere_is_an_error_on_the_record(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN, replace(PINNED, connect_timeout_s=1.0)) as rig:
        with pytest.raises(Refused) as refused:
            await rig.gate.ask(wanted("nowhere.invalid"))
        assert refused.value.status == 502
        await rig.until("allowed")
        (told,) = await rig.requests()
        # A machine may have no name server that answers.
        assert told.error is not None
        assert "no address" in told.error or "in time" in told.error


async def test_a_storm_of_denials_is_told_in_few_events_that_count_them(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        for _ in range(5000):
            with pytest.raises(Refused):
                await rig.gate.ask(wanted("evil.test"))
        for number in range(5000):
            with pytest.raises(Refused):
                await rig.gate.ask(wanted(f"evil{number}.test"))
        await rig.stop()
        told = await rig.denials()
        assert sum(each.count for each in told) == 10_000
        assert len(told) < 1000
        assert told[0].host == "evil.test"
        await rig.start()


def test_the_first_of_a_storm_is_told_at_once_and_the_rest_by_number() -> None:
    denials = Denials()
    denied = NetworkDenied(host="a", port=1, method="GET", reason="no")
    told: list[int] = []
    for tenth in range(1200):
        denials.add(denied, tenth / 10)
        told += [each.count for each in denials.take(tenth / 10)]
    assert told[:3] == [1, 10, 20]
    assert max(told) <= LONGEST_WINDOW_S * 10
    for number in range(2 * MOST_KINDS):
        denials.add(replace(denied, host=f"h{number}"), 200)
    told += [each.count for each in denials.take(200)]
    assert sum(told) == 1200 + 2 * MOST_KINDS
    assert len(told) < MOST_KINDS + 20
    assert denials.due() is None
    denials.take(300)
    denials.take(400)
    assert not denials._storms


async def test_a_sandbox_that_is_removed_leaves_no_file_behind(tmp_path: Path) -> None:
    async with gates_in(tmp_path, OPEN) as rig:
        passage = await rig.gate.ask(wanted())
        rig.gates.changed(replace(rig.state, status="removed"))
        passage.end(status=200, sent=0, received=0, error=None)
        await rig.until("allowed")
        await until(lambda: not ledgers(tmp_path))


async def test_a_policy_that_changes_cuts_what_it_no_longer_allows_and_nothing_else(tmp_path: Path) -> None:
    async with gates_in(tmp_path, replace(OPEN, allowed_hosts=("good.test", "new.test"))) as rig:
        cut: list[str] = []
        for host in ("good.test", "new.test"):
            passage = await rig.gate.ask(wanted(host))
            passage.on_cut(lambda reason, host=host: cut.append(f"{host}: {reason}"))  # type: ignore[misc]
        await rig.change(Network(allowed_hosts=("new.test",)))
        assert cut == ["good.test: the policy has changed"]
        with pytest.raises(Refused):
            await rig.gate.ask(wanted("good.test"))


async def test_a_route_is_let_through_by_its_secret(tmp_path: Path) -> None:
    async with gates_in(tmp_path, Network(allowed_hosts=())) as rig:
        secrets = (Secret(name="key", host="good.test"),)
        rig.state = replace(rig.state, spec=replace(rig.state.spec, secrets=secrets))
        passage = await rig.gate.ask(wanted(via="route", secret="key"))
        passage.end(status=200, sent=0, received=0, error=None)
        await rig.until("allowed")
        assert [(each.via, each.secret) for each in await rig.requests()] == [("route", "key")]
        with pytest.raises(Refused):
            await rig.gate.ask(wanted("new.test", via="route", secret="key"))


async def test_a_name_is_looked_up_once_and_this_machines_own_addresses_are_forbidden() -> None:
    async with Resolver({"Pinned.Test.": ("127.7.0.9",)}) as resolver:
        assert await resolver.resolve("pinned.test", asker="sb") == ("127.7.0.9",)
        assert await resolver.resolve("93.184.216.34", asker="sb") == ("93.184.216.34",)
        assert resolver.known("unknown.test") is None
        reach = Reach(resolver, networks_of(["127.7.0.0/16"]), is_own=lambda address: address == "93.184.216.34")
        assert await reach.addresses("pinned.test", asker="sb") == ("127.7.0.9",)
        with pytest.raises(Forbidden, match="of this machine"):
            reach.known("93.184.216.34")
        assert reach.known("93.184.216.35") == ("93.184.216.35",)
    assert is_own("127.0.0.1")
    assert not is_own("192.0.2.77")


def test_an_event_of_a_batch_holds_what_single_ones_would() -> None:
    request = NetworkAllowed(host="good.test", port=443, method="GET")
    batch = codec.decode(codec.encode(NetworkBatch(requests=(request,))), NetworkBatch)
    assert batch.requests == (request,)


async def test_what_is_withdrawn_while_its_name_is_looked_up_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gates_in(tmp_path, replace(OPEN, allowed_hosts=("slow.test",))) as rig:
        looking, found = asyncio.Event(), asyncio.Event()

        async def slowly(host: str, *, asker: str) -> tuple[str, ...]:
            looking.set()
            await found.wait()
            return ("127.7.0.1",)

        # No name server of a test's own can be put in the place of the system's.
        monkeypatch.setattr(rig.gate._reach._resolver, "resolve", slowly)
        waiting = asyncio.create_task(rig.gate.ask(wanted("slow.test")))
        await looking.wait()
        await rig.change(Network(allowed_hosts=("good.test",)))
        found.set()
        with pytest.raises(Refused, match="the host is not allowed"):
            await waiting
