"""What an agent is told whose sandbox was lost under it. Pure."""

from contracts.state import SandboxState
from services.agent.record import Record

SHOWN = 2000


def story_of(state: SandboxState, record: Record) -> str:
    recovery = state.recovery
    why = f" ({recovery.reason})" if recovery is not None and recovery.reason else ""
    files = "its files are as they were"
    if recovery is not None and recovery.sequence is not None:
        files = f"its files were restored from the record, as of sequence {recovery.sequence}"
    lost = f"[SYSTEM] The sandbox that you work in was lost{why} and is there again: {files}."
    words = [
        f"{lost} Every process that ran in it is gone, and what was going on may have been done in part.",
        "See how things are, then go on.",
    ]
    words += [f"You were told, just before: {steer.shown[:SHOWN]}" for steer in record.lately]
    return "\n".join(words)
