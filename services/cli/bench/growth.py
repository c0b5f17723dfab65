"""What an hour of somebody's session leaves in the store, beside the bytes that it wrote itself."""

import asyncio
from pathlib import Path

from contracts.streams import BLOBS_BUCKET, LOG_STREAM, SANDBOXES_BUCKET
from services.cli.bench.figure import Figure
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

STREAMS = (LOG_STREAM, f"OBJ_{BLOBS_BUCKET}", f"KV_{SANDBOXES_BUCKET}")
LINES = 40
LINE = "a line of output, as long as such lines usually are in a build"
FILE_BYTES = 4096
EVERY = 3
"""Commands to a file that is written."""
SCRIPT = (
    f'for n in $(seq {LINES}); do echo "{LINE}"; done; '
    f"if [ $(($1 % {EVERY})) -eq 0 ]; then "
    f'head -c {FILE_BYTES * 3 // 4} /dev/urandom | base64 -w0 > "file$(($1 % 30))"; fi'
)
MB = 1024 * 1024


async def growth(rig: Rig, sizes: Sizes) -> list[Figure]:
    """As many commands as come in an hour at one every five seconds, one right after the other."""
    sandbox = await rig.cloche.create()
    before, disk_before = await _stored(rig), await _on_disk(rig)
    for number in rig.progress.track(range(sizes.session_commands), description="a session"):
        await sandbox.run(["sh", "-c", SCRIPT, "sh", str(number)])
    await sandbox.flush()
    after, disk_after = await _stored(rig), await _on_disk(rig)
    await sandbox.remove()
    wrote = sizes.session_commands * LINES * (len(LINE) + 1)
    wrote += -(-sizes.session_commands // EVERY) * FILE_BYTES
    what = f"a session of {sizes.session_commands:,} commands"
    return [
        Figure(what=f"{what}: {words}", value=grown / MB, unit="MB", bare=wrote / MB, beside="what it wrote")
        for words, grown in (
            ("messages in the store, as the server counts them", after - before),
            ("the store's directory on the disk", disk_after - disk_before),
        )
    ]


async def _stored(rig: Rig) -> int:
    """Of the log, of contents and of the read model."""
    infos = [await rig.admin.api(f"STREAM.INFO.{name}") for name in STREAMS]
    return sum(int(info["state"]["bytes"]) for info in infos)


async def _on_disk(rig: Rig) -> int:
    """With what the server keeps beside messages, and with what else is stored meanwhile: orders, signs of life."""
    return await asyncio.to_thread(_blocks, rig.settings.data / "nats" / "store")


def _blocks(directory: Path) -> int:
    """As `du` counts: what is taken of the disk, not how long the files say they are."""
    found = 0
    for file in directory.rglob("*"):
        try:
            found += file.lstat().st_blocks * 512
        except FileNotFoundError:
            # The server replaces files while we look.
            continue
    return found
