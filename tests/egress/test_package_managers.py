"""pip, npm, git, curl and Python find the way out by themselves: real ones, and a registry of the test's own by TLS."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts import codec
from contracts.events.network import NetworkAllowed, NetworkBatch, NetworkDenied
from infra.client import Cloche, CommandResult, Sandbox
from tests.egress.authority import Authority
from tests.egress.registry import WHEEL_NAME, make_registry
from tests.egress.settings import write_settings
from tests.egress.upstream import Upstream, upstream
from tests.services.node import node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOST = "registry.example"
CA = "/workspace/ca.pem"
TRUST = dict.fromkeys(
    ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "npm_config_cafile", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"), CA
)


class Stage(NamedTuple):
    cloche: Cloche
    upstream: Upstream
    sandbox: Sandbox

    @property
    def base(self) -> str:
        return f"https://{HOST}:{self.upstream.port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    place = tmp_path_factory.mktemp("registry")
    authority, files = Authority(place / "authority"), place / "files"
    files.mkdir()
    with upstream(files, authority.server_context(HOST)) as server:
        make_registry(files, f"https://{HOST}:{server.port}")
        write_settings(place / "node", {HOST: server.address, "other.example": server.address})
        async with node_in(place / "node") as (_, cloche):
            sandbox = await cloche.create(
                {
                    "network": {"allowed_hosts": [HOST], "allowed_ports": [server.port]},
                    "environment": {"set": TRUST},
                }
            )
            await sandbox.files.write("ca.pem", authority.certificate.read_text())
            yield Stage(cloche, server, sandbox)


async def run(stage: Stage, command: str) -> CommandResult:
    result = await stage.sandbox.run(command, timeout_ms=60_000)
    assert result.exit_code == 0, result
    return result


async def test_pip_downloads_a_wheel(stage: Stage) -> None:
    options = "--no-cache-dir --disable-pip-version-check --no-deps"
    await run(stage, f"python3 -m pip download {options} --index-url {stage.base}/simple/ clochedemo")
    assert WHEEL_NAME in (await run(stage, "ls")).stdout.decode()


async def test_npm_views_and_fetches_a_package(stage: Stage) -> None:
    options = f"--registry {stage.base}/ --cache /tmp/npm --no-update-notifier --fetch-retries 0"
    viewed = await run(stage, f"npm view clochedemo description {options}")
    assert viewed.stdout == b"from the registry of a test\n"
    packed = await run(stage, f"npm pack clochedemo {options}")
    assert packed.stdout == b"clochedemo-4.5.6.tgz\n"


async def test_git_clones_over_https(stage: Stage) -> None:
    await run(stage, f"git clone -q {stage.base}/demo.git cloned")
    assert (await run(stage, "cat cloned/README")).stdout == b"cloned through the proxy\n"


async def test_apt_fetches_over_https(stage: Stage) -> None:
    trust = f"-o Acquire::https::CaInfo={CA}"
    await run(stage, f"/usr/lib/apt/apt-helper {trust} download-file {stage.base}/work/README fetched")
    assert (await run(stage, "cat fetched")).stdout == b"cloned through the proxy\n"


async def test_curl_and_python_fetch_over_https(stage: Stage) -> None:
    for proxy in ("", "--proxy socks5h://127.0.0.1:3128"):
        fetched = await run(stage, f"curl -sSf {proxy} {stage.base}/work/README")
        assert fetched.stdout == b"cloned through the proxy\n"
    script = f"import urllib.request as u; print(u.urlopen('{stage.base}/work/README').read().decode(), end='')"
    assert (await run(stage, f'python3 -c "{script}"')).stdout == b"cloned through the proxy\n"


async def test_the_loopback_is_spoken_to_without_the_proxy(stage: Stage) -> None:
    script = (
        "cd /tmp; python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & server=$!\n"
        "until curl -sf http://127.0.0.1:8000/ >/dev/null; do kill -0 $server || exit 9; done; kill $server"
    )
    await run(stage, script)


async def test_a_sandbox_that_is_let_out_later_has_the_way_out_in_its_next_commands(stage: Stage) -> None:
    sandbox = await stage.cloche.create({"network": {"mode": "none"}})
    assert (await sandbox.run("env | grep -ic proxy")).stdout == b"0\n"
    await sandbox.network(mode="restricted", allowed_hosts=[HOST], allowed_ports=[stage.upstream.port])
    async with asyncio.timeout(30):
        # The executor reads of it in the log, a moment later.
        while (await sandbox.run("echo $https_proxy")).stdout != b"http://127.0.0.1:3128\n":
            pass
    fetched = await sandbox.run(f"curl -sS --retry 50 --retry-all-errors --retry-delay 1 -k {stage.base}/work/README")
    assert fetched.stdout == b"cloned through the proxy\n", fetched


async def test_a_host_that_is_not_allowed_is_denied_to_all_of_them_and_everything_is_on_the_record(
    stage: Stage,
) -> None:
    elsewhere = f"https://other.example:{stage.upstream.port}"
    refused = await stage.sandbox.run(f"curl -sS {elsewhere}/ || git clone -q {elsewhere}/demo.git", timeout_ms=60_000)
    assert refused.exit_code != 0
    assert b"403" in refused.stderr
    seen = await told(stage.sandbox)
    assert {HOST} == {each.host for each in seen if isinstance(each, NetworkAllowed)}
    denied = [each for each in seen if isinstance(each, NetworkDenied)]
    assert {each.host for each in denied} == {"other.example"}


async def told(sandbox: Sandbox) -> list[NetworkAllowed | NetworkDenied]:
    """Until a denial was told, which is the last thing that happened."""
    found: list[NetworkAllowed | NetworkDenied] = []
    async for event in sandbox.events(types=["network"], follow=True):
        match codec.decode_fact(event.head):
            case NetworkBatch(requests=requests):
                found += requests
            case NetworkAllowed() as allowed:
                found.append(allowed)
            case NetworkDenied() as denied:
                found.append(denied)
                return found
    return found
