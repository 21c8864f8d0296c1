"""The page: whole, self-contained, inert where it quotes, and worded by the audit."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from prereg.report.figures import ReportError
from prereg.report.figures.drawing import Drawn
from prereg.report.page import Content, gather, render
from prereg.report.page import rendering as rendering_module
from prereg.report.page.recorded import read_document
from tests.report.page.audits import FOLDER, REPORTS, ROOT, own_audit, tried

FIGURE = Drawn("gates", "Every gate", "What it shows.", None, b"<svg/>", b"")


def content(status: Any = "verified", **changes: Any) -> Content:
    report = dataclasses.replace(own_audit(status), **changes)
    return gather(FOLDER, REPORTS, report, [FIGURE], root=ROOT)


@pytest.fixture(scope="module")
def page() -> str:
    """Return the page of the project's own study, as a verified audit has it."""
    return render(content()).decode()


def words(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_its_headline_counts_what_was_withdrawn() -> None:
    """The page begins with the badge's words, and a hypothesis that was taken back is among them."""
    report = own_audit()
    last = report.thresholds[-1]
    gone = dataclasses.replace(last, state="withdrawn")
    verdicts = tuple(row for row in report.verdicts if row.hypothesis != last.hypothesis)
    found = content(thresholds=(*report.thresholds[:-1], gone), verdicts=verdicts)
    total = len(report.thresholds)
    assert f"hypotheses, 2 models: {total - 1} of {total} tested" in words(render(found).decode())


def test_it_names_the_models_that_it_leaves_out(page: str) -> None:
    """By the attempts and by the reports that are there; and its frame isn't that of a verified study."""
    assert "Not the whole study" not in words(page)
    assert 'class="status s-verified"' in page
    report = dataclasses.replace(own_audit(), attempts=tried("pythia-tiny", "gpt2-small"))
    found = gather(FOLDER, REPORTS, report, root=ROOT, others=["smollm2-135m", "other"])
    text = render(found).decode()
    assert "hypotheses, 2 of 4 models" in words(text)
    assert "leaves out: gpt2-small, other." in words(text)
    assert 'class="status s-partial"' in text
    assert found.command.endswith("--model pythia-tiny --model smollm2-135m")


def test_it_tells_what_a_reviewer_asks(page: str) -> None:
    """Claim, estimand, threshold, rationale, intervals, controls, attempts, amendments, digests, evidence."""
    said = words(page)
    for h in content().hypotheses:
        for part in (h.promise.claim, h.promise.estimand, h.promise.rationale):
            assert part in said
    for part in (
        "+0.506",
        "[+0.469, +0.550]",
        "0001.json",
        "shuffled history is null",
        "a" * 64,
        "365 of 365 prompts",
    ):
        assert part in said
    methods = ("studentized", "delta t", "percentile", "basic", "bca")
    assert all(f">{method}</th>" in page for method in methods)
    assert page.count('class="verdict v-supported"') > 0


def test_the_policy_names_the_very_style_and_script(page: str) -> None:
    """Their digests are those of the characters between the tags, and nothing else is allowed."""
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1])  # type: ignore[index]
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_it_loads_nothing_and_styles_nothing_inline(page: str) -> None:
    """No address but the page's own; no attribute that the policy would have to allow."""
    assert re.findall(r"https?://", page) == []
    assert re.findall(r'\s(?:src|href)="(?!#|data:image/svg)', page) == []
    assert re.findall(r'<[a-z][^>]*\s(?:style|on[a-z]+)="', page) == []


def test_the_same_content_gives_the_same_bytes(page: str) -> None:
    """No time of day, no order of a set."""
    assert render(content()).decode() == page


def test_ids_are_distinct_and_every_link_leads_somewhere(page: str) -> None:
    """A reader who follows a link arrives."""
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


@pytest.mark.parametrize(("status", "word"), [("unverified", "unverified"), ("violation", "tampered")])
def test_it_is_never_greener_than_the_audit(status: Any, word: str) -> None:
    """Where the audit isn't verified, every verdict is so worded, and what an interval says stands in brackets."""
    page = render(content(status)).decode()
    assert set(re.findall(r'class="verdict (v-[a-z_]+)"', page)) == {f"v-{word}"}
    assert "(the interval alone: supported)" in page
    assert f"status s-{status}" in page


def test_foreign_text_is_escaped_wherever_it_stands() -> None:
    """Claims, labels, findings, amendments: what looks like markup is text."""
    evil = "\"'><script>alert(1)</script>&amp;"
    report = own_audit()
    thresholds = tuple(
        dataclasses.replace(t, claim=evil, estimand=evil, units=evil) for t in report.thresholds
    )
    page = render(
        content(thresholds=thresholds, study=evil, folder=evil,
                findings=tuple(dataclasses.replace(f, message=evil, details=(evil,)) for f in report.findings),
                amendments=tuple(dataclasses.replace(a, reason=evil, changes=(evil,)) for a in report.amendments))
    ).decode()  # fmt: skip
    assert "<script>alert" not in page
    assert html.unescape(page).count(evil) > 20


def test_a_hypothesis_with_an_odd_name_has_an_id_of_its_own() -> None:
    """Two names that look alike as ids stay two."""
    report = own_audit()
    first = report.thresholds[0]
    names = ("H 1", "H-1", "H&1", "h-1")
    page = render(
        content(thresholds=tuple(dataclasses.replace(first, hypothesis=n) for n in names), verdicts=())
    )
    found = re.findall(r'<article id="([^"]+)"', page.decode())
    assert len(set(found)) == len(names)


def test_embedded_rows_can_not_end_their_element(page: str) -> None:
    """Each block of data is JSON, whole, without a character that HTML would read."""
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page, flags=re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert not set("<>&") & set(block)
        data = json.loads(block)
        assert {len(row) for row in data["rows"]} == {len(data["columns"])}


def test_a_page_beyond_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser is not asked to open what it can't."""
    monkeypatch.setattr(rendering_module, "MAX_PAGE", 1_000)
    with pytest.raises(ReportError, match="more than 1,000"):
        render(content())


def test_without_jinja_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is told with the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ReportError) as found:
        render(content())
    assert found.value.remedy == "pip install 'prereg-gates[report]'"


@pytest.mark.parametrize(
    "broken", ["", "{}", '{"verdicts": [], "model": 1}', '{"model": {"alias": "m"}, "verdicts": [{}]}']
)
def test_a_verdicts_json_that_is_none_is_an_error(tmp_path: Path, broken: str) -> None:
    """It names the file and how to have it back."""
    file = tmp_path / "verdicts.json"
    file.write_text(broken)
    with pytest.raises(ReportError, match=r"verdicts\.json") as found:
        read_document(file)
    assert "prereg verdicts" in str(found.value.remedy)


def test_a_number_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    """NaN is no estimate, and isn't drawn as one."""
    text = (REPORTS / "pythia-tiny" / "verdicts.json").read_text("utf-8")
    file = tmp_path / "verdicts.json"
    file.write_text(re.sub(r'"estimate": [-0-9.e]+', '"estimate": NaN', text, count=1))
    with pytest.raises(ReportError):
        read_document(file)


def test_a_search_and_a_caution_are_told(tmp_path: Path) -> None:
    """Where one contrast is enough each has its adjusted p; what the analysis warns of stands beside the verdict."""
    file = REPORTS / "pythia-tiny" / "verdicts.json"
    document = json.loads(file.read_text("utf-8"))
    record = document["verdicts"][0]
    adjusted = [0.04321, *[0.5] * (len(record["contrasts"]) - 1)]
    record |= {
        "search": {"adjusted_p": adjusted, "bound": 0.7, "mde": None},
        "cautions": ["few clusters"],
        "unit": "update",
        "answer": "refuted",
        "n_subjects": 26,
    }
    place = tmp_path / "delta_stream" / "pythia-tiny"
    place.mkdir(parents=True)
    (place / "verdicts.json").write_text(json.dumps(document), "utf-8")
    said = words(render(gather(FOLDER, place.parent, own_audit(), root=tmp_path)).decode())
    for part in ("0.0432", "few clusters", "26 updates", "heaviest update", "None lies beyond +0.700"):
        assert part in said


@pytest.mark.parametrize(("low", "said"), [(0.2601, "+0.2601"), (0.26, "+0.260"), (0.3, "+0.300")])
def test_a_bound_is_never_rounded_onto_its_threshold(low: float, said: str) -> None:
    """0.2601 promised above 0.26 is not shown as 0.260."""
    report = own_audit()
    rows = tuple(dataclasses.replace(v, low=low) if v.hypothesis == "H1" else v for v in report.verdicts)
    assert f"[{said}, " in render(content(verdicts=rows)).decode()
