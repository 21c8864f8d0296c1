"""From a claim and its evidence to the sums that inference resamples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from prereg.errors import EvidenceError
from prereg.evidence import Evidence
from prereg.inference import BootstrapPlan, Outcome, decide_some
from prereg.protocol import Hypothesis
from prereg.study.frames import Frame, frame_of, questions
from tests.study.made_up import claim, contrast

PROMPTS, N_LAYERS = 24, 8
SETS = {"late": (4, 5, 6, 7), "mid": (4,), "two": (6, 7)}


def frame(columns: Mapping[str, np.ndarray], updates: tuple[int, ...] = SETS["late"]) -> Frame:
    """Return a frame of two prompts a subject; columns are (PROMPTS, len(updates))."""
    rows = [(p, u) for p in range(PROMPTS) for u in updates]
    table = pa.table(
        {
            "prompt": [f"p{p:02d}" for p, _ in rows],
            "subject": [f"s{p // 2:02d}" for p, _ in rows],
            "relation": ["r"] * len(rows),
            "template": ["t"] * len(rows),
            "update": pa.array([u for _, u in rows], pa.int16()),
            **{name: np.broadcast_to(v, (PROMPTS, len(updates))).ravel() for name, v in columns.items()},
        }
    )
    return frame_of(Evidence(table), "made up")


def theta(frames: Mapping[str, Frame], asked: Hypothesis) -> list[float]:
    return [float(q.table.ratios() @ q.weights) for q in questions(asked, frames, SETS, N_LAYERS)]


def test_a_value_is_averaged_over_the_prompts_it_speaks_of() -> None:
    """Two prompts of 24 are spoken of; the others add nothing, above the line or below."""
    cases = np.zeros((PROMPTS, 1))
    cases[[3, 10]] = 1.0
    value = cases * 0.5
    frames = {"model": frame({"value.f": value, "cases.f": cases}, SETS["mid"])}
    assert theta(frames, claim(contrast((1.0, "f"), updates="mid"))) == [0.5]


def test_a_value_without_cases_speaks_of_all(rng: np.random.Generator) -> None:
    """The mean over prompts of each update, then over updates; negative values are values too."""
    value = rng.standard_normal((PROMPTS, 4))
    assert theta({"model": frame({"value.f": value})}, claim(contrast((2.0, "f")))) == pytest.approx(
        [2.0 * value.mean()]
    )


def test_terms_of_values_and_of_squared_errors_add_up(rng: np.random.Generator) -> None:
    """A mean, and an R2 against its own denominators, in one contrast."""
    value, sse, sst = rng.standard_normal((PROMPTS, 4)), *rng.uniform(1, 2, (2, PROMPTS, 4))
    frames = {"model": frame({"value.f": value, "sse.g": sse, "sst": sst})}
    r2 = float((1.0 - sse.sum(axis=0) / sst.sum(axis=0)).mean())
    assert theta(frames, claim(contrast((1.0, "f"), (-1.0, "g")))) == pytest.approx([value.mean() - r2])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value.f": np.ones((PROMPTS, 4)), "cases.f": np.zeros((PROMPTS, 4))}, "has a value where it is 0"),
        ({"value.f": np.ones((PROMPTS, 4)), "cases.f": np.full((PROMPTS, 4), 0.5)}, "not 0 or 1"),
        ({"value.f": np.full((PROMPTS, 4), np.nan)}, "NaN"),
        ({"value.g": np.ones((PROMPTS, 4))}, "no column 'value.f'"),
        (
            {"value.f": np.zeros((PROMPTS, 4)), "cases.f": np.zeros((PROMPTS, 4))},
            "no held-out prompt speaks of",
        ),
    ],
)
def test_a_value_that_says_nothing_clear_is_an_error(columns: dict[str, np.ndarray], message: str) -> None:
    """Not a number, a case that is half one, a value beside the point, a fit that isn't there."""
    with pytest.raises(EvidenceError, match=message):
        theta({"model": frame(columns)}, claim(contrast((1.0, "f"))))


def test_a_pattern_stands_for_every_candidate(rng: np.random.Generator) -> None:
    """One contrast for each, its own companion subtracted; the order is that of the names."""
    names = [f"value.feature_{i:03d}{end}" for i in range(3) for end in ("", "_random")]
    columns = {name: rng.standard_normal((PROMPTS, 1)) for name in names}
    columns["value.feature_all"] = np.full((PROMPTS, 1), 99.0)
    asked = claim(
        contrast((1.0, "feature_*"), (-1.0, "feature_*_random"), label="feature", updates="mid"),
        quantifier="some",
    )
    frames = {"model": frame(columns, SETS["mid"])}
    found = questions(asked, frames, SETS, N_LAYERS)
    assert [q.label for q in found] == ["feature 000", "feature 001", "feature 002"]
    expected = [columns[n].mean() - columns[f"{n}_random"].mean() for n in names[::2]]
    assert theta(frames, asked) == pytest.approx(expected)


def test_a_candidate_without_its_companion_is_an_error() -> None:
    """Dropping it would drop it from the family that is corrected for."""
    one = np.ones((PROMPTS, 1))
    frames = {
        "model": frame({"value.f_0": one, "value.f_1": one, "value.f_0_random": one}, SETS["mid"]),
    }
    asked = claim(contrast((1.0, "f_*"), (-1.0, "f_*_random"), updates="mid"), quantifier="some")
    with pytest.raises(EvidenceError, match="same candidates"):
        theta(frames, asked)


def test_a_pattern_that_fits_nothing_is_an_error() -> None:
    """Of no candidates none exceeds anything, which would look like a null."""
    frames = {"model": frame({"value.g": np.ones((PROMPTS, 1))}, SETS["mid"])}
    with pytest.raises(EvidenceError, match="no candidate"):
        theta(frames, claim(contrast((1.0, "f_*"), updates="mid"), quantifier="some"))


def test_a_candidate_that_no_prompt_has_is_named(rng: np.random.Generator) -> None:
    """It can be neither shown nor bounded, and leaving it out would shrink the family unseen."""
    one = rng.standard_normal((PROMPTS, 1))
    columns = {"value.f_0": one, "cases.f_0": np.ones_like(one), "value.f_1": 0 * one, "cases.f_1": 0 * one}
    asked = claim(contrast((1.0, "f_*"), label="f", updates="mid"), quantifier="some")
    with pytest.raises(EvidenceError, match="f 1: no held-out prompt") as caught:
        questions(asked, {"model": frame(columns, SETS["mid"])}, SETS, N_LAYERS)
    assert "more subjects" in str(caught.value.remedy)


def test_an_error_does_not_list_hundreds_of_columns() -> None:
    """A dozen names show what kind of table it is."""
    columns = {f"value.f_{i}": np.ones((PROMPTS, 1)) for i in range(40)}
    with pytest.raises(EvidenceError, match="and 28 more"):
        theta({"model": frame(columns, SETS["mid"])}, claim(contrast((1.0, "g"), updates="mid")))


def test_a_planted_candidate_is_found_and_named(rng: np.random.Generator) -> None:
    """The seventh of twelve has an effect; the rest has none."""
    columns = {f"value.f_{i:02d}": rng.normal(1.0 * (i == 6), 0.2, (PROMPTS, 1)) for i in range(12)}
    asked = claim(contrast((1.0, "f_*"), label="f", updates="mid"), quantifier="some")
    found = questions(asked, {"model": frame(columns, SETS["mid"])}, SETS, N_LAYERS)
    plan = BootstrapPlan(found[0].table.n_units, 2_000, 7)
    decision = decide_some([(q.table, q.weights) for q in found], plan, 0.1, "greater", 0.95)
    assert decision.outcome is Outcome.SUPPORTED
    assert found[decision.best].label == "f 06"


def test_a_trend_is_the_slope_over_the_whole_depth() -> None:
    """A value that rises by 0.3 from one update to the next rises by 0.3 L over the depth, whatever its level."""
    rise = 5.0 + 0.3 * np.arange(4.0)[None, :] + np.linspace(-1, 1, PROMPTS)[:, None]
    frames = {"model": frame({"value.f": rise})}
    assert theta(frames, claim(contrast((1.0, "f"), over="trend"))) == pytest.approx([0.3 * N_LAYERS])


def test_a_trend_of_a_difference_is_the_difference_of_trends(rng: np.random.Generator) -> None:
    """Also where the two have denominators of their own."""
    sse, sst, value = *rng.uniform(1, 2, (2, PROMPTS, 4)), rng.standard_normal((PROMPTS, 4))
    frames = {"model": frame({"sse.g": sse, "sst": sst, "value.f": value})}
    one, other, both = (
        theta(frames, claim(contrast(*terms, over="trend")))[0]
        for terms in ([(1.0, "f")], [(1.0, "g")], [(1.0, "f"), (-1.0, "g")])
    )
    assert both == pytest.approx(one - other)


def test_two_updates_make_no_trend() -> None:
    """Any two points lie on a line."""
    frames = {"model": frame({"value.f": np.ones((PROMPTS, 2))}, SETS["two"])}
    with pytest.raises(EvidenceError, match="three updates"):
        theta(frames, claim(contrast((1.0, "f"), updates="two", over="trend")))


def test_updates_can_be_the_units(rng: np.random.Generator) -> None:
    """One number an update; the rows of one update are no units of their own."""
    value = rng.standard_normal((PROMPTS, 4))
    asked = claim(contrast((1.0, "f")), unit="update", unit_reason="One dictionary an update.")
    (question,) = questions(asked, {"model": frame({"value.f": value})}, SETS, N_LAYERS)
    assert question.table.units == tuple(f"update {u:03d}" for u in SETS["late"])
    assert question.table.numerator[:, 0] == pytest.approx(value.mean(axis=0))
    assert question.table.n_rows == 4


def test_arms_of_different_prompts_are_not_paired(rng: np.random.Generator) -> None:
    """A difference of arms is paired by prompt, or it is nothing."""
    whole = frame({"value.f": rng.standard_normal((PROMPTS, 4))})
    other = replace(whole, prompts=whole.prompts[::-1], subjects=whole.subjects[::-1])
    asked = claim(
        {
            "label": "c",
            "updates": "late",
            "terms": [{"weight": 1.0, "fit": "f"}, {"weight": -1.0, "fit": "f", "arm": "twin-1"}],
        }
    )
    with pytest.raises(EvidenceError, match="different prompts"):
        theta({"model": whole, "twin-1": other}, asked)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)
