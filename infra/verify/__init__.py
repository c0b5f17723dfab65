"""A log, or an export of one, held against its own proof: see `contracts/verifying.py`."""
