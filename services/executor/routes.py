"""The executor's requests about files, by FastStream."""

from contracts import subjects
from infra.bus.broker import BusBroker, answer
from services.executor.files import FileTools

AT_A_TIME = 256
"""Most of them may be searches that wait for their turn; a short one must not wait behind them."""


def add_routes(broker: BusBroker, tools: FileTools, node: str) -> None:
    answer(broker, subjects.rpc_filter("files", node), tools.answer, queue="executor", concurrency=AT_A_TIME)
