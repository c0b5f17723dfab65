"""The file watcher's answers, by FastStream: human rates."""

from contracts import subjects
from contracts.watch import Flush
from infra.bus.broker import BusBroker, answer
from infra.bus.desk import Desk
from services.file_watcher.loop import Followers

AT_ONCE = 200
"""An answer waits for the workspace that it is about, and must not hold up the others."""


def add_routes(broker: BusBroker, followers: Followers, node: str) -> None:
    desk = Desk("watch", "flush", Flush, followers.flush)
    answer(broker, subjects.rpc_filter("watch", node), desk.answer, queue="file_watcher", concurrency=AT_ONCE)
