"""Which events somebody wants."""

from contracts import subjects
from contracts.errors import Invalid, SandboxNotFound
from services.gateway.live.items import Item
from services.gateway.live.sight import Sight

MOST_FILTERS = 16
"""Each is a subscription of its own; where it would take more, what is not wanted is left out here."""


class Selection:
    """Sandboxes and types (tags or families); none = all. Raises `Invalid` for what is no type."""

    def __init__(self, sandboxes: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> None:
        self.sandboxes = tuple(dict.fromkeys(sandboxes))
        self.types = _apart(types)
        self._wanted = frozenset(sandboxes)
        try:
            narrow = [each for sandbox in self.sandboxes or ("*",) for each in subjects.typed(sandbox, self.types)]
        except Invalid as error:
            raise Invalid(f"`types`: {error.message}") from error
        self.exact = len(narrow) <= MOST_FILTERS
        """The filters let nothing else through."""
        everything = not self.exact or narrow == subjects.events_of()
        self.filters = (subjects.LOG,) if everything else tuple(narrow)

    def wants(self, item: Item) -> bool:
        if self.exact:
            return True
        return (not self._wanted or item.sandbox in self._wanted) and (not self.types or self._typed(item.tag))

    def _typed(self, tag: str) -> bool:
        return tag in self.types or tag.partition(".")[0] in self.types


def _apart(types: tuple[str, ...]) -> tuple[str, ...]:
    """Without tags of a family that is wanted as a whole: they would be found twice."""
    families = {each for each in types if "." not in each}
    return tuple(dict.fromkeys(each for each in types if "." not in each or each.partition(".")[0] not in families))


async def within(sight: Sight, sandboxes: tuple[str, ...], types: tuple[str, ...]) -> Selection:
    """What somebody may see of it. Raises `SandboxNotFound` for a sandbox out of sight, `Invalid`."""
    for sandbox in sandboxes:
        if not await sight.sees(sandbox):
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
    return Selection(sandboxes or sight.only, types)
