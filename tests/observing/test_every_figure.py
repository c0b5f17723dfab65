"""Every figure of the catalogue, as it moves on one node on which all that it counts happens, in this order."""

import asyncio
import fcntl
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.events.agent import AgentApprovalRequested
from infra.client import Cloche
from infra.embedded import store
from infra.keeper.client import KeeperClient
from infra.keeper.launcher import end_keeper
from infra.keeper.layout import Layout
from infra.observing import catalogue
from tests.agents.conformance.scenes import until
from tests.agents.scripted.playing import begin
from tests.egress.hello import WORD, Hello, hello
from tests.egress.settings import write_settings
from tests.observing.up import WITHIN_S, Up, figure, figures, get, process, until_figure, until_shown
from tests.services.node import ROOT, end_sandboxes, settings_in

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

WEB = "web.test"
LIMIT = 7
CHECKPOINT_S = 1.0
SAID = {"cloche_sandboxes_limit"}
"""What never changes is compared with what it should be."""
ELSEWHERE = {
    "tests/observing/test_waiting.py": {
        "cloche_queue_depth", "cloche_queue_unsettled", "cloche_queue_oldest_seconds", "cloche_node_silent_seconds",
        "cloche_follower_lag_events", "cloche_follower_lag_seconds", "cloche_store_bytes", "cloche_store_messages",
        "cloche_store_limit_bytes", "cloche_disk_free_bytes", "cloche_disk_size_bytes",
    },
    "tests/observing/test_node.py": {
        "cloche_denials", "cloche_pool_ready", "cloche_pool_takes", "cloche_recoveries", "cloche_sandbox_deaths",
    },
    "tests/observing/test_slots.py": {"cloche_keeper_slots", "cloche_keeper_slots_ready"},
    "tests/gateway/access/test_door.py": {"cloche_gateway_requests"},
    "tests/observing/test_restarts.py": {"cloche_service_restarts"},
    "tests/gateway/live/test_joining.py": {
        "cloche_gateway_request_seconds", "cloche_gateway_followers", "cloche_gateway_events_sent",
        "cloche_gateway_event_bytes_sent",
    },
    "tests/gateway/live/test_slow_clients.py": {
        "cloche_gateway_slow_clients_dropped", "cloche_gateway_feed_lag_seconds",
    },
}  # fmt: skip
"""What takes a node of another kind, or what the servers are asked about only now and then."""


OF_A_COMMAND = (
    'cloche_orders_pulled_total{service="executor"}',
    'cloche_order_wait_seconds_count{service="executor"}',
    'cloche_order_seconds_count{service="executor"}',
    'cloche_orders_settled_total{outcome="acked",service="executor"}',
    'cloche_events_stored_total{family="command",kind="completed"}',
    'cloche_command_output_bytes_total{stream="stdout"}',
)


class Stage:
    def __init__(self, up: Up, cloche: Cloche, web: Hello) -> None:
        self.up = up
        self.cloche = cloche
        self.web = web


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    up = Up(tmp_path_factory.mktemp("moving"))
    more = {"CLOCHE_POOL": "0", "CLOCHE_MAX_SANDBOXES": str(LIMIT)}
    with hello() as web:
        write_settings(up.data, {WEB: web.address})
        with (up.data / "cloche.toml").open("a") as settings:
            settings.write(f"[audit]\ncheckpoint_s = {CHECKPOINT_S}\n")
        async with process(sys.executable, "-m", "services.cli", "up", log=up.log, env=up.values(**more)):
            await until_shown(up, "cloche_service_ready")
            await get(f"{up.url}/healthz")
            async with Cloche.connect(settings_in(up.data)) as cloche:
                yield Stage(up, cloche, web)
            await end_sandboxes(up.data)
        await end_keeper(up.data, force=True)


@asynccontextmanager
async def growing(up: Up, *lines: str, by: float = 0) -> AsyncIterator[None]:
    """Each of them, by more than so much."""
    before = await figures(up, *lines)
    yield
    async with asyncio.timeout(WITHIN_S):
        while still := [line for line, now in (await figures(up, *lines)).items() if now <= before[line] + by]:
            await asyncio.sleep(0.1)
    assert not still


@asynccontextmanager
async def killed(pid: int, lock: Path) -> AsyncIterator[None]:
    """Nobody takes its place inside the block: that takes the lock, and we have it."""
    with lock.open("r+") as ours:
        taking = asyncio.create_task(asyncio.to_thread(fcntl.flock, ours, fcntl.LOCK_EX))
        os.kill(pid, signal.SIGKILL)
        await taking
        yield


async def keeper_of(up: Up) -> int:
    async with await KeeperClient.connect(up.data) as keeper:
        return (await keeper.hello()).pid


async def test_a_command_is_counted_from_its_order_to_its_end(stage: Stage) -> None:
    up, started = stage.up, "cloche_exec_start_seconds_count"
    sandbox = await stage.cloche.create(id="sb")
    first_byte = "cloche_exec_first_byte_seconds_count"
    async with growing(up, started, first_byte, "cloche_exec_seconds_count", *OF_A_COMMAND):
        took = await figure(up, "cloche_exec_seconds_sum")
        execution = await sandbox.start(["sh", "-c", "printf first; read -r line; printf $line"], stdin=True)
        await until_figure(up, "cloche_commands_running", lambda running: running == 1)
        await until_figure(up, first_byte, lambda counted: counted >= 1)
        begun = time.perf_counter()
        await until_figure(up, "cloche_commands_running", lambda _: time.perf_counter() - begun > 0.2)
        await execution.write(b"last\n")
        assert (await execution.wait()).stdout == b"firstlast"
    await until_figure(up, "cloche_commands_running", lambda running: running == 0)
    took = await figure(up, "cloche_exec_seconds_sum") - took
    assert took >= 0.2, "as long as it ran"
    assert await figure(up, "cloche_exec_first_byte_seconds_sum") < took, "its first byte came before the wait"


async def test_what_is_stored_is_counted_in_bytes(stage: Stage) -> None:
    size = 1_000_000
    async with growing(stage.up, 'cloche_event_bytes_stored_total{service="executor"}', by=size):
        await (await stage.cloche.sandbox("sb")).run(f"head -c {size} /dev/zero | tr '\\0' x")


async def test_contents_that_are_new_and_workspaces_that_are_followed_are_counted(stage: Stage) -> None:
    up, size = stage.up, 300_000
    sandbox = await stage.cloche.create(id="sb-files")
    await until_figure(up, "cloche_workspaces_followed", lambda followed: followed == 2)
    blobs, blob_bytes = "cloche_blobs_stored_total", "cloche_blob_bytes_stored_total"
    before = await figure(up, blobs)
    async with growing(up, blob_bytes, by=size - 1):
        await sandbox.run(f"head -c {size} /dev/urandom > one; cp one two")
        await sandbox.flush()
    assert await until_figure(up, blobs, lambda now: now > before) == before + 1, "what is the same is stored once"
    await sandbox.remove()
    await until_figure(up, "cloche_workspaces_followed", lambda followed: followed == 1)


async def test_what_was_let_out_is_counted_with_its_bytes(stage: Stage) -> None:
    up = stage.up
    network = {"mode": "restricted", "allowed_hosts": [WEB], "allowed_ports": [stage.web.port]}
    sandbox = await stage.cloche.create({"network": network}, id="sb-out")
    received, sent = (f'cloche_egress_bytes_total{{direction="{direction}"}}' for direction in ("received", "sent"))
    async with growing(up, sent), growing(up, received, by=len(WORD) - 1):
        async with growing(up, 'cloche_egress_requests_total{verdict="allowed"}'):
            got = await sandbox.run(["curl", "-s", "-m", "20", f"http://{WEB}:{stage.web.port}/"])
        assert got.stdout == WORD
    await sandbox.remove()


async def test_a_run_of_an_agent_is_open_until_it_is_over(stage: Stage) -> None:
    up = stage.up
    run = await begin(
        await stage.cloche.sandbox("sb"), [{"ask": "May I?", "tool": "deploy", "steps": [], "denied": []}]
    )
    asked = await until(run, AgentApprovalRequested)
    for name in ("agent_runs_open", "approvals_pending"):
        await until_figure(up, f"cloche_{name}", lambda now: now == 1)
    await until_figure(up, "cloche_approvals_oldest_seconds", lambda age: age > 0)
    await (await stage.cloche.sandbox("sb")).agent.approve(asked.approval)
    await run.wait()
    for name in ("agent_runs_open", "approvals_pending", "approvals_oldest_seconds"):
        await until_figure(up, f"cloche_{name}", lambda now: now == 0)


async def test_what_the_guardian_finds_is_counted_by_its_rule(stage: Stage) -> None:
    line = 'cloche_guardian_findings_total{rule="dangerous_command"'
    await (await stage.cloche.sandbox("sb")).run("true || rm -rf /")
    assert await until_figure(stage.up, line, lambda found: found > 0) == 1


async def test_places_are_counted_by_what_has_them_beside_how_many_there_are(stage: Stage) -> None:
    up, line = stage.up, 'cloche_sandboxes{{status="{}"}}'
    assert await figure(up, "cloche_sandboxes_limit") == LIMIT
    sandbox = await stage.cloche.sandbox("sb")
    await sandbox.pause()
    await until_figure(up, line.format("paused"), lambda paused: paused == 1)
    assert await figure(up, line.format("running")) == 0
    await sandbox.resume()
    await until_figure(up, line.format("running"), lambda running: running == 1)


async def test_every_creation_is_timed(stage: Stage) -> None:
    counted = "cloche_sandbox_creation_seconds_count"
    async with growing(stage.up, counted, "cloche_sandbox_creation_seconds_sum"):
        begun = time.perf_counter()
        await (await stage.cloche.create(id="sb-timed")).remove()
    created = await figure(stage.up, 'cloche_sandbox_creations_total{outcome="created"}')
    assert await figure(stage.up, counted) == created
    assert await figure(stage.up, "cloche_sandbox_creation_seconds_sum") < (time.perf_counter() - begun) * 100


async def test_what_is_not_proven_grows_old_until_there_is_a_checkpoint(stage: Stage) -> None:
    up, sandbox = stage.up, await stage.cloche.sandbox("sb")
    age, unproven = "cloche_audit_checkpoint_age_seconds", "cloche_audit_unproven_events"
    await until_figure(up, age, lambda seconds: seconds == 0)
    await sandbox.run("true")
    await until_figure(up, unproven, lambda events: events > 0)
    await until_figure(up, age, lambda seconds: seconds == 0)
    assert 0 < max(up.seen[age]) < 60


async def test_an_audit_that_has_no_place_to_write_is_in_trouble_until_it_has_one(stage: Stage) -> None:
    up, sandbox = stage.up, await stage.cloche.sandbox("sb")
    place, away = up.data / "audit", up.data / "audit.away"
    assert await figure(up, "cloche_audit_trouble") == 0
    place.rename(away)
    place.touch()
    await sandbox.run("true")
    await until_figure(up, "cloche_audit_trouble", lambda trouble: trouble == 1)
    place.unlink()
    away.rename(place)
    await until_figure(up, "cloche_audit_trouble", lambda trouble: trouble == 0)


async def test_an_order_is_in_hand_until_the_keeper_has_answered_for_it(stage: Stage) -> None:
    sandbox, pid = await stage.cloche.sandbox("sb"), await keeper_of(stage.up)
    os.kill(pid, signal.SIGSTOP)
    try:
        running = asyncio.create_task(sandbox.run("true"))
        await until_figure(stage.up, 'cloche_orders_in_hand{service="executor"}', lambda held: held == 1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (await running).exit_code == 0
    await until_figure(stage.up, 'cloche_orders_in_hand{service="executor"}', lambda held: held == 0)


async def test_a_keeper_that_dies_is_counted_and_down_until_there_is_another(stage: Stage) -> None:
    up, pid = stage.up, await keeper_of(stage.up)
    assert await figure(up, "cloche_keeper_up") == 1
    lost = await figure(up, "cloche_keepers_lost_total")
    async with killed(pid, Layout.of(up.data).lock):
        await until_figure(up, "cloche_keeper_up", lambda is_up: is_up == 0)
        await until_figure(up, "cloche_keepers_lost_total", lambda now: now > lost)
    await until_figure(up, "cloche_keeper_up", lambda is_up: is_up == 1)
    assert (await (await stage.cloche.sandbox("sb")).run("true")).exit_code == 0


async def test_a_server_that_stands_still_fills_a_window_and_one_that_dies_has_it_sent_again(stage: Stage) -> None:
    up, sandbox = stage.up, await stage.cloche.sandbox("sb")
    names = ("publish_window_used", "bus_connected", "service_ready")
    used, connected, ready = (f'cloche_{name}{{service="executor"}}' for name in names)
    full = [f'cloche_publish_window_full{name}_total{{service="executor"}}' for name in ("", "_seconds")]
    again = [f'cloche_{name}_total{{service="executor"}}' for name in ("bus_reconnects", "publish_retries")]
    size = 8_000_000
    async with growing(up, *full, *again):
        execution = await sandbox.start(["sh", "-c", f"read -r go; head -c {size} /dev/zero"], stdin=True)
        await execution.write(b"go\n")
        await execution.output().__anext__()
        server = int(store.pid_file(up.data).read_text())
        os.kill(server, signal.SIGSTOP)
        await until_figure(up, used, lambda messages: messages > 0)
        async with killed(server, store.lock_file(up.data)):
            await until_figure(up, connected, lambda is_connected: is_connected == 0)
            await until_figure(up, ready, lambda is_ready: is_ready == 0)
        result = await execution.wait()
        assert (result.exit_code, len(result.stdout)) == (0, size)
    await until_figure(up, used, lambda messages: messages == 0)
    await until_figure(up, ready, lambda is_ready: is_ready == 1)


async def test_no_figure_of_the_catalogue_is_without_a_test_in_which_it_moves(stage: Stage) -> None:
    """The last one of these: whatever stood still all the time is counted by nobody."""
    elsewhere = {name for names in ELSEWHERE.values() for name in names}
    moved = {name for name, values in stage.up.seen.items() if len(values) > 1}
    assert {each.name for each in catalogue.ALL} - moved - elsewhere - SAID == set()


async def test_what_moves_elsewhere_is_looked_at_there() -> None:
    called = {value.name: key for key, value in vars(catalogue).items() if value in catalogue.ALL}
    for file, names in ELSEWHERE.items():
        text = (ROOT / file).read_text()
        assert [name for name in names if not re.search(rf"{name}|catalogue\.{called[name]}\b", text)] == [], file
