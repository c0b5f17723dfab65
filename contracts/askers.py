"""Whoever asked, in a word."""

CLIENT = "client"
"""The `source` of orders whose asker gives no name."""
GATEWAY = "gateway/"
"""Begins the `source` of orders that came through the gateway; the name in their token follows."""


def asker(by: str) -> str:
    """Empty where nobody in particular did."""
    return "" if by == CLIENT else by.removeprefix(GATEWAY)
