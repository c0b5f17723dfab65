"""What was done is not done again."""

REMEMBERED = 1024


class Once:
    """Ids of what was done, the newest of them."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, name: str | None) -> bool:
        return name is not None and name in self._ids

    def add(self, name: str | None) -> None:
        if name is not None:
            self._ids[name] = None
            if len(self._ids) > REMEMBERED:
                del self._ids[next(iter(self._ids))]
