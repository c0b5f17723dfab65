"""Which tools an agent is given."""

from enum import StrEnum


class Profile(StrEnum):
    EXPLORE = "explore"
    """Only looks: read, glob, grep."""
    CODE = "code"
    """Also changes: write, edit, run."""
