"""`cloche soak`: many commands, and nothing of them left."""

from services.cli.soak.running import soak

__all__ = ["soak"]
