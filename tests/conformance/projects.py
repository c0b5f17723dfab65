"""The smallest project that a devcontainer sandbox can be made from."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.devcontainer.rig import write_project
from tests.images import debian


@cache
def plain_project() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="cloche-project-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    directory.chmod(0o755)
    return write_project(directory, {"image": debian()})
