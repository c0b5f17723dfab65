"""When a process was asked what: by the record, so that every life of this service knows the same."""

import datetime

from contracts import codec, subjects
from contracts.events.command import CommandInput
from contracts.payload import unpack
from infra.bus import reader
from services.agent.lines import Lines
from services.agent.process import Process
from services.agent.runtimes.acp.envelope import Id
from services.agent.runtimes.acp.said import said
from services.agent.stage import Stage


async def beginnings(stage: Stage, process: Process) -> dict[Id, datetime.datetime]:
    """Of what earlier lives have asked it, by the id of the request."""
    began: dict[Id, datetime.datetime] = {}
    if not process.inputs:
        return began
    lines = Lines(1 << 40)
    inputs = subjects.events_of(stage.state.sandbox, family="command", kind="input", scope=process.id)
    async for entry in reader.read(stage.bus, inputs, stage.first_sequence, follow=False):
        head = codec.decode_head(entry.data)
        fact = codec.decode_fact(head)
        if isinstance(fact, CommandInput):
            whole = [line.data for line in lines.feed(unpack(fact.data, fact.encoding))]
            began |= dict.fromkeys(said(whole).requests, head.time)
    return began
