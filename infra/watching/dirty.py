"""Where in a workspace something may have changed. Only hints: what is true is what the disk says when looked at."""

MOST = 200_000
"""Places worth telling apart. A storm beyond that is cheaper to answer with a look at everything."""


class Dirty:
    """Paths are relative to the workspace, raw, without a leading slash; `b""` is the workspace itself."""

    def __init__(self, *, everything: bool = False) -> None:
        self.paths: set[bytes] = set()
        self.trees: set[bytes] = set()
        """What appeared as a directory: all beneath it counts as changed."""
        self.moves: dict[bytes, bytes] = {}
        """Where to, where from."""
        self.written: set[bytes] = set()
        """Closed by somebody who could write. What was stored through a mapping shows in nothing else."""
        self.everything = everything
        self.overflow = False
        """Notices were dropped."""
        self.doubt = False
        """Among them perhaps some of `written`: of no file is it known that nobody had it mapped."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.trees or self.everything)

    def add(self, path: bytes, *, tree: bool) -> None:
        if self.everything:
            return
        (self.trees if tree else self.paths).add(path)
        if len(self.paths) + len(self.trees) > MOST:
            self.add_everything()

    def add_written(self, path: bytes) -> None:
        if len(self.written) < MOST:
            self.written.add(path)
        else:
            self.doubt = True
            self.add_everything()

    def add_everything(self) -> None:
        self.everything = True
        self.paths.clear()
        self.trees.clear()
        self.moves.clear()

    def merge(self, other: "Dirty") -> None:
        self.overflow |= other.overflow
        self.doubt |= other.doubt
        self.written |= other.written
        if self.everything or other.everything:
            self.add_everything()
            return
        self.paths |= other.paths
        self.trees |= other.trees
        self.moves |= other.moves
