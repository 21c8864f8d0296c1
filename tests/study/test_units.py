"""What is resampled: subjects, subjects crossed with templates, or subjects within relations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from prereg.errors import ProtocolError
from prereg.evidence import Evidence
from prereg.inference import Outcome, WeightPlan, crossed, mean, weighted_intervals
from prereg.protocol import Inference, read_protocol
from prereg.study.frames import Frame, frame_of, questions
from prereg.study.records import ClaimResult
from prereg.study.settling import settle
from tests.study.made_up import claim, contrast

SUBJECTS, TEMPLATES = 30, 12
GOOD = Path(__file__).parents[1] / "data" / "protocol.toml"


def frame(effects: np.ndarray, relations: int = 1) -> Frame:
    """Return every subject in every template; effects are (SUBJECTS, TEMPLATES). A relation has its own templates."""
    cells = [(s, t) for s in range(SUBJECTS) for t in range(TEMPLATES)]
    return frame_of(
        Evidence(
            pa.table(
                {
                    "prompt": [f"p{s:02d}-{t:02d}" for s, t in cells],
                    "subject": [f"s{s:02d}" for s, _ in cells],
                    "relation": [f"r{s % relations:02d}" for s, _ in cells],
                    "template": [f"t{t:02d}" for _, t in cells],
                    "update": pa.array([0] * len(cells), pa.int16()),
                    "value.f": effects.ravel(),
                }
            )
        ),
        "made up",
    )


def spec(unit: str) -> Inference:
    return Inference.model_validate(
        {
            "unit": unit,
            "unit_reason": "Made up for a test.",
            "level": 0.95,
            "equivalence_alpha": 0.05,
            "interval": "expanded_percentile",
            "sensitivity": ["percentile", "delta_t"],
            "replicates": 2_000,
            "studentized_replicates": 1_000,
            "seed": 5,
            "minimum_units": 10,
            "rationale": "Made up for a test.",
        },
        strict=False,
    )


CLAIM = claim(contrast((1.0, "f"), updates="all"))


def settled(effects: np.ndarray, unit: str, relations: int = 1) -> ClaimResult:
    one = frame(effects, relations)
    asked = questions(CLAIM, {"model": one}, {"all": (0,)}, 1)
    return settle("H", CLAIM, asked, one, spec(unit), 0.95)


@pytest.fixture
def effects() -> np.ndarray:
    """What templates do is large, what subjects do small: subjects alone seem to tell much."""
    rng = np.random.default_rng(11)
    return 0.15 + rng.normal(0, 0.05, (SUBJECTS, 1)) + rng.normal(0, 0.6, (1, TEMPLATES))


def test_templates_that_differ_widen_a_crossed_interval(effects: np.ndarray) -> None:
    """Another dozen templates could have said otherwise; resampling subjects alone can't know."""
    narrow, wide = settled(effects, "subject"), settled(effects, "subject_by_template")
    assert narrow.estimate == pytest.approx(wide.estimate, abs=1e-12)
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
    assert wide.outcome is Outcome.INCONCLUSIVE


def test_a_crossed_interval_is_that_of_the_pigeonhole_bootstrap(effects: np.ndarray) -> None:
    """The same draws, the same statistic, asked directly."""
    one = frame(effects)
    plan = WeightPlan(crossed(one.subjects, one.templates), n_replicates=2_000, seed=5)
    found = weighted_intervals(mean(effects.ravel()), plan, 0.95, methods=("expanded_percentile",))
    interval = found.interval("expanded_percentile", 0.95)
    result = settled(effects, "subject_by_template")
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_units_are_counted_by_the_scarcer_side(effects: np.ndarray) -> None:
    """Twelve templates of thirty subjects are twelve units; so are twelve relations."""
    assert settled(effects, "subject_by_template").contrasts[0].n_units == 12
    assert settled(effects, "subject_in_relation", relations=12).contrasts[0].n_units == 12


def walk(rng: np.random.Generator, n: int, carried: float) -> np.ndarray:
    """Return a stationary series whose neighbours are alike, about 0."""
    values = [float(rng.standard_normal()) / np.sqrt(1 - carried**2)]
    for _ in range(n - 1):
        values.append(carried * values[-1] + float(rng.standard_normal()))
    return np.array(values)


def of_updates(series: np.ndarray, block_length: float | None) -> ClaimResult:
    """Settle a claim about the mean over updates, of which each has one number."""
    table = pa.table(
        {
            "prompt": ["p0"] * len(series), "subject": ["s0"] * len(series), "relation": ["r0"] * len(series),
            "template": ["t0"] * len(series), "update": pa.array(range(len(series)), pa.int16()), "value.f": series,
        }
    )  # fmt: skip
    one = frame_of(Evidence(table), "made up")
    more = {} if block_length is None else {"block_length": block_length}
    asked_of = claim(
        contrast((1.0, "f"), updates="all"), unit="update", unit_reason="The claim is about depth.", **more
    )
    asked = questions(asked_of, {"model": one}, {"all": tuple(range(len(series)))}, len(series))
    return settle("H", asked_of, asked, one, spec("subject"), 0.95)


def test_neighbours_that_are_alike_widen_the_interval_of_blocks() -> None:
    """Drawn one by one, updates that resemble their neighbours seem to tell more than they do."""
    series = walk(np.random.default_rng(4), 200, 0.8)
    alone, together = of_updates(series, None), of_updates(series, 10.0)
    assert together.high - together.low > 1.8 * (alone.high - alone.low)
    assert together.contrasts[0].n_units == 20
    assert together.estimate == pytest.approx(alone.estimate, abs=1e-12)


def test_blocks_cover_the_truth_where_single_updates_do_not() -> None:
    """Of 120 series about 0, neighbours carrying 0.7, the interval should hold 0 in most."""
    rng = np.random.default_rng(5)
    series = [walk(rng, 96, 0.7) for _ in range(120)]
    held = {
        length: np.mean(
            [found.low <= 0.0 <= found.high for found in (of_updates(one, length) for one in series)]
        )
        for length in (None, 8.0)
    }
    assert held[8.0] > 0.8
    assert held[None] < 0.7


def test_too_few_blocks_are_no_answer() -> None:
    """Twenty-four updates in blocks of four are six units, whatever they say."""
    found = of_updates(np.full(24, 5.0) + walk(np.random.default_rng(6), 24, 0.5), 4.0)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "6" in found.reason


def test_a_model_too_shallow_for_two_blocks_is_no_answer_either() -> None:
    """A protocol serves models of any depth: one claim that can't be asked here leaves the others alone."""
    found = of_updates(np.full(24, 5.0) + walk(np.random.default_rng(6), 24, 0.5), 15.0)
    assert found.outcome is Outcome.INCONCLUSIVE


def test_relations_that_differ_widen_a_nested_interval() -> None:
    """Subjects of one relation share what that relation does."""
    of_relation = np.random.default_rng(12).normal(0, 0.6, 12)
    effects = np.tile(of_relation[np.arange(SUBJECTS) % 12][:, None], (1, TEMPLATES))
    narrow, wide = (settled(effects, unit, relations=12) for unit in ("subject", "subject_in_relation"))
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)


@pytest.mark.parametrize(
    ("replacements", "message"),
    [
        (
            [('unit = "subject"\nunit_reason', 'unit = "subject_by_template"\nunit_reason')],
            "no studentized interval",
        ),
        ([('unit = "subject"\nunit_reason', 'unit = "answer"\nunit_reason')], "inference.unit"),
        (
            [
                ('unit = "subject"\nunit_reason', 'unit = "subject_in_relation"\nunit_reason'),
                ('"studentized", ', ""),
                ("threshold = 0.1\n", 'threshold = 0.1\nquantifier = "some"\n'),
            ],
            "resamples subjects",
        ),
    ],
)
def test_a_unit_that_has_no_such_method_is_refused(
    tmp_path: Path, replacements: list[tuple[str, str]], message: str
) -> None:
    """Before anything is measured, with the key and the way out."""
    text = GOOD.read_text("utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new, 1)
    (tmp_path / "protocol.toml").write_text(text)
    with pytest.raises(ProtocolError, match=message):
        read_protocol(tmp_path)
