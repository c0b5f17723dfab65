"""What is remembered of a program's words: so many at most, whatever it says."""

from collections import OrderedDict
from typing import TypeVar

MOST = 10_000

Value = TypeVar("Value")


class Recent(OrderedDict[str, Value]):
    """The oldest are forgotten."""

    def __setitem__(self, key: str, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > MOST:
            self.popitem(last=False)
