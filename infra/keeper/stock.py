"""How many slots wait, and how often one was there when it was wanted."""

from typing import NamedTuple


class Stock(NamedTuple):
    ready: int = 0
    hits: int = 0
    misses: int = 0
