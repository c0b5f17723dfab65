"""The README's programs run as they stand, and every command in the documentation is one."""

import asyncio
import itertools
import os
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.services.node import ROOT, node_in

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


async def test_the_python_example_runs_and_prints_what_a_reader_expects(tmp_path: Path) -> None:
    (program,) = python_blocks()
    async with node_in(tmp_path):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "CLOCHE_DATA": str(tmp_path), "CLOCHE_ISOLATION": "local"},
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    lines = out.decode().splitlines()
    assert lines[0] == "b'hello\\n' 3"
    told = [line.split()[1] for line in lines[1:]]
    lives = [tag for tag in told if tag.startswith("sandbox.")]
    assert lives[:3] == ["sandbox.creating", "sandbox.created", "sandbox.started"]
    assert "command.completed" in told


def shell_lines(path: Path) -> list[list[str]]:
    """What follows `cloche` in every line of its examples."""
    text = path.read_text().replace("\\\n", " ")
    blocks = re.findall(r"```(?:sh|console)?\n(.*?)```", text, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += [line[4:] for line in text.splitlines() if line.startswith("    cloche ") and not line.endswith("&")]
    found = (re.match(r"(?:\w+=\$\()?(?:\./)?cloche ([^:].*)", line) for line in lines)
    return [shlex.split(match[1].replace(")", " "), comments=True) for match in found if match]


@cache
def help_of(*command: str) -> str:
    said = Shell(ROOT / "nowhere")(*command, "--help")
    assert said.code == 0, said.err
    return said.out.decode()


def check(words: list[str]) -> None:
    """Fails where a command, or an option of it, is none of ours."""
    name, *rest = words
    told = "" if name.startswith("-") else help_of(name)
    if "\nCommands:" in told and rest and not rest[0].startswith("-"):
        name, *rest = rest
        told = help_of(words[0], name)
    for word in itertools.takewhile(lambda word: word != "--", rest):
        letters = [f"-{letter}" for letter in word[1:]] if re.fullmatch(r"-[a-z]+", word) else []
        for option in letters or re.findall(r"--[a-z][a-z-]*", word)[: word.startswith("--")]:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", told), f"{' '.join(words)}: {option}"


@pytest.mark.parametrize("path", [README, *PAGES], ids=lambda path: path.stem)
def test_every_command_in_the_examples_is_one_with_these_options(path: Path) -> None:
    for words in shell_lines(path):
        check(words)


def links(page: Path) -> list[tuple[Path, str]]:
    """What it links to in this repository, with the heading."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    parted = (link.partition("#") for link in found if "://" not in link)
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in parted]


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda path: path.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = [f"{path}#{anchor}" for path, anchor in links(page) if not path.exists()]
    dead += [f"{path}#{anchor}" for path, anchor in links(page) if anchor and anchor not in headings(path)]
    assert dead == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    left = [README]
    while left:
        page = left.pop()
        if page in reached:
            continue
        reached.add(page)
        left += sorted(page.glob("*.md")) if page.is_dir() else []
        left += [path for path, _ in links(page)] if page.suffix == ".md" else []
    assert [page for page in PAGES if page not in reached] == []
