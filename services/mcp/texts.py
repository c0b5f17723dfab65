"""Answers as a model reads them. What was cut says how to get the rest."""

from contracts.errors import Failure
from contracts.files import ContentKind, TruncatedBy
from services.mcp.answers import EditAnswer, GlobAnswer, GrepAnswer, ReadAnswer, RunAnswer, WriteAnswer

CUT_BY = {
    "matches": "there are more matches: raise `limit`, or search in one `path` or only in `files` like a pattern",
    "bytes": "there are more matches than fit: search in one `path`, or only in `files` like a pattern",
    "time": "not all was searched, for it takes long: search in one `path`, or only in `files` like a pattern",
}


def read_text(answer: ReadAnswer) -> list[str]:
    """The content as it is, and apart from it what there is to say."""
    if answer.kind != ContentKind.TEXT:
        return [f"[{answer.path}: {answer.mime}, {answer.bytes} bytes, not a text]"]
    note = _read_note(answer)
    return [text for text in (answer.content, note) if text]


def _read_note(answer: ReadAnswer) -> str:
    if not answer.bytes:
        return f"[{answer.path} is empty]"
    if answer.truncated_by == TruncatedBy.BYTES and not answer.content.endswith("\n"):
        rest = f"; go on with offset={answer.next_offset}" if answer.next_offset else ""
        return f"[line {answer.first_line} is too long and was cut{rest}]"
    if answer.truncated:
        last = (answer.first_line or 1) + (answer.lines or 0) - 1
        shown = f"lines {answer.first_line} to {last} of {answer.total_lines}"
        return f"[{shown}; go on with offset={answer.next_offset}]"
    if not answer.lines:
        return f"[{answer.path} has only {answer.total_lines} lines]"
    return ""


def glob_text(answer: GlobAnswer) -> list[str]:
    if not answer.entries:
        return ["[nothing matches]"]
    lines = [f"{entry.path}/" if entry.kind == "directory" else entry.path for entry in answer.entries]
    if answer.truncated:
        lines.append(f"[there are more: go on with after={answer.next!r}, or use a narrower pattern]")
    return ["\n".join(lines)]


def grep_text(answer: GrepAnswer) -> list[str]:
    lines: list[str] = []
    for match in answer.matches:
        lines += [f"{match.path}-{n}-{text}" for n, text in enumerate(match.before, match.line - len(match.before))]
        lines.append(f"{match.path}:{match.line}:{match.text}")
        lines += [f"{match.path}-{n}-{text}" for n, text in enumerate(match.after, match.line + 1)]
    if answer.truncated:
        lines.append(f"[{CUT_BY.get(answer.truncated_by or '', 'there are more matches')}]")
    elif not answer.matches:
        lines.append(f"[nothing matches in {answer.files_searched} files]")
    return ["\n".join(lines)]


def write_text(answer: WriteAnswer) -> list[str]:
    return [f"{answer.path}: {'new' if answer.created else 'replaced'}, {answer.bytes} bytes"]


def edit_text(answer: EditAnswer) -> list[str]:
    return [f"{answer.path}:{answer.first_line}: {answer.replacements} replaced"]


def run_text(answer: RunAnswer) -> list[str]:
    parts = [answer.stdout.rstrip("\n")]
    if answer.stderr:
        parts += ["[stderr]", answer.stderr.rstrip("\n")]
    parts.append(f"[{_ending(answer)} after {answer.duration_ms:.0f} ms; exec {answer.exec}]")
    if answer.truncated:
        written = f"{answer.stdout_bytes} bytes of stdout and {answer.stderr_bytes} of stderr"
        parts.append(
            f"[cut: it wrote {written}. All of it is on the log under its exec id; "
            "to see the rest here, run it again with `> FILE 2>&1`, then `read` or `grep` that file]"
        )
    return ["\n".join(part for part in parts if part)]


def _ending(answer: RunAnswer) -> str:
    how = "no exit status"
    if answer.exit_code is not None:
        how = f"exit code {answer.exit_code}"
    elif answer.signal is not None:
        how = f"ended by signal {answer.signal}"
    return how if answer.outcome == "completed" else f"{answer.outcome}: {answer.cause}; {how}"


def failure_text(failure: Failure) -> str:
    again = "may be tried again" if failure.retryable else "do not retry as it is"
    return f"{failure.code} ({again}): {failure.message}"
