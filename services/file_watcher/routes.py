"""The file watcher's answers, by FastStream: human rates."""

from contracts import subjects
from infra.bus.broker import BusBroker, answer
from services.file_watcher.handlers import Desk

AT_ONCE = 200
"""An answer waits for the workspace that it is about, and must not hold up the others."""


def add_routes(broker: BusBroker, desk: Desk, node: str) -> None:
    answer(broker, subjects.rpc_filter("watch", node), desk.answer, queue="file_watcher", concurrency=AT_ONCE)
