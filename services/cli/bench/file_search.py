"""`grep` over a large tree, beside the program of that name."""

import shutil
import time

from contracts.errors import Unavailable
from infra.client import Sandbox
from infra.sandbox.providers import load_provider
from services.cli.bench.bare import timed
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIM = Aim(ratio_below=1.5)
FILE_BYTES = 100 * 1024
PATTERN = "needle [0-9]+ here"
ROUNDS = 5
PROGRAM = """
import os, random, string, sys
size, most = int(sys.argv[1]), int(sys.argv[2])
words = ["".join(random.choices(string.ascii_lowercase, k=random.randint(2, 12))) for _ in range(5000)]
for number in range(max(1, most // size)):
    os.makedirs(f"tree/{number % 50}", exist_ok=True)
    lines = [" ".join(random.choices(words, k=10)) for _ in range(size // 70)]
    if number % 100 == 0:
        lines[len(lines) // 2] = f"a needle {number} here"
    with open(f"tree/{number % 50}/{number}.txt", "w") as file:
        file.write(("\\n".join(lines) + "\\n")[:size])
"""


async def file_search(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    made = await sandbox.run(["python3", "-S", "-c", PROGRAM, str(FILE_BYTES), str(sizes.searched_bytes)])
    if made.exit_code != 0:
        raise Unavailable(f"the tree could not be made: {made.stderr.decode('utf-8', 'replace')}")
    await sandbox.flush()
    tree = await _on_host(rig, sandbox)
    ours: list[float] = []
    bare: list[float] = []
    for _ in rig.progress.track(range(ROUNDS), description="grep"):
        ours.append(await _search(sandbox))
        if shutil.which("grep"):
            bare.append(await timed(["grep", "-rnE", PATTERN, tree]) * 1000)
    await sandbox.remove()
    return [
        Figure(
            what=f"grep over {sizes.searched_bytes / 1e6:.0f} MB",
            value=median(ours),
            unit="ms",
            bare=median(bare) if bare else None,
            beside="grep -rnE",
            ratios=tuple(one / other for one, other in zip(ours, bare, strict=False)),
            aim=AIM,
        )
    ]


async def _on_host(rig: Rig, sandbox: Sandbox) -> str:
    async with load_provider(sandbox.state.isolation, rig.settings.data) as provider:
        return (await provider.created(sandbox.id)).host_workspace + "/tree"


async def _search(sandbox: Sandbox) -> float:
    began = time.perf_counter()
    found = await sandbox.files.grep(PATTERN, "tree")
    took = (time.perf_counter() - began) * 1000
    if not found.matches or found.truncated:
        raise Unavailable("grep did not find what is there")
    return took
