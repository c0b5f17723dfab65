"""Publishing orders, and waiting for what the log says of them."""

import msgspec

from contracts import codec, subjects
from contracts.errors import from_failure
from contracts.events.audit import DeadLetter
from contracts.message import Command, EventHead, Order
from contracts.registry import command_tag
from contracts.streams import COMMANDS_STREAM
from infra import asking, clock
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.ids import new_id
from infra.observing.spans import span_id
from infra.observing.tracing import named, step


async def publish(bus: Bus, node: str, sandbox: str, order: Order, *, id: str | None = None) -> str:  # noqa: A002
    """Returns the command's id once the server has stored it. The same id again is the same command."""
    tag = command_tag(order)
    command = Command(
        id=id or new_id("c"), source=asking.source.get(), type=tag, time=clock.now(), sandboxid=sandbox, data=order
    )
    family, _, verb = tag.partition(".")
    subject = subjects.command(node, sandbox, family, verb)
    with step(f"order {tag}", named(sandbox, command.id), at=span_id("order", command.id), kind="producer"):
        await append(
            bus,
            subject,
            codec.encode(command),
            command.id,
            stream=COMMANDS_STREAM,
            more_headers=asking.trace_headers(),
        )
    return command.id


def raise_if_given_up(head: EventHead, command: str) -> None:
    """Raises the reason when this event is the dead letter of `command`."""
    if head.correlationid == command and head.type.startswith(f"{subjects.DEAD_LETTER}."):
        letter: DeadLetter = msgspec.json.decode(head.data, type=DeadLetter)
        raise from_failure(letter.reason)
