"""How much of the paths of one sandbox's requests goes on the record."""

LONGEST_BYTES = 256
BYTES_PER_S = 16 * 1024
BURST_BYTES = 1 << 20
CUT = "…"


class Paths:
    """Whoever asks for long paths without end gets them told no longer: the log is not to be filled with them."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST_BYTES)
        self._at = now

    def told(self, path: str, now: float) -> str:
        """Its beginning; `…` stands for what is left out, and for the whole of it when too much has been told."""
        self._left = min(BURST_BYTES, self._left + (now - self._at) * BYTES_PER_S)
        self._at = now
        short = shortened(path)
        size = len(short.encode())
        if size > self._left:
            return CUT
        self._left -= size
        return short


def shortened(path: str) -> str:
    data = path.encode(errors="replace")
    if len(data) <= LONGEST_BYTES:
        return data.decode()
    return data[: LONGEST_BYTES - len(CUT.encode())].decode(errors="ignore") + CUT
