"""`cloche bench`: what Cloche costs beside doing the same thing bare."""

from services.cli.bench.browser import find_browser
from services.cli.bench.choice import Choice
from services.cli.bench.measuring import measure
from services.cli.bench.swe_rex_process import find_swe_rex

__all__ = ["Choice", "find_browser", "find_swe_rex", "measure"]
