"""The suite of all runtimes, for `acp`."""

import pytest

from tests.agents.acp.rig import make_rig
from tests.agents.conformance.suite import *  # noqa: F403
from tests.agents.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Rig:
    return make_rig()
