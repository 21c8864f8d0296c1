"""Pooling over models: one contrast at a time, nothing silently left out, and tables that follow from the verdicts."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from prereg.errors import StudyError
from prereg.inference import random_effects
from prereg.report import outdated_replication, replication_contents, write_replication
from prereg.report.replication import Replication, replications
from tests.report.records import record


def contrast(
    label: str = "over the null", estimate: float | None = 0.61, se: float | None = 0.015
) -> dict[str, Any]:
    return {"label": label, "updates": [4], "estimate": estimate, "low": 0.0, "high": 1.0, "se": se,
            "largest_influence": 0.05, "degenerate": False, "sensitivity": {}}  # fmt: skip


def on(
    model: str, value: float = 0.61, se: float = 0.015, hypothesis: str = "H1", **changes: Any
) -> dict[str, Any]:
    """Return a registered verdict with one contrast, on evidence of its own."""
    plain = {
        "answer": changes.get("outcome", "supported"),
        "registration": {"status": "registered", "root": "ab" * 32, "reasons": []},
        "evidence": {"kernels.model.parquet": f"digest of {model}"},
        "contrasts": [contrast("over the null", value, se)],
    }
    return record(hypothesis, model, **{**plain, **changes})


def only(records: list[dict[str, Any]]) -> Replication:
    (row,) = replications(records, ("H1",))
    return row


def test_the_mean_is_that_of_the_estimates_and_their_errors() -> None:
    """What is pooled is each model's estimate with its own standard error, at the claim's level."""
    row = only([on("a", 0.6, 0.02), on("b", 0.3, 0.04), on("c", 0.5, 0.01)])
    assert row.pooled == random_effects([0.6, 0.3, 0.5], [0.02, 0.04, 0.01], 0.95)
    assert row.worst
    assert row.not_pooled == ""
    assert [part.left_out for part in row.parts] == ["", "", ""]


def test_the_same_contrast_is_pooled_even_where_another_binds() -> None:
    """The worst contrast of one model is not averaged with another contrast of the next one."""
    records = [
        on("a", contrasts=[contrast("x", 0.1), contrast("y", 0.5)], binds="x"),
        on("b", contrasts=[contrast("y", 0.2), contrast("x", 0.9)], binds="y"),
    ]
    x, y = replications(records, ("H1",))
    assert (x.contrast, y.contrast) == ("x", "y")
    assert [p.estimate for p in x.parts] == [0.1, 0.9]
    assert [p.estimate for p in y.parts] == [0.5, 0.2]
    assert [p.binds for p in x.parts] == [True, False]
    assert (x.worst, y.worst) == (False, True)


@pytest.mark.parametrize(
    ("direction", "worst"), [("greater", "low"), ("less", "high"), ("equivalence", "low")]
)
def test_the_contrast_that_speaks_most_against_the_claim_is_marked(direction: str, worst: str) -> None:
    """The smallest mean for greater, the largest for less, the one farthest from 0 for equivalence."""
    contrasts = [contrast("high", 0.3), contrast("low", -0.5), contrast("middle", 0.1)]
    records = [on(m, direction=direction, contrasts=contrasts) for m in ("a", "b")]
    assert [row.contrast for row in replications(records, ("H1",)) if row.worst] == [worst]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outcome": "invalid"}, "invalid"),
        ({"outcome": "unverified", "answer": "invalid"}, "invalid"),
        ({"contrasts": [contrast("other")]}, "no such contrast"),
        ({"contrasts": [contrast() | {"degenerate": True}]}, "no variation"),
        ({"contrasts": [contrast(se=0.0)]}, "no variation"),
        ({"contrasts": [contrast(se=None)]}, "no variation"),
        ({"contrasts": [contrast(estimate=None)]}, "no estimate"),
    ],
)
def test_what_says_nothing_is_left_out_and_named(changes: dict[str, Any], why: str) -> None:
    """A failed control, no variation or a missing contrast take a model out of the mean, never out of sight."""
    row = replications([on("a"), on("b"), on("c", **changes)], ("H1",))[0]
    assert row.pooled is not None
    assert row.pooled.k == 2
    assert [part.left_out for part in row.parts] == ["", "", why]


def test_a_model_that_was_not_asked_is_named() -> None:
    """A hypothesis without a verdict on one model is shown as not tested there, and speaks against agreement."""
    row = replications([on("a"), on("b"), on("c", hypothesis="H2")], ("H1",))[0]
    assert row.parts[2].outcome == "not_tested"
    assert row.parts[2].left_out == "not tested"
    assert not row.agree
    row = replications([on("a"), on("b")], ("H1",), ("z",))[0]
    assert row.parts[-1].model == "z"
    assert row.parts[-1].outcome == "not_tested"


def test_one_model_is_no_mean() -> None:
    """Where all but one are left out there is nothing to pool, and the reason is said."""
    row = only([on("a"), on("b", outcome="invalid")])
    assert row.pooled is None
    assert row.not_pooled == "only one model to pool (b: invalid)"
    assert not row.worst


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"registration": {"status": "tampered", "reasons": []}, "outcome": "unverified"},
            "tampered with on b",
        ),
        ({"threshold": 0.2}, "not promised the same"),
        ({"direction": "less"}, "not promised the same"),
        ({"estimand": "another"}, "not promised the same"),
        ({"version": "amended"}, "not promised the same"),
        ({"evidence": {"kernels.model.parquet": "digest of a"}}, "two models rest on the same evidence"),
        ({"quantifier": "some"}, "not promised the same"),
    ],
)
def test_nothing_is_pooled_where_it_would_mislead(changes: dict[str, Any], says: str) -> None:
    """Tampering, different promises, and one model under two names give no mean at all."""
    for row in replications([on("a"), on("b", **changes)], ("H1",)):
        assert row.pooled is None
        assert says in row.not_pooled


def test_a_search_has_no_mean() -> None:
    """Feature 3 of one model is not feature 3 of another: where one candidate is enough, the best are only listed."""
    contrasts = [contrast("feature 1", 0.2), contrast("feature 2", 0.4)]
    records = [on(m, quantifier="some", contrasts=contrasts, binds="feature 2") for m in ("a", "b")]
    row = only(records)
    assert row.contrast == ""
    assert row.pooled is None
    assert "each model has its own" in row.not_pooled
    assert [part.estimate for part in row.parts] == [0.4, 0.4]


def test_levels_that_differ_give_the_wider_interval() -> None:
    """Where looks spend alpha, the mean is tested at the strictest of the levels."""
    row = only([on("a", level=0.95), on("b", level=0.99)])
    assert row.pooled is not None
    assert row.pooled.level == 0.99


@pytest.mark.parametrize(
    ("answers", "agree"),
    [
        (("supported", "supported"), True),
        (("refuted", "refuted"), True),
        (("inconclusive", "inconclusive"), False),
        (("supported", "refuted"), False),
        (("supported", "inconclusive"), False),
        (("invalid", "invalid"), False),
    ],
)
def test_agreement_is_one_answer_on_every_model(answers: tuple[str, str], agree: bool) -> None:
    """Two that can't tell don't agree, and neither do two that showed nothing."""
    assert only([on(m, outcome=a) for m, a in zip("ab", answers, strict=True)]).agree is agree


def tables(records: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    found = replication_contents("sample", records, ("H1",))
    return (
        json.loads(found["replication.json"]),
        list(csv.DictReader(io.StringIO(found["replication.csv"].decode()))),
    )


def test_both_tables_hold_everything() -> None:
    """Models, estimates, errors, answers, mean, intervals, heterogeneity, and why to be careful."""
    document, (row,) = tables([on("b", 0.3, 0.04), on("a", 0.6, 0.02, outcome="unverified", answer="supported",
                              registration={"status": "unverified", "reasons": ["x"]})])  # fmt: skip
    pooled = random_effects([0.6, 0.3], [0.02, 0.04], 0.95)
    assert document["models"] == ["a", "b"]
    assert "not independent" in document["caveat"]
    assert document["rows"][0]["pooled"]["mu"] == pytest.approx(pooled.mu, rel=1e-11)
    assert document["rows"][0]["models"][0]["outcome"] == "unverified"
    assert row["models"] == "a; b"
    assert row["outcome"] == "unverified; supported"
    assert row["registration"] == "unverified; registered"
    assert row["answers"] == "supported; supported"
    assert row["agree"] == "true"
    assert row["estimates"] == "0.6; 0.3"
    assert row["errors"] == "0.02; 0.04"
    assert row["binds_on"] == "a; b"
    assert row["k"] == "2"
    for name in ("mu", "low", "high", "tau2", "i2", "dependent_low", "dependent_high"):
        assert float(row[name]) == pytest.approx(getattr(pooled, name), rel=1e-11)
    assert row["prediction_low"] == ""
    assert "two models" in row["caution"]
    assert "not independent" in row["caveat"]


def test_the_order_of_models_changes_no_byte() -> None:
    """Who was named first on the command line leaves no trace."""
    one = replication_contents("s", [on("a", 0.1), on("b", 0.2)], ("H1",))
    other = replication_contents("s", [on("b", 0.2), on("a", 0.1)], ("H1",))
    assert one == other


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "two models are wanted"),
        ([on("a")], "two models are wanted"),
        ([on("a"), on("b", hypothesis="H2")], "not every hypothesis was asked on every model: H1 on b"),
        (
            [on("a"), on("b", outcome="unverified", registration={"status": "tampered", "reasons": []})],
            "tampered",
        ),
    ],
)
def test_half_an_answer_is_never_written(tmp_path: Path, records: list[dict[str, Any]], says: str) -> None:
    """One model, a hypothesis that is missing somewhere, or tampering: an error, and no file."""
    with pytest.raises(StudyError, match=says):
        write_replication(tmp_path, "sample", records, ("H1",))
    assert not list(tmp_path.iterdir())


def test_no_hypotheses_is_an_error(tmp_path: Path) -> None:
    """An empty family replicates nothing."""
    with pytest.raises(StudyError, match="not every hypothesis"):
        write_replication(tmp_path, "sample", [on("a"), on("b")], ())


def test_files_are_written_once(tmp_path: Path) -> None:
    """The same verdicts write the same bytes, and leave a file that holds them alone."""
    records = [on("a"), on("b")]
    files = write_replication(tmp_path, "sample", records, ("H1",))
    assert [file.name for file in files] == ["replication.csv", "replication.json"]
    before = [file.stat().st_mtime_ns for file in files]
    write_replication(tmp_path, "sample", records, ("H1",))
    assert [file.stat().st_mtime_ns for file in files] == before


def test_tables_that_say_otherwise_of_a_model_are_outdated(tmp_path: Path) -> None:
    """Another estimate or word of one model makes them outdated; the same ones, or another model, don't."""
    write_replication(tmp_path, "sample", [on("a"), on("b")], ("H1",))
    assert outdated_replication(tmp_path, [on("a")]) == ()
    assert outdated_replication(tmp_path, [on("c", 0.2)]) == ()
    assert outdated_replication(tmp_path, [on("a", 0.2)]) == ("a", "b")
    assert outdated_replication(tmp_path, [on("b", outcome="refuted")]) == ("a", "b")


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"models": ["a", "b"], "rows": [1]}', b"\xff"])
def test_tables_that_are_none_are_not_outdated(tmp_path: Path, content: bytes | None) -> None:
    """What can't be read is for the audit to name."""
    if content is not None:
        (tmp_path / "replication.json").write_bytes(content)
    assert outdated_replication(tmp_path, [on("a")]) == ()
