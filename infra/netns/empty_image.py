"""An image with nothing in it, for containers that bring everything along."""

import io
import tarfile

from infra.docker.engine import ANY_HOST, Engine
from infra.docker.errors import Refused, asking
from infra.docker.images import Images

REPOSITORY, TAG = "cloche-empty", "1"
NAME = f"{REPOSITORY}:{TAG}"
IMPORT_S = 30.0


async def have_empty_image(engine: Engine) -> str:
    """Its name; made when the engine has none. Raises `Refused`, `Unavailable`."""
    if await Images(engine).inspect(NAME) is None:
        async with asking(f"make the image {NAME}", IMPORT_S):
            session = (await engine.client()).session
            where = f"{ANY_HOST}/images/create"
            params = {"fromSrc": "-", "repo": REPOSITORY, "tag": TAG}
            async with session.post(where, params=params, data=_nothing()) as response:
                said = await response.text()
                if not response.ok:
                    raise Refused(response.status, said[:1000])
    return NAME


def _nothing() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w"):
        pass
    return archive.getvalue()
