"""Keys of the player, from the bytes that a terminal sends. Pure."""

from enum import Enum, auto

ESCAPE = "\x1b"
LONGEST_SEQUENCE = 16


class Key(Enum):
    PAUSE = auto()
    BACK = auto()
    FORTH = auto()
    FASTER = auto()
    SLOWER = auto()
    STEP = auto()
    MARK_BEFORE = auto()
    MARK_AFTER = auto()
    QUIT = auto()


Pressed = Key | int
"""An int is a digit: so many tenths."""

_PLAIN: dict[str, Pressed] = {
    " ": Key.PAUSE,
    "+": Key.FASTER,
    "=": Key.FASTER,
    "-": Key.SLOWER,
    ".": Key.STEP,
    "n": Key.STEP,
    "[": Key.MARK_BEFORE,
    "]": Key.MARK_AFTER,
    "q": Key.QUIT,
    "Q": Key.QUIT,
    "\x03": Key.QUIT,
    "\x04": Key.QUIT,
    **{str(digit): digit for digit in range(10)},
}
_SEQUENCES: dict[str, Pressed] = {
    f"\x1b{opening}{letter}": key
    for opening in "[O"
    for letter, key in (("A", Key.FASTER), ("B", Key.SLOWER), ("C", Key.FORTH), ("D", Key.BACK))
}


class KeyReader:
    """What is no key of the player is passed over, also a sequence that comes in pieces."""

    def __init__(self) -> None:
        self._sequence = ""

    def feed(self, data: bytes) -> list[Pressed]:
        found = [self._take(character) for character in data.decode("latin-1")]
        return [pressed for pressed in found if pressed is not None]

    def _take(self, character: str) -> Pressed | None:
        if character == ESCAPE:
            self._sequence = ESCAPE
            return None
        if not self._sequence:
            return _PLAIN.get(character)
        self._sequence += character
        is_open = character in "[O" if len(self._sequence) == 2 else not "@" <= character <= "~"
        if is_open and len(self._sequence) < LONGEST_SEQUENCE:
            return None
        sequence, self._sequence = self._sequence, ""
        # Somebody may press Escape, and then a key.
        return _PLAIN.get(character) if len(sequence) == 2 else _SEQUENCES.get(sequence)
