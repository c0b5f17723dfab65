"""A writer to a log in a process of its own: two of them in one process would wait for each other."""

import sys
import time

import msgspec
import uvloop

from contracts import subjects
from infra.bus.connection import Bus, connect
from infra.bus.out_stream import OutStream
from infra.bus.publisher import append
from infra.ids import new_id
from infra.journal import Journal
from services.cli.bench.history import ELSEWHERE, facts
from services.cli.bench.writing import Job, Wrote


async def write(job: Job) -> None:
    """Says `ready`, and begins each of its two parts when it is told to."""
    async with await connect(job.url, job.login, job.password, "bench-writer", patience_s=30) as bus:
        print("ready", flush=True)
        sys.stdin.readline()
        seconds = await _many(bus, job.events)
        print("written", flush=True)
        sys.stdin.readline()
        wrote = Wrote(seconds=seconds, milliseconds=tuple([await _one(bus) for _ in range(job.singles)]))
        print(msgspec.json.encode(wrote).decode(), flush=True)


async def _many(bus: Bus, count: int) -> float:
    journal, sandbox = Journal(bus, service="executor", node=ELSEWHERE), new_id("sb")
    written = [
        journal.write(sandbox, fact, id=f"{sandbox}.{number}")
        for number, fact in zip(range(count), facts(), strict=False)
    ]
    began = time.perf_counter()
    async with OutStream(bus) as out:
        for each in written:
            await out.send(each.subject, each.payload, each.id)
    return time.perf_counter() - began


async def _one(bus: Bus) -> float:
    sandbox = new_id("sb")
    subject = subjects.event(sandbox, "command.output", sandbox)
    began = time.perf_counter()
    await append(bus, subject, b'{"data":"a line of output"}', f"bench.{sandbox}")
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    uvloop.run(write(msgspec.json.decode(sys.stdin.readline(), type=Job)))
