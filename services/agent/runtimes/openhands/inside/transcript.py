"""What the SDK remembers of the conversation."""

from __future__ import annotations

import json
from typing import Any

from services.agent.runtimes.openhands.inside.out import Out

NOT_IN_TREE = ("ConversationStateUpdateEvent", "ConversationErrorEvent")


class Transcript:
    """Kept by the SDK in files, told as they are written, so that the conversation can go on elsewhere."""

    BASE = "base_state.json"

    def __init__(self, out: Out, sdk: Any, directory: str, restored: dict[str, str]) -> None:
        self._out = out
        self._base = ""
        self._base_told = ""
        self.store = sdk.io.LocalFileStore(directory)
        self.resumed = self.BASE in restored
        for path, data in self._mended(restored).items():
            self.store.write(path, data)
        self._write = self.store.write
        self.store.write = self._note

    def _mended(self, files: dict[str, str]) -> dict[str, str]:
        """The base is told more seldom than events: it is brought up to the last of them."""
        if self.BASE not in files:
            return {}
        base = json.loads(files[self.BASE])
        kept = [json.loads(files[name]) for name in sorted(files) if name.startswith("events/")]
        tree = [event["id"] for event in kept if event.get("kind") not in NOT_IN_TREE]
        if tree:
            base["leaf_event_id"] = tree[-1]
        base["execution_status"] = "idle"
        return {**files, self.BASE: json.dumps(base)}

    def _note(self, path: str, contents: Any) -> None:
        self._write(path, contents)
        if path == self.BASE:
            self._base = contents
            if not self._base_told:
                self.tell_base()
        elif path.endswith(".json"):
            self._out.tell("transcript", path=path, data=contents, replaces=False)

    def tell_base(self) -> None:
        if self._base != self._base_told:
            self._out.tell("transcript", path=self.BASE, data=self._base, replaces=True)
            self._base_told = self._base
