"""FastStream on our connection, with its defaults replaced by choices.

Bytes in, bytes out; no declaring of streams; nothing acknowledged behind our back; no log line per message; the
repaired client with endless reconnects. For human rates: hot paths use `reader`, `out_stream` and `consumer.run`.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, cast

from contracts.errors import Invalid, Unavailable
from contracts.streams import ConsumerSpec
from infra.absent import absent
from infra.bus.client import Client
from infra.bus.connection import Bus
from infra.bus.settle import DeadLetters, Failures, Handler, settle

# A web server, which takes as long to import as all of FastStream, and which only its command line needs.
with absent("uvicorn"):
    from faststream import AckPolicy
    from faststream.message import StreamMessage
    from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub

logger = logging.getLogger(__name__)

Answer = Callable[[str, bytes], Awaitable[bytes]]
"""Called with the subject and payload of a request; returns the payload of the reply."""

REPLY_PREFIXES = ("_R_.", "_INBOX")
PULL_TIMEOUT_S = 1.0
"""FastStream notices a lost connection only when this is over."""


class ByteCodec:
    """Hands over what came and sends what is given. FastStream's own sniffs: it makes the payload `1` an int."""

    async def decode(self, msg: StreamMessage[Any]) -> bytes:
        return bytes(msg.body)

    async def encode(self, msg: Any, serializer: Any = None) -> tuple[bytes, str | None]:  # noqa: ARG002
        if not isinstance(msg, bytes):
            raise Invalid(f"only bytes go out, not {type(msg).__name__}")
        return msg, None


class _Patient:
    """The bus's client as FastStream sees it: a publish waits for the connection.

    FastStream starts a subscriber again at once when it fails, so an error while the server is away would spin.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus.client, name)

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        await self._bus.wait_connected()
        await self._bus.client.publish(subject, payload, reply, headers)


class BusBroker(NatsBroker):
    """A broker on a bus that somebody else opens and closes."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(
            bus.url,
            logger=None,
            ack_policy=AckPolicy.MANUAL,
            apply_types=False,
            js_options={"prefix": bus.api_prefix},
            max_reconnect_attempts=-1,
        )
        self.bus = bus
        self.failures = Failures()

    async def _connect(self) -> Client:
        patient = cast("Client", _Patient(self.bus))
        self.config.connect(patient)
        return patient

    async def start(self) -> None:
        """Returns when the server knows of every subscription."""
        await super().start()
        await self.bus.settle_subscriptions()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        self._connection = None
        await super().stop(exc_type, exc_val, exc_tb)


def make_broker(bus: Bus) -> BusBroker:
    """Not yet started: `take` and `answer` first, then `await broker.start()`; `await broker.stop()` before the bus."""
    return BusBroker(bus)


def take(broker: BusBroker, spec: ConsumerSpec, handle: Handler, dead_letter: DeadLetters) -> None:
    """Handle the messages of a provisioned consumer one after another, each ending as `settle` says.

    `consumer.run` does the same with several at a time.
    """

    async def consume(message: NatsMessage) -> None:
        await settle(
            broker.bus, message.raw_message, handle, dead_letter, failures=broker.failures, ack_wait_s=spec.ack_wait_s
        )

    broker.subscriber(
        spec.filters[0],
        stream=JStream(spec.stream, declare=False),
        durable=spec.durable,
        pull_sub=PullSub(batch_size=1, timeout=PULL_TIMEOUT_S),
        ack_policy=AckPolicy.MANUAL,
        decoder=_whole,
        no_reply=True,
    )(consume)


def answer(broker: BusBroker, subject: str, handle: Answer, *, queue: str, concurrency: int = 16) -> None:
    """Answer requests, `concurrency` at a time, sharing them with all who answer in the same `queue`.

    Whoever asks names where the reply goes. Only an inbox is answered: a reply written to any other subject could
    be made to land in the log under our own right to write there. `handle` turns its own failures into replies; what
    it raises is logged, and the asker hears nothing.
    """

    async def respond(message: NatsMessage) -> None:
        request = message.raw_message
        try:
            reply = await handle(request.subject, request.data)
        except Exception:
            logger.exception("%s: a bug in the handler", request.subject)
            return
        if request.reply.startswith(REPLY_PREFIXES):
            with contextlib.suppress(Unavailable):
                await broker.bus.publish(request.reply, reply)

    broker.subscriber(
        subject, queue, ack_policy=AckPolicy.MANUAL, decoder=_whole, no_reply=True, max_workers=concurrency
    )(respond)


async def _whole(message: NatsMessage) -> NatsMessage:
    return message
