"""Which commands of a log have ended, when they are more than memory should hold by name."""

from array import array

_SMALLEST = 1024


class Ended:
    """A set of names of which only 64 bits each are kept: about 16 bytes of memory, whatever their length.

    The bits are keyed anew in each process, so nobody can choose two names that are taken for one.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _SMALLEST))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: tuple[str, str]) -> bool:
        return self._slots[self._slot(_bits(name))] != 0

    def add(self, name: tuple[str, str]) -> None:
        self._put(_bits(name))
        if self._count * 3 > len(self._slots) * 2:
            self._grow()

    def _put(self, bits: int) -> None:
        at = self._slot(bits)
        self._count += self._slots[at] == 0
        self._slots[at] = bits

    def _slot(self, bits: int) -> int:
        """Where it is, or would be."""
        slots, mask = self._slots, len(self._slots) - 1
        at = bits & mask
        while slots[at] not in (0, bits):
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        before = self._slots
        self._slots = array("Q", bytes(16 * len(before)))
        self._count = 0
        for bits in before:
            if bits:
                self._put(bits)


def _bits(name: tuple[str, str]) -> int:
    return hash(name) & 0xFFFF_FFFF_FFFF_FFFF or 1
