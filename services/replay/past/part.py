"""States in the past as one thing: asked for, and kept ready."""

from infra.bus.connection import Bus
from infra.settings import Settings
from services.replay.handlers import Answers
from services.replay.past.folder import Folder
from services.replay.past.keeping import Keeping
from services.replay.past.snapshots import Snapshots
from services.replay.past.state import StateInTime
from services.replay.past.store import SnapshotStore
from services.replay.past.version import fold_version
from services.replay.projection import Projection


class PastStates:
    def __init__(self, bus: Bus, settings: Settings, projection: Projection) -> None:
        every = settings.replay.snapshot_events
        store = SnapshotStore(
            settings.data / "replay" / "folds", fold_version(), max_bytes=settings.replay.snapshot_bytes
        )
        snapshots = Snapshots(store)
        folder = Folder(snapshots, every=every)
        self._states = StateInTime(bus, folder, projection, health_s=settings.intervals.health_s)
        self._keeping = Keeping(bus, projection, folder, snapshots, every=every, look_s=settings.intervals.sweep_s)
        self.forget = snapshots.clear
        """Throws all snapshots away."""

    def answers(self) -> Answers:
        return self._states.answers()

    async def run(self) -> None:
        """For ever."""
        await self._keeping.run()
