"""The dashboard's files, and what is said without them."""

from pathlib import Path

import pytest

from contracts.errors import NotFound
from services.gateway.static import Pages
from tests.gateway.access.rig import door_in, nobody

ASSET = "assets/index-B1a2c3d4.js"


def built(place: Path) -> Path:
    dist = place / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<!doctype html><title>Cloche</title>")
    (dist / ASSET).write_text("export {}")
    (place / "secret.txt").write_text("secret")
    (dist / "link.txt").symlink_to(place / "secret.txt")
    return dist


async def test_pages_and_files_are_served_with_the_caching_that_fits_them(tmp_path: Path) -> None:
    dist = built(tmp_path)
    async with door_in(tmp_path / "data", f"dashboard = '{dist}'") as gateway, nobody(gateway) as browser:
        index = await browser.get("/")
        assert (index.status_code, index.headers["cache-control"]) == (200, "no-cache")
        assert index.headers["content-type"].startswith("text/html")
        same = await browser.get("/", headers={"if-none-match": index.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        for path in ("/sandboxes/sb-1", "/sandboxes/sb-1/"):
            assert (await browser.get(path)).text == index.text
        asset = await browser.get(f"/{ASSET}")
        assert "immutable" in asset.headers["cache-control"]
        assert asset.headers["content-type"].startswith("text/javascript")
        assert (await browser.head(f"/{ASSET}")).status_code == 200
        for path in ("/assets/gone.js", "/favicon.ico", "/api/v2/x", "/ws/none", "/link.txt", "/.%2e/secret.txt"):
            missing = await browser.get(path)
            assert missing.status_code in (401, 404), path
            assert missing.text != "secret"
        assert (await browser.post("/")).status_code == 405


async def test_where_it_was_not_built_the_page_says_how(tmp_path: Path) -> None:
    async with door_in(tmp_path, f"dashboard = '{tmp_path}/none'") as gateway, nobody(gateway) as browser:
        page = await browser.get("/")
        assert page.status_code == 503
        assert "./cloche dashboard build" in page.text
        assert "<script" not in page.text
        assert (await browser.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "path", ["../secret.txt", "assets/../../secret.txt", "/../secret.txt", "link.txt", "..\x00/secret.txt", "assets.x"]
)
def test_nothing_outside_of_the_directory_is_found(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotFound):
        Pages(built(tmp_path)).find(path)
