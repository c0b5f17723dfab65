"""The runtime where the package that it needs is not installed."""

import subprocess
import sys

import pytest

from contracts.commands.agent import StartAgent
from contracts.errors import RuntimeMissing
from services.agent.runtimes.acp.runtime import AcpRuntime

ORDER = StartAgent(runtime="acp", prompt="hello", options={"command": ["agent"]})


def test_a_missing_package_is_told_with_the_words_that_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    AcpRuntime().check(ORDER)
    monkeypatch.setitem(sys.modules, "acp", None)
    with pytest.raises(RuntimeMissing, match=r"pip install 'cloche\[acp\]'"):
        AcpRuntime().check(ORDER)


def test_the_runtime_is_loaded_without_the_package() -> None:
    code = (
        "import sys; import services.agent.runtimes.acp.runtime; sys.exit(bool({'acp', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
