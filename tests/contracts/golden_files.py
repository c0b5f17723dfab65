"""The golden bytes: what each tag looks like on the wire, for ever. A file is added with its tag, never changed.

A field that is added later appears in a new file; the older bytes move to `golden/older`, and must still decode.
`golden/least` holds only what a tag required when it was released: nothing may be required later.
"""

import pathlib

GOLDEN = pathlib.Path(__file__).parent / "golden"


def golden_path(kind: str, tag: str) -> pathlib.Path:
    return GOLDEN / kind / f"{tag}.json"


def golden(kind: str, tag: str) -> bytes:
    """The file ends with a line break for the sake of editors; the wire has none."""
    return golden_path(kind, tag).read_bytes().removesuffix(b"\n")


def golden_tags(kind: str) -> set[str]:
    return {path.stem for path in (GOLDEN / kind).glob("*.json")}
