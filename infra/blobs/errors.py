"""What the blobs add to `contracts/errors.py`."""

from contracts.errors import ClocheError


class BlobMissing(ClocheError):
    """No blob of this name is stored: it never was, or nothing referred to it any more."""

    code = "BLOB_MISSING"
    http_status = 404


class BlobDamaged(ClocheError):
    """What is stored under this name is not what was put there."""

    code = "BLOB_DAMAGED"
