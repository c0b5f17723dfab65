"""Replay's answers, by FastStream: human rates."""

from contracts import subjects
from infra.bus.broker import BusBroker, answer
from services.replay.handlers import Historian

QUEUE = "replay"


def add_routes(broker: BusBroker, historian: Historian) -> None:
    async def reply(subject: str, raw: bytes) -> bytes:
        return await historian.answer(subject.rpartition(".")[2], raw)

    answer(broker, subjects.state_rpc("*"), reply, queue=QUEUE)
