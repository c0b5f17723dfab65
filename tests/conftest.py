"""The beginning of a run, longest first, and its end: nothing of its sandboxes may be left in the engine."""

from typing import Any, cast

import pytest

from tests.leftovers import left_under
from tests.longest import rank


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Once, when all workers are done. What this run made lies under its own temporary directory."""
    config = cast("Any", session.config)
    if hasattr(config, "workerinput") or session.config.option.collectonly:
        return
    left = left_under(config._tmp_path_factory.getbasetemp())
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        assert reporter is not None
        reporter.write_line(f"\nleft in the Docker engine after the run: {', '.join(left)}", red=True)
