"""What a person reads of the nodes: their load, their health, and what cannot leave."""

import asyncio
import re
from pathlib import Path

from contracts import subjects
from contracts.events.node import NodeDrained, NodeDraining, NodeKept, NodeLost, VitalsNode
from contracts.message import Fact
from infra.bus.connection import Bus
from infra.client.nodes import NodeHealth, nodes
from infra.journal import Journal
from infra.nodes import NodeLog
from tests.bus.servers import nats_in, until
from tests.cli.command_line import CommandLine
from tests.nodes.joined import JoinedNode, values_of

BUSY = VitalsNode(
    sandboxes=3,
    max_sandboxes=20,
    memory_mb=6144,
    max_memory_mb=16_384,
    cpus=2.5,
    max_cpus=8.0,
    machine_memory_mb=32_000,
    machine_cpus=16,
    load_average=1.75,
    labels={"host": "a", "disk": "fast"},
    tiers=("docker", "local"),
    version="1.2.3",
    every_s=600,
)
BRIEF = VitalsNode(sandboxes=0, max_sandboxes=5, machine_memory_mb=7900, machine_cpus=2, version="1.2.4", every_s=0.001)
TOLD: list[tuple[str, Fact]] = [
    ("n3", NodeDraining(node="n3")),
    ("n3", NodeDrained(node="n3")),
    ("n4", NodeLost(node="n4", reason="burnt", noticed_by="n1")),
    ("n5", NodeDraining(node="n5")),
    ("n5", NodeKept(node="n5", sandbox="sb-1", reason="no \x1b[31mroom")),
    ("n6", NodeDraining(node="n6")),
    ("n6", NodeDrained(node="n6")),
]
SIGNS = {"n1": BUSY, "n2": BRIEF, "n5": BUSY, "n6": BUSY}


async def tell(bus: Bus) -> None:
    journal, log = Journal(bus, service="spawner", node="n1"), NodeLog(bus)
    for node, fact in TOLD:
        await log.read()
        await log.tell(journal, node, fact)
    for node, vitals in SIGNS.items():
        sign = journal.write(subjects.NO_SANDBOX, vitals, id=f"{node}.vitals.1", scope=node)
        await bus.tell(subjects.node_vitals(node), sign.payload)


def cells(table: str) -> list[list[str]]:
    """By where the columns begin."""
    head, *rows = table.splitlines()
    begins = [each.start() for each in re.finditer(r"\S+", head)]
    ends = [*begins[1:], None]
    return [[row[begin:end].strip() for begin, end in zip(begins, ends, strict=True)] for row in (head, *rows)]


async def test_the_table_says_what_is_promised_of_what_may_be_and_how_each_node_is(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server:
        bus = await server.connect("spawner")
        await tell(bus)

        async def is_silent() -> bool:
            return [each.health for each in await nodes(bus) if each.node == "n2"] == [NodeHealth.SILENT]

        await until(is_silent)
        with CommandLine(["nodes"], JoinedNode("n1", tmp_path / "n1", values_of(server)).environment) as line:
            out, err = await asyncio.to_thread(line.communicate)
    table = cells(re.sub(r"silent for \d+ s", "silent for N s", out.decode()))
    busy = ["3/20", "6144/16384 MB", "2.5/8", "1.75", "docker,local", "disk=fast,host=a", "1.2.3"]
    assert table == [
        ["NODE", "HEALTH", "SANDBOXES", "MEMORY", "CPUS", "LOAD", "TIERS", "LABELS", "VERSION"],
        ["n1", "alive", *busy],
        # Where it is not counted what may be promised: what the machine has.
        ["n2", "silent for N s", "0/5", "0 (7900 MB)", "0 (2)", "0", "", "-", "1.2.4"],
        ["n3", "silent", *["-"] * 7],
        ["n4", "lost", *["-"] * 7],
        ["n5", "draining", *busy],
        ["n6", "drained", *busy],
    ]
    assert "n5: sb-1 cannot leave: no " in err.decode()
    assert "\x1b" not in err.decode()
