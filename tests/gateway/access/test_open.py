"""`cloche open`: the browser of whoever sits there is sent to the page, and let in."""

from pathlib import Path

import httpx

from tests.cli.shell import Shell, up_in

BROWSER = """#!/bin/sh
printf %s "$1" > "$OPENED"
"""


def test_a_browser_is_sent_to_an_address_that_lets_it_in(tmp_path: Path) -> None:
    program, opened = tmp_path / "browser", tmp_path / "opened"
    program.write_text(BROWSER)
    program.chmod(0o755)
    seat = {"DISPLAY": ":7", "BROWSER": f"{program} %s", "OPENED": str(opened)}
    with up_in(tmp_path / "data", CLOCHE_GATEWAY_PORT="0") as cloche:
        said = Shell(cloche.data, CLOCHE_GATEWAY_PORT="0", **seat)("open")
        assert (said.code, said.out.decode().strip()) == (0, opened.read_text())
        assert b"no browser" not in said.err
        assert httpx.get(opened.read_text(), timeout=60).status_code == 303


def test_where_nobody_sits_the_address_is_told_and_no_browser_begun(tmp_path: Path) -> None:
    with up_in(tmp_path / "data", CLOCHE_GATEWAY_PORT="0") as cloche:
        said = Shell(cloche.data, CLOCHE_GATEWAY_PORT="0", DISPLAY="", WAYLAND_DISPLAY="", BROWSER="/bin/false")("open")
        assert (said.code, said.out.startswith(b"http://127.0.0.1:")) == (0, True)
        assert b"open the address in yours" in said.err
