"""How much of everything a run measures."""

from msgspec import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    rounds: int
    """How often each benchmark goes back and forth between Cloche and the bare alternative."""
    round_trips: int
    """Commands, over all rounds."""
    output_bytes: int
    """Of one command, each round."""
    lines: int
    """Whose latency is measured, over all rounds."""
    command_lines: int
    """Runs of each command line."""
    docker_execs: int
    """Commands in a container, of each kind."""
    claims: int
    """Sandboxes from the pool, and as many without it."""
    at_once: int
    """Commands, each round."""
    compared_bytes: int
    """Of one command, each round, that is handed over whole."""
    files: int
    """Written at once."""
    changes: int
    """Of files, whose latency is measured."""
    searched_bytes: int
    """Of the tree that is searched."""
    deaths: int
    """With an empty workspace, and as many with a full one."""
    workspace_files: int
    """In a full one."""
    watched: tuple[int, ...]
    """Sandboxes that a monitor watches over, ascending."""
    watched_s: float
    """For how long the monitor's cost is measured: whole rounds of its interval."""
    requests: int
    """Of each kind, each round, through each proxy."""
    downloaded_bytes: int
    """In one answer, each round, through each proxy."""
    interventions: int
    """Messages to an agent in the middle of a turn."""
    interrupts: int
    """Of an agent's commands, of each kind."""
    sandboxes: int
    """In the large log: a multiple of 200."""
    events: int
    """Of each sandbox in the large log."""
    history_events: int
    """Of the one sandbox with a long history."""
    moments: int
    """Of it that are asked for."""
    folds: int
    """Of it from the beginning."""
    published: int
    """Events, each round, with the chain and without it."""
    followers: int
    """WebSockets that follow one sandbox."""
    followed_bytes: int
    """Of one command, each round, to each of them."""
    page_events: int
    """Of the sandbox whose page is opened."""
    alive: int
    """Sandboxes on one node."""
    alive_s: float
    """For how long their cost is measured: whole rounds of the node's intervals."""
    session_commands: int
    """Of one session, whose traces in the store are measured."""
    written: int
    """Events, by each writer, each round, as fast as they are stored."""
    singles: int
    """Events, by each writer, each round, one after the other."""
    writers: int
    """Side by side, to one log."""
    partitions: int
    """Logs, and as many writers."""
    node_counts: tuple[int, ...]
    """Nodes on one machine, ascending."""
    node_commands: int
    """Each round, on each number of nodes."""


FULL = Sizes(
    rounds=5,
    round_trips=300,
    output_bytes=512 * 1024 * 1024,
    lines=240,
    command_lines=7,
    docker_execs=100,
    claims=10,
    at_once=20,
    compared_bytes=100 * 1024 * 1024,
    files=20_000,
    changes=60,
    searched_bytes=200_000_000,
    deaths=20,
    workspace_files=1000,
    watched=(0, 100, 500),
    watched_s=60.0,
    requests=16_000,
    downloaded_bytes=1024 * 1024 * 1024,
    interventions=300,
    interrupts=20,
    sandboxes=1000,
    events=1000,
    history_events=1_000_000,
    moments=60,
    folds=3,
    published=100_000,
    followers=100,
    followed_bytes=20 * 1024 * 1024,
    page_events=100_000,
    alive=1000,
    alive_s=60.0,
    session_commands=720,
    written=5000,
    singles=200,
    writers=8,
    partitions=4,
    node_counts=(1, 2, 4),
    node_commands=400,
)
QUICK = Sizes(
    rounds=2,
    round_trips=40,
    output_bytes=16 * 1024 * 1024,
    lines=40,
    command_lines=2,
    docker_execs=10,
    claims=3,
    at_once=20,
    compared_bytes=8 * 1024 * 1024,
    files=2000,
    changes=10,
    searched_bytes=20_000_000,
    deaths=4,
    workspace_files=1000,
    watched=(0, 20),
    watched_s=30.0,
    requests=1600,
    downloaded_bytes=64 * 1024 * 1024,
    interventions=40,
    interrupts=4,
    sandboxes=200,
    events=100,
    history_events=20_000,
    moments=10,
    folds=2,
    published=5000,
    followers=100,
    followed_bytes=4 * 1024 * 1024,
    page_events=10_000,
    alive=300,
    alive_s=30.0,
    session_commands=40,
    written=2000,
    singles=100,
    writers=8,
    partitions=4,
    node_counts=(1, 2, 4),
    node_commands=40,
)
