"""The file watcher: follows the files of every workspace and puts each change on the log."""

import asyncio

from infra.access import open_as
from infra.blobs.blobs import Blobs
from infra.bus.broker import make_broker
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.manifest.garbage import keep_swept
from infra.node_name import NodeName
from infra.observing import catalogue
from infra.service import Ready
from infra.settings import Settings
from infra.watching.watches import Watches
from services.file_watcher.loop import Followers
from services.file_watcher.places import Places
from services.file_watcher.remembered import Remembered
from services.file_watcher.routes import add_routes
from services.file_watcher.texts import Texts
from services.file_watcher.tools import Tools

PORTIONS = 8


class FileWatcherApp:
    name = "file_watcher"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        with exclusive(self._settings.data, self.name, "two would tell the same changes"):
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        async with open_as(settings, self.name) as bus, Watches() as watches:
            name = NodeName(bus, settings)
            await name.held()
            journal = Journal(bus, service=self.name, node=settings.node)
            lifecycles = Lifecycles(bus)
            remembered = Remembered(settings.data / "run" / "files_seen")
            portions = asyncio.Semaphore(PORTIONS)
            tools = Tools(bus, journal, Blobs(bus), watches, settings.files, Texts(), portions, remembered)
            async with asyncio.TaskGroup() as tasks:
                followers = Followers(tools, Places(settings.data), tasks)
                tasks.create_task(catalogue.workspaces_followed.show(lambda: len(followers)))
                tasks.create_task(name.keep())
                tasks.create_task(lifecycles.follow())
                tasks.create_task(watches.outlast())
                tasks.create_task(keep_swept(bus, settings.data / "run"))
                await lifecycles.caught_up.wait()
                await asyncio.to_thread(remembered.forget_all_but, [state.sandbox for state in lifecycles])
                for state in lifecycles:
                    followers.consider(state)
                lifecycles.on_change(followers.consider)
                broker = make_broker(bus)
                add_routes(broker, followers, settings.node)
                await broker.start()
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def make_app(settings: Settings) -> FileWatcherApp:
    return FileWatcherApp(settings)
