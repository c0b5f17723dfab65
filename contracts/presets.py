"""The hosts that a preset of `network.presets` stands for: what its tool asks by default, and nothing besides."""

from collections.abc import Iterable

from contracts.spec import Preset

HOSTS: dict[Preset, tuple[str, ...]] = {
    Preset.PIP: ("pypi.org", "files.pythonhosted.org"),
    Preset.NPM: ("registry.npmjs.org",),
    Preset.APT: (
        "deb.debian.org", "security.debian.org", "archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com",
    ),
    Preset.CARGO: ("index.crates.io", "static.crates.io", "crates.io"),
    Preset.GO: ("proxy.golang.org", "sum.golang.org"),
    Preset.GIT_GITHUB: ("github.com", "codeload.github.com", "objects.githubusercontent.com"),
}  # fmt: skip


def hosts_of(presets: Iterable[Preset]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for preset in presets for host in HOSTS[preset]))
