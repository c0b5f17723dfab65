"""Builds the dashboard into wheels. An install never fails for it: without it the page says what is missing."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "CLOCHE_SKIP_DASHBOARD"
"""Set by whoever wants a wheel without it."""
SHIPPED = "services/dashboard"


class DashboardHook(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # In a checkout it is built at its first use, with the checkout's own words.
        if self.target_name != "wheel" or version == "editable" or os.environ.get(SKIP):
            return
        building = _building(Path(self.root) / SHIPPED / "build.py")
        if building.ensure_built(self.app.display_info):
            build_data["force_include"][str(building.DIST)] = f"{SHIPPED}/dist"
        else:
            self.app.display_warning("the wheel has no dashboard; everything else is in it")


def _building(file: Path) -> ModuleType:
    """The module, though the project that it belongs to is not installed here."""
    spec = importlib.util.spec_from_file_location("cloche_dashboard_build", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
