"""The tiers that escapes are attempted from. What holds for `docker` holds for a devcontainer: it is made the same."""

import pytest

on_each_tier = pytest.mark.parametrize("name", ["local", "docker"])
