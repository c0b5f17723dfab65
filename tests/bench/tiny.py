"""Sizes so small that the figures mean nothing."""

from services.cli.bench.sizes import Sizes

TINY = Sizes(
    rounds=1,
    round_trips=3,
    output_bytes=1024 * 1024 + 7,
    lines=4,
    command_lines=1,
    docker_execs=2,
    claims=1,
    at_once=3,
    compared_bytes=1024 * 1024 + 7,
    files=200,
    changes=2,
    searched_bytes=200_000,
    deaths=1,
    workspace_files=5,
    watched=(0, 2),
    watched_s=0.2,
    requests=160,
    downloaded_bytes=1024 * 1024 + 7,
    interventions=2,
    interrupts=1,
    sandboxes=200,
    events=3,
)
