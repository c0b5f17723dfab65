"""Who signs the log, and the order to sign with another key."""

from contracts import codec, subjects
from contracts.audits import AuditState, GetAudit
from contracts.commands.audit import RotateAuditKey
from contracts.errors import Unavailable
from contracts.events.audit import AuditRotated
from contracts.message import Command
from contracts.registry import command_tag
from contracts.streams import COMMANDS_STREAM
from infra import asking, clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.client.asking import ask
from infra.client.orders import raise_if_given_up
from infra.ids import new_id


async def audit_state(bus: Bus) -> AuditState:
    """Raises `Unavailable`."""
    state: AuditState = await ask(bus, subjects.state_rpc("audit"), GetAudit(), AuditState)
    return state


async def rotate_key(bus: Bus, reason: str) -> AuditRotated:
    """Returns when the log says that another key signs. Raises the reason when it was refused."""
    order = RotateAuditKey(reason=reason)
    command = Command(id=new_id("c"), source=asking.source.get(), type=command_tag(order), time=clock.now(), data=order)
    start = (await reader.bounds(bus)).last + 1
    subject = subjects.command(subjects.ANY_NODE, subjects.NO_SANDBOX, "audit", "rotate")
    await append(bus, subject, codec.encode(command), command.id, stream=COMMANDS_STREAM)
    told = subjects.event(subjects.NO_SANDBOX, "audit.rotated")
    refused = subjects.dead_letter(subjects.NO_SANDBOX, "replay", command.id)
    async for entry in reader.read(bus, [told, refused], start, follow=True):
        head = codec.decode_head(entry.data)
        raise_if_given_up(head, command.id)
        if head.correlationid == command.id:
            rotated: AuditRotated = codec.decode(head.data, AuditRotated)
            return rotated
    raise Unavailable("the log has ended")
