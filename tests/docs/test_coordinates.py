"""The packages that the docs name are those that the tests fetch with Maven."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[2]
POM = "{http://maven.apache.org/POM/4.0.0}"
COORDINATES = re.compile(r"\b((?:org|io)\.[a-z0-9.]+:[a-z][\w.-]*:\d[\w.-]*\w)")
# In the guide, and marked there as not tested.
NOT_TESTED = {"io.delta:delta-spark_4.2_2.13:4.4.0"}


def fetched() -> set[str]:
    """The direct dependencies of the Maven projects in tools/."""
    found = set()
    for file in (ROOT / "tools").glob("*_jars.xml"):
        for each in ET.parse(file).getroot().iter(f"{POM}dependency"):
            found.add(
                ":".join(each.findtext(POM + t, "") for t in ("groupId", "artifactId", "version"))
            )
    return found


def test_the_docs_name_the_packages_that_are_tested() -> None:
    named = set()
    for file in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        named |= set(COORDINATES.findall(file.read_text("utf-8")))
    assert named - NOT_TESTED == fetched()
