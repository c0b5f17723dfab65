"""JSON as people write it in devcontainer.json: with comments and trailing commas."""

import re
from typing import Any

import msgspec

# What has no end goes on to the end of the text: looked for again from each beginning, it would take hours.
_STRING = r'("(?:\\.|[^"\\])*(?:"|\\?\Z))'
_COMMENTS = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMAS = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


def decode(text: str) -> dict[str, Any]:
    """Raises ValueError with the place for what is no JSON object."""
    plain = _TRAILING_COMMAS.sub(_keep_strings, _COMMENTS.sub(_keep_strings, text))
    try:
        return msgspec.json.decode(plain, type=dict[str, Any])
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _keep_strings(found: re.Match[str]) -> str:
    # A blank where a comment was, or it would join what it parted.
    return found[1] or ("" if found[0] == "," else " ")
