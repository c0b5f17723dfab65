"""What the blobs add to `contracts/errors.py`."""

from contracts.errors import ClocheError, Unavailable


class BlobMissing(ClocheError):
    """No blob of this name is stored: it never was, or nothing referred to it any more."""

    code = "BLOB_MISSING"
    http_status = 404


class BlobDamaged(ClocheError):
    """What is stored under this name is not what was put there."""

    code = "BLOB_DAMAGED"


class StoreFull(Unavailable):
    """There is no room for it: the bucket is as large as it may be (`limits.blobs_max_bytes`), or the disk is full."""


FULL = frozenset({10002, 10023, 10077})
"""How the server says that: an account's, its own, and a stream's storage is used up."""
