"""What can be said of the dashboard without a browser."""

import json
import re
from pathlib import Path

from services.dashboard import build
from tests.dashboard.tools import needs_node, run

ROOT = Path(build.HERE)
BOUNDS = ROOT / "src" / "api" / "bounds.ts"
OPENAPI = ROOT.parents[1] / "docs" / "openapi.json"


@needs_node
def test_its_types_hold() -> None:
    run("tsc", "--noEmit")


@needs_node
def test_its_pure_parts_do_what_they_say() -> None:
    run("vitest", "run")


def test_nothing_that_a_sandbox_says_can_become_markup() -> None:
    for file in (ROOT / "src").rglob("*.ts*"):
        found = re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", file.read_text()
        )
        assert found is None, f"{file.name}: {found}"


def test_the_lock_file_names_no_place_to_download_from() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_every_picture_of_the_docs_is_there_and_is_one_that_the_tests_make() -> None:
    checkout = ROOT.parents[1]
    pages = (checkout / "README.md", *(checkout / "docs").glob("*.md"))
    named = {name for page in pages for name in re.findall(r"images/(dashboard-[\w-]+\.png)", page.read_text())}
    assert named == {each.name for each in (checkout / "docs" / "images").glob("dashboard-*.png")}
    made = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    for picture in named:
        what = picture.removeprefix("dashboard-").split("-")[0]
        assert re.search(rf'(shot\(page, |named\()"{what}', made), picture


def test_the_bounds_that_it_knows_by_itself_are_those_of_the_specification() -> None:
    known = re.findall(r"(\w+): \{ least: ([\d._]+), most: ([\d._]+), usual: ([\d._]+) \}", BOUNDS.read_text())
    described = json.loads(OPENAPI.read_text())["components"]["schemas"]["Resources"]["properties"]
    assert {name: [float(each) for each in bounds] for name, *bounds in known} == {
        name: [bound["minimum"], bound["maximum"], bound["default"]] for name, bound in described.items()
    }
