"""What CI systems read of a gate: JUnit XML with the word, the figures and what they are worth."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.end_to_end.sessions import again
from tests.synthetic import make_project, registered_project


def case_of(pytester: pytest.Pytester) -> tuple[ET.Element, dict[str | None, str | None]]:
    """Return H1's case in out.xml, and its properties."""
    cases = ET.parse(pytester.path / "out.xml").getroot().iter("testcase")  # noqa: S314
    case = next(c for c in cases if "order" not in (c.get("name") or "") + (c.get("classname") or ""))
    return case, {p.get("name"): p.get("value") for p in case.iter("property")}


def test_a_registered_claim_passes_with_its_root_and_figures(pytester: pytest.Pytester) -> None:
    """No failure, no skip; the registration that it may be claimed under, and how often data were tried."""
    registered_project(pytester.path)
    assert again(pytester, "--junitxml=out.xml").ret == 0
    case, found = case_of(pytester)
    assert [child.tag for child in case] == ["properties"]
    assert (found["prereg.outcome"], found["prereg.answer"]) == ("supported", "supported")
    assert (found["prereg.registration"], found["prereg.known"]) == ("registered", "none")
    assert len(str(found["prereg.root"])) == 64
    assert found["prereg.attempts"] == "1"


def test_an_unregistered_answer_is_skipped_with_the_word(pytester: pytest.Pytester) -> None:
    """The message of the skip says why nothing may be claimed."""
    make_project(pytester.path)
    again(pytester, "--junitxml=out.xml")
    case, found = case_of(pytester)
    skipped = case.find("skipped")
    assert skipped is not None
    assert str(skipped.get("message")).startswith("UNREGISTERED: H1 on pythia-tiny")
    assert (found["prereg.outcome"], found["prereg.answer"]) == ("unverified", "supported")
    assert (found["prereg.registration"], found["prereg.root"]) == ("unregistered", "")


def test_a_refuted_answer_carries_its_interval(pytester: pytest.Pytester) -> None:
    """Estimate, interval, threshold, direction and units are properties."""
    make_project(pytester.path, effect=0.03)
    again(pytester, "--junitxml=out.xml")
    case, found = case_of(pytester)
    assert case.find("failure") is not None
    assert found["prereg.answer"] == "refuted"
    low, high, threshold = (float(str(found[f"prereg.{n}"])) for n in ("low", "high", "threshold"))
    assert low < high < threshold
    assert (found["prereg.units"], found["prereg.direction"]) == ("R2", "greater")
