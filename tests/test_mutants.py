"""The mutants of `make mutants` match the sources. `make mutants` itself runs them."""

from __future__ import annotations

import pytest
from tests.mutants import MUTANTS, ROOT, Mutant, choose, is_stale


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_applies_to_the_source(mutant: Mutant) -> None:
    assert not is_stale(mutant)
    assert f"\ndef {mutant.test}(" in (ROOT / "tests" / mutant.tests).read_text("utf-8")


def test_the_parts_are_all_mutants() -> None:
    parts = [mutant for number in range(1, 7) for mutant in choose("", (number, 6))]
    assert sorted(parts, key=lambda each: each.name) == sorted(MUTANTS, key=lambda each: each.name)
