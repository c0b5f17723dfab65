"""`cloche bench`: what Cloche costs beside doing the same thing bare."""

from services.cli.bench.measuring import measure

__all__ = ["measure"]
