"""The suite of all runtimes, for `script`."""

import pytest

from tests.agents.conformance.suite import *  # noqa: F403
from tests.agents.rig import Rig
from tests.agents.scripted.rig import make_rig


@pytest.fixture(scope="module")
def rig() -> Rig:
    return make_rig()
