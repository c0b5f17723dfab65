import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the machine for themselves run one after another on one worker."""
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
