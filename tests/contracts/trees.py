"""Trees of files for property tests: any bytes as names, any sort of entry."""

import hashlib

from hypothesis import strategies as st

from contracts.events.file import EntryKind
from contracts.manifest import MOST_MICROS, Entry, Tree
from contracts.spelling import spell

NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"c", b"src", b"\xff", b"caf\xe9", "ü".encode(), b"\\xff", b" ", b"\n", b"-", b"..."]),
    st.binary(min_size=1, max_size=6).filter(lambda name: name not in (b".", b"..") and not set(name) & set(b"/\x00")),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
TIMES = st.integers(-MOST_MICROS, MOST_MICROS)
MODES = st.integers(0, 0o7777)


@st.composite
def entries(draw: st.DrawFn, path: bytes) -> Entry:
    text, encoded = spell(path)
    kind = draw(st.sampled_from(EntryKind))
    mode = draw(MODES)
    if kind == EntryKind.DIRECTORY:
        return Entry(path=text, path_bytes=encoded, kind=kind, size=0, mode=mode)
    mtime = draw(TIMES)
    if kind == EntryKind.SYMLINK:
        target = spell(draw(PATHS))
        return Entry(
            path=text,
            path_bytes=encoded,
            kind=kind,
            size=1,
            mode=0o777,
            mtime_us=mtime,
            symlink=target.text,
            symlink_bytes=target.encoded,
        )
    content = draw(st.binary(max_size=2))
    sha256 = hashlib.sha256(content).hexdigest() if kind == EntryKind.FILE and draw(st.booleans()) else None
    blob = sha256 if draw(st.booleans()) else None
    return Entry(
        path=text,
        path_bytes=encoded,
        kind=kind,
        size=len(content),
        mode=mode,
        mtime_us=mtime,
        sha256=sha256,
        blob=blob,
    )


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    return {path: draw(entries(path)) for path in draw(st.lists(PATHS, unique=True, max_size=12))}
