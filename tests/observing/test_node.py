"""A whole node with figures, looked at by a real Prometheus."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from contracts.errors import QuotaExceeded, SandboxPathDenied
from contracts.events.agent import AgentApprovalRequested
from infra.client import Cloche
from infra.ports import free_port
from tests.agents.conformance.scenes import until
from tests.agents.scripted.playing import begin
from tests.observing.up import WITHIN_S, Up, figure, get, process, until_figure, until_shown, until_told
from tests.services.node import ROOT, end_sandboxes, settings_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    found = Up(tmp_path_factory.mktemp("observed"))
    (found.data / "cloche.toml").write_text("[quotas.projects.full]\nsandboxes = 0\n")
    async with process(sys.executable, "-m", "services.cli", "up", log=found.log, env=found.values()):
        await get(f"{found.url}/healthz")
        yield found
        await end_sandboxes(found.data)


async def test_one_address_has_the_figures_of_every_service(up: Up) -> None:
    health = (await get(f"{up.url}/healthz")).json()
    assert set(health["services"]) == {
        "agent", "egress", "executor", "file_watcher", "guardian", "health_monitor", "replay", "spawner",
    }  # fmt: skip
    async with Cloche.connect(settings_in(up.data)) as cloche:
        sandbox = await cloche.create(id="sb")
        assert (await sandbox.run(["printf", "four"])).exit_code == 0
    await until_shown(
        up,
        'cloche_orders_settled_total{outcome="acked",service="executor"} 1.0',
        'cloche_command_output_bytes_total{stream="stdout"} 4.0',
        "cloche_exec_start_seconds_count 1.0",
        'cloche_sandbox_creations_total{outcome="created"} 1.0',
        'cloche_events_stored_total{family="command",kind="completed"} 1.0',
        'cloche_bus_connected{service="guardian"} 1.0',
        'cloche_publish_window_used{service="executor"} 0.0',
    )


async def test_what_is_asked_of_the_servers_is_there_too(up: Up) -> None:
    durables = ("spawner-any", "spawner-local", "executor-local", "agent-local", "egress-local", "replay-any")
    followers = ("replay", "guardian", "audit", "executor-lifecycles", "spawner-lifecycles")
    await until_shown(
        up,
        *(f'cloche_queue_depth{{durable="{durable}"}}' for durable in durables),
        *(f'cloche_follower_lag_events{{follower="{follower}"}}' for follower in followers),
        'cloche_store_bytes{stream="CLOCHE_LOG"}',
    )


async def test_an_order_that_is_given_up_is_counted_and_logged_with_its_ids(up: Up) -> None:
    async with Cloche.connect(settings_in(up.data)) as cloche:
        order = b'{"id": "c-odd", "type": "command.run", "source": "x", "specversion": "1.0"}'
        await cloche.bus.publish("cloche.cmd.local.sb-odd.command.run", order)
    await until_shown(up, 'cloche_orders_settled_total{outcome="dead",service="executor"} 1.0')
    told = [json.loads(each) for each in up.log.read_text().splitlines() if each.startswith("{")]
    letter = next(each for each in told if "dead letter" in each["message"])
    assert (letter["service"], letter["sandbox"], letter["command"]) == ("executor", "sb-odd", "c-odd")


async def test_a_creation_finds_a_blank_of_its_shape_or_not(up: Up) -> None:
    hits, misses = (f'cloche_pool_takes_total{{result="{result}"}}' for result in ("hit", "miss"))
    await until_figure(up, "cloche_pool_ready", lambda ready: ready == 1)
    hit, missed = await figure(up, hits), await figure(up, misses)
    async with Cloche.connect(settings_in(up.data)) as cloche:
        await cloche.create(id="sb-pooled")
        assert (await figure(up, hits), await figure(up, misses)) == (hit + 1, missed)
        await cloche.create({"resources": {"pids": 255}}, id="sb-odd-shape")
    assert (await figure(up, hits), await figure(up, misses)) == (hit + 1, missed + 1)


async def test_a_request_that_is_denied_is_counted(up: Up) -> None:
    line = 'cloche_egress_requests_total{verdict="denied"}'
    before = await figure(up, line)
    async with Cloche.connect(settings_in(up.data)) as cloche:
        sandbox = await cloche.create({"network": {"mode": "restricted", "allowed_hosts": []}}, id="sb-curious")
        await sandbox.run(["curl", "-s", "-m", "20", "-o", "/dev/null", "http://nowhere.test/"])
        await until_told(sandbox, "network.denied")
    assert await figure(up, line) == before + 1


async def test_whoever_may_not_is_counted_by_the_service_that_says_so_and_no_order_of_theirs_is_a_fault(up: Up) -> None:
    dead = 'cloche_orders_settled_total{outcome="dead",service="spawner"}'
    before = await figure(up, dead)
    async with Cloche.connect(settings_in(up.data)) as cloche:
        with pytest.raises(QuotaExceeded):
            await cloche.create({"project_id": "full"})
        sandbox = await cloche.create(id="sb-nosy")
        with pytest.raises(SandboxPathDenied):
            await sandbox.files.read("../status.json")
    await until_shown(
        up,
        'cloche_denials_total{code="QUOTA_EXCEEDED",service="spawner"} 1.0',
        'cloche_denials_total{code="SANDBOX_PATH_DENIED",service="executor"} 1.0',
        'cloche_orders_settled_total{outcome="refused",service="spawner"} 1.0',
    )
    assert await figure(up, dead) == before


async def test_a_death_and_the_recovery_from_it_are_counted(up: Up) -> None:
    died, recovered = "cloche_sandbox_deaths_total", 'cloche_recoveries_total{cause="death",outcome="recovered"}'
    before = (await figure(up, died), await figure(up, recovered))
    async with Cloche.connect(settings_in(up.data)) as cloche:
        sandbox = await cloche.create(id="sb-mortal")
        status = json.loads((up.data / "sandboxes" / "sb-mortal" / "status.json").read_text())
        os.kill(status["child-pid"], signal.SIGKILL)
        await until_told(sandbox, "sandbox.recovered")
    await until_figure(up, recovered, lambda found: found == before[1] + 1)
    assert await figure(up, died) == before[0] + 1


async def test_a_tool_call_that_waits_for_leave_is_shown_with_its_age_until_it_is_answered(up: Up) -> None:
    async with Cloche.connect(settings_in(up.data)) as cloche:
        sandbox = await cloche.create(id="sb-asking")
        run = await begin(sandbox, [{"ask": "May I?", "tool": "deploy", "steps": [], "denied": []}])
        asked = await until(run, AgentApprovalRequested)
        await until_figure(up, "cloche_approvals_pending", lambda waiting: waiting == 1)
        await until_figure(up, "cloche_approvals_oldest_seconds", lambda age: age > 0.5)
        await sandbox.agent.approve(asked.approval)
        await run.wait()
    await until_figure(up, "cloche_approvals_pending", lambda waiting: waiting == 0)
    await until_figure(up, "cloche_approvals_oldest_seconds", lambda age: age == 0)


async def test_a_real_prometheus_finds_every_target_up(up: Up, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    assert program is not None, "prometheus is missing: apt-get install prometheus"
    config = yaml.safe_load((ROOT / "infra/observability/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "5s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ROOT / "infra/observability/alerts.yml")]
    config["scrape_configs"] = config["scrape_configs"][:1]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{up.port}"]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    argv = (
        program,
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    async with process(*argv, log=tmp_path / "log"):
        api = f"http://127.0.0.1:{port}/api/v1"
        await get(f"http://127.0.0.1:{port}/-/ready")
        # On a busy machine one look may time out; the next one does not.
        await _answered(f"{api}/query?query=up==1")
        seen = await _answered(f"{api}/query?query=cloche_service_ready")
        assert {each["metric"]["job"] for each in seen} == {"cloche"}
        silent = await _answered(f"{api}/query?query=cloche_node_silent_seconds")
        assert [(each["metric"]["name"], each["metric"]["node"]) for each in silent] == [("local", "local")]
        rules = (await get(f"{api}/rules")).json()["data"]["groups"][0]["rules"]
        assert {each["health"] for each in rules} <= {"ok", "unknown"}


async def _answered(query: str) -> list[dict[str, Any]]:
    """Waits until there is something."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            found: list[dict[str, Any]] = (await get(query)).json()["data"]["result"]
            if found:
                return found
            await asyncio.sleep(0.2)
