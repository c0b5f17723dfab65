"""Having an image on the node, pulled when it is not there."""

import asyncio
from weakref import WeakValueDictionary

from contracts.errors import SandboxCreationFailed
from infra.docker.engine import Engine
from infra.docker.errors import Refused
from infra.docker.images import ImageInfo, Images
from infra.sandbox.progress import tell


class ImageSource:
    """Each image is pulled by one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._images = Images(engine)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def have(self, name: str) -> ImageInfo:
        """Raises `SandboxCreationFailed` with the image's name when it is not there and cannot be pulled."""
        try:
            return await self._images.inspect(name) or await self._pulled(name)
        except Refused as error:
            raise SandboxCreationFailed(
                f"image {name} is not on this node and cannot be pulled: {error.message}. "
                "Name another in docker.image, or do without an engine: isolation local"
            ) from error

    async def here(self, name: str) -> ImageInfo:
        """Raises `SandboxCreationFailed` when it is not: a pull is for somebody who waits for it."""
        found = await self._images.inspect(name)
        if found is None:
            raise SandboxCreationFailed(f"image {name} is not on this node yet")
        return found

    async def _pulled(self, name: str) -> ImageInfo:
        async with self._locks.setdefault(name, asyncio.Lock()):
            if found := await self._images.inspect(name):
                return found
            await self._images.pull(name, lambda line: tell(f"pulling {name}: {line}"))
            found = await self._images.inspect(name)
        if found is None:
            raise SandboxCreationFailed(f"image {name} was pulled and is still not on this node")
        return found
