"""`cloche up` with figures, and waiting for what they tell."""

import asyncio
import collections
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from infra.client import Sandbox
from infra.ports import free_port
from tests.services.node import DEFAULTS, ROOT

WITHIN_S = 90.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""To read the certificates of the system for each look would take longer than the look."""


class Up:
    """`cloche up`, with figures."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.log = data / "up.log"
        self.seen: dict[str, set[float]] = collections.defaultdict(set)
        """Every sum that each figure had when it was looked at; of a histogram how often something was observed."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def values(self, **more: str) -> dict[str, str]:
        own = {"CLOCHE_DATA": str(self.data), "CLOCHE_METRICS_PORT": str(self.port), "CLOCHE_LOG_FORMAT": "json"}
        return {
            **DEFAULTS,
            **own,
            "CLOCHE_POOL": "1",
            "CLOCHE_LOG_LEVEL": "INFO",
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            **more,
        }

    async def lines(self) -> list[str]:
        """As they are scraped."""
        text = (await get(f"{self.url}/metrics")).text
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_count" if family.type == "histogram" else family.name
            told = [each.value for each in family.samples if each.name.removesuffix("_total") == name]
            self.seen[family.name].add(sum(told))
        return text.splitlines()


async def get(url: str, *, wanted: int = 200) -> httpx.Response:
    """For what answers only once something has started."""
    async with (
        httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(verify=NO_TLS)) as client,
        asyncio.timeout(WITHIN_S),
    ):
        while True:
            try:
                answer = await client.get(url)
                if answer.status_code == wanted:
                    return answer
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)


async def until_shown(up: Up, *beginnings: str) -> None:
    """A figure may be told a moment after what it counts."""
    await figures(up, *beginnings)


async def figures(up: Up, *beginnings: str) -> dict[str, float]:
    """Of each the sum of the lines that begin so: as soon as all are there."""
    async with asyncio.timeout(WITHIN_S):
        while len(found := _sums(await up.lines(), beginnings)) < len(beginnings):
            await asyncio.sleep(0.1)
    return found


async def figure(up: Up, line: str) -> float:
    return (await figures(up, line))[line]


async def until_figure(up: Up, line: str, is_right: Callable[[float], bool]) -> float:
    async with asyncio.timeout(WITHIN_S):
        while not is_right(found := await figure(up, line)):
            await asyncio.sleep(0.1)
    return found


def _sums(lines: list[str], beginnings: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in lines:
        for each in beginnings:
            if line.startswith(each):
                found[each] = found.get(each, 0) + float(line.rpartition(" ")[2])
    return found


@asynccontextmanager
async def process(*argv: str, log: Path, env: dict[str, str] | None = None) -> AsyncIterator[None]:
    with log.open("wb") as out:
        started = await asyncio.create_subprocess_exec(*argv, stdout=out, stderr=out, env=env, cwd=ROOT)
    try:
        yield
    finally:
        started.terminate()
        await started.wait()


async def until_told(sandbox: Sandbox, type_: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        async for _ in sandbox.events(types=[type_], follow=True):
            return
