"""How something is told that every partition of a divided log has one of."""

from typing import Any

import msgspec
from msgspec import Struct


def title(number: int, count: int) -> None:
    """Nothing where the log is not divided."""
    if count > 1:
        print(f"partition {number}")


def of_partition(told: Struct | dict[str, Any], number: int, count: int) -> Struct | dict[str, Any]:
    """With the number of its partition, where there are several."""
    if count == 1:
        return told
    fields: dict[str, Any] = msgspec.to_builtins(told)
    return {"partition": number, **fields}
