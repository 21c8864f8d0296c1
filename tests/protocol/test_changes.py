"""What changed in a promise, and whether it became easier to keep."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prereg.errors import ProtocolError
from prereg.protocol import canonical_json, read_protocol
from prereg.protocol.changes import Change, changes, concerned, substantive
from prereg.protocol.wording import shown

GOOD = Path(__file__).parents[1] / "data" / "protocol.toml"
Data = dict[str, Any]


@pytest.fixture
def old() -> Data:
    """Return the sample promise as canonical plain data."""
    data: Data = json.loads(canonical_json(read_protocol(GOOD).protocol))
    return data


@pytest.fixture
def new(old: Data) -> Data:
    return copy.deepcopy(old)


def only(old: Data, new: Data) -> Change:
    (change,) = changes(old, new)
    return change


def put(data: Data, key: str, value: Any) -> None:
    """Set a dotted key; None deletes it."""
    *parents, last = key.split(".")
    at: Any = data
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if value is None:
        del at[last]
    elif isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value


def test_nothing_changed_is_nothing(old: Data, new: Data) -> None:
    """The same promise differs from itself in no key."""
    assert changes(old, new) == ()


@pytest.mark.parametrize(
    ("key", "value", "effect"),
    [
        ("hypotheses.H1.threshold", 0.05, "looser"),
        ("hypotheses.H1.threshold", 0.2, "stricter"),
        ("hypotheses.H1-order.threshold", 0.05, "looser"),
        ("hypotheses.H1-order.threshold", 0.01, "stricter"),
        ("controls.sane.threshold", 0.5, "looser"),
        ("controls.sane.threshold", 0.01, "stricter"),
        ("hypotheses.H1.direction", "equivalence", "other"),
        ("hypotheses.H1.units", "cosine", "other"),
        ("hypotheses.H1.family", "secondary", "other"),
        ("hypotheses.H1.claim", "History explains nearly all.", "other"),
        ("hypotheses.H1.estimand", "whatever turns out large", "other"),
        ("hypotheses.H1.evidence", "others", "other"),
        ("hypotheses.H1.rationale", "It seemed about right.", "wording"),
        ("hypotheses.H1.permutation", None, "looser"),
        ("hypotheses.H1.permutation.alpha", 0.1, "looser"),
        ("hypotheses.H1.permutation.alpha", 0.01, "stricter"),
        ("hypotheses.H1.permutation.null_fit", "zero", "other"),
        ("hypotheses.H1.permutation.rationale", "A refit shows chance.", "wording"),
        ("inference.level", 0.9, "looser"),
        ("inference.level", 0.99, "stricter"),
        ("inference.equivalence_alpha", 0.1, "looser"),
        ("inference.equivalence_alpha", 0.01, "stricter"),
        ("inference.minimum_units", 5, "looser"),
        ("inference.minimum_units", 20, "stricter"),
        ("prompts.minimum_subjects", 5, "looser"),
        ("prompts.minimum_subjects", 50, "stricter"),
        ("inference.seed", 4, "other"),
        ("inference.interval", "bca", "other"),
        ("inference.unit_reason", "They are not independent.", "wording"),
        ("split.held_out", 0.1, "other"),
        ("twins.seeds", [11, 12, 14], "other"),
        ("prompts.inclusion", "all", "other"),
        ("updates.deep.from_depth", 0.2, "other"),
        ("updates.deep.description", "All but the first few.", "wording"),
        ("analyses.kernels.orders", [1, 2, 3], "other"),
        ("analyses.kernels.share", True, "other"),
        ("facts.worlds.0.path", "elsewhere.csv", "other"),
        ("study.title", "Another title for it", "wording"),
        ("study.name", "another", "other"),
        ("published.H1.verdict", "refuted", "wording"),
        ("format", 2, "other"),
    ],
)
def test_each_kind_of_key_has_its_effect(old: Data, new: Data, key: str, value: Any, effect: str) -> None:
    """Easier to pass is looser; what can't be ordered is other; what nobody decides by is wording."""
    put(new, key, value)
    change = only(old, new)
    assert change.effect == effect
    assert change.words.split(" (")[0].endswith(f", {effect}")
    assert substantive(change) is (effect != "wording")


def test_a_word_that_an_analysis_reads_is_not_wording(old: Data, new: Data) -> None:
    """A key called rationale inside an analysis' settings may decide; only the promise's own are known not to."""
    old["analyses"]["kernels"]["rationale"] = "one"
    new["analyses"]["kernels"]["rationale"] = "two"
    assert only(old, new).effect == "other"


def test_words_are_a_line_a_reviewer_reads(old: Data, new: Data) -> None:
    """Key, old value, new value, effect."""
    put(new, "hypotheses.H1.threshold", 0.05)
    change = only(old, new)
    assert change.words == "hypotheses.H1.threshold: 0.1 -> 0.05, looser"
    assert change.as_record() == {
        "key": "hypotheses.H1.threshold",
        "old": 0.1,
        "new": 0.05,
        "effect": "looser",
        "words": change.words,
    }


def test_looks_and_precision_are_promises_whose_reasons_are_wording(old: Data, new: Data) -> None:
    """How often new data may be looked at counts; why doesn't, nor where an expected precision comes from."""
    for data in (old, new):
        data["inference"]["looks"] = {"planned": 2, "spending": "pocock", "rationale": "Two sites report."}
        data["hypotheses"]["H1-order"]["precision"] = {"standard_error": 0.001, "source": "A pilot's own."}
    put(new, "inference.looks.rationale", "Two sites report to us.")
    put(new, "hypotheses.H1-order.precision.source", "Another pilot's.")
    assert {change.effect for change in changes(old, new)} == {"wording"}
    put(new, "inference.looks.planned", 3)
    put(new, "hypotheses.H1-order.precision.standard_error", 0.002)
    assert [change.effect for change in changes(old, new) if substantive(change)] == ["other", "other"]
    put(new, "inference.looks", None)
    assert "inference.looks: removed, other" in [change.words for change in changes(old, new)]


def test_a_threshold_of_less_is_looser_when_higher(old: Data, new: Data) -> None:
    """The direction decides, not the sign of the step."""
    for data in (old, new):
        put(data, "hypotheses.H1.direction", "less")
    put(new, "hypotheses.H1.threshold", 0.2)
    assert only(old, new).effect == "looser"


def test_a_threshold_whose_direction_changed_says_both(old: Data, new: Data) -> None:
    """It is neither looser nor stricter; a reader is told what it is under each."""
    put(new, "hypotheses.H1.threshold", 0.05)
    put(new, "hypotheses.H1.direction", "less")
    direction, threshold = changes(old, new)
    assert (direction.effect, threshold.effect) == ("other", "other")
    assert "looser as greater, stricter as less" in threshold.words
    assert "direction changed" in threshold.words


def test_a_threshold_in_other_units_is_not_compared(old: Data, new: Data) -> None:
    """0.05 nats is not less than 0.1 of R2."""
    put(new, "hypotheses.H1.threshold", 0.05)
    put(new, "hypotheses.H1.units", "nats")
    assert [change.effect for change in changes(old, new)] == ["other", "other"]


def test_contrasts_are_matched_by_label(old: Data, new: Data) -> None:
    """One put in front is one condition more, and shifts nothing."""
    extra = copy.deepcopy(new["hypotheses"]["H1"]["contrasts"][0]) | {"label": "over zero"}
    new["hypotheses"]["H1"]["contrasts"].insert(0, extra)
    added = only(old, new)
    assert (added.key, added.effect) == ('hypotheses.H1.contrasts."over zero"', "stricter")
    assert (added.old, added.new) == (None, extra)
    removed = only(new, old)
    assert (removed.effect, removed.old, removed.new) == ("looser", extra, None)
    assert removed.words == 'hypotheses.H1.contrasts."over zero": removed, looser (one condition fewer)'


def test_terms_are_shown_as_the_sum_they_are(old: Data, new: Data) -> None:
    """A reviewer reads a formula, not a list of tables."""
    put(new, "hypotheses.H1.contrasts.0.terms.1.weight", -0.5)
    change = only(old, new)
    assert change.key == 'hypotheses.H1.contrasts."over the null".terms'
    assert "history_1 - null -> history_1 - 0.5*null, other" in change.words
    terms = old["hypotheses"]["H1-order"]["contrasts"][0]["terms"]
    assert shown(terms) == 'history_2 - history_1 (arm "twin-3", baseline "global")'


def test_contrasts_in_another_order_are_a_change(old: Data, new: Data) -> None:
    """The digest moved, so something must be named."""
    extra = copy.deepcopy(new["hypotheses"]["H1"]["contrasts"][0]) | {"label": "over zero"}
    old["hypotheses"]["H1"]["contrasts"].append(extra)
    new["hypotheses"]["H1"]["contrasts"].insert(0, extra)
    assert only(old, new).words == "hypotheses.H1.contrasts: in another order, other"


def test_controls_and_sets_of_updates_are_conditions_of_their_own(old: Data, new: Data) -> None:
    """A control fewer is looser, a set more is stricter, each named."""
    put(new, "hypotheses.H1.controls", [])
    put(new, "hypotheses.H1.permutation.updates", ["deep", "band"])
    controls, updates = changes(old, new)
    assert controls.words == 'hypotheses.H1.controls: "sane" removed, looser (one condition fewer)'
    assert updates.words == ('hypotheses.H1.permutation.updates: "band" added, stricter (one condition more)')
    assert (controls.old, controls.new, updates.old, updates.new) == ("sane", None, None, "band")
    again = changes(new, old)
    assert [change.effect for change in again] == ["stricter", "looser"]


@pytest.mark.parametrize("names", [["sane", "sane"], ["sane", "null"], ["null", "sane", "sane"]])
def test_any_difference_between_lists_of_names_is_named(old: Data, new: Data, names: list[str]) -> None:
    """Order and repetition too."""
    put(old, "hypotheses.H1.controls", ["null", "sane"])
    put(new, "hypotheses.H1.controls", names)
    assert changes(old, new)


def test_hypotheses_come_and_go(old: Data, new: Data) -> None:
    """One more is a new chance; one fewer is a promise withdrawn."""
    new["hypotheses"]["H9"] = copy.deepcopy(new["hypotheses"]["H1"])
    assert only(old, new).words == "hypotheses.H9: added, looser (a new chance)"
    assert only(new, old).words == "hypotheses.H9: removed, other (a promise withdrawn)"


def test_control_tables_come_and_go(old: Data, new: Data) -> None:
    """A control that no hypothesis names is none; one fewer is looser."""
    new["controls"]["other"] = copy.deepcopy(new["controls"]["sane"])
    assert only(old, new).effect == "other"
    assert only(new, old).effect == "looser"
    new["hypotheses"]["H1"]["controls"].append("other")
    assert {change.effect for change in changes(old, new)} == {"stricter"}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda d: put(d, "hypotheses.H1.threshold", 0.3), {"H1"}),
        (lambda d: put(d, "controls.sane.threshold", 0.3), {"H1"}),
        (lambda d: put(d, "study.title", "Another title for it"), set()),
        (lambda d: put(d, "published.H1.value", "0.7"), set()),
        (lambda d: put(d, "inference.level", 0.9), {"H1", "H1-order"}),
        (lambda d: put(d, "split.seed", 9), {"H1", "H1-order"}),
        (lambda d: put(d, "analyses.kernels.share", 9), {"H1", "H1-order"}),
        (lambda d: put(d, "updates.band.part", 1), {"H1", "H1-order"}),
        (lambda d: put(d, "hypotheses.H1-order", None), {"H1-order"}),
        (lambda d: put(d, "hypotheses.H1-order.controls", ["sane"]), {"H1-order"}),
    ],
)
def test_a_change_concerns_the_hypotheses_that_lean_on_it(
    old: Data, new: Data, edit: Callable[[Data], None], expected: set[str]
) -> None:
    """Its own, those that name the control, or all."""
    edit(new)
    assert concerned(only(old, new), old, new) == expected


def test_a_control_dropped_together_with_its_name_concerns_who_named_it(old: Data, new: Data) -> None:
    """Who named it before is concerned, though nobody does any more."""
    put(new, "controls.sane", None)
    put(new, "hypotheses.H1.controls", [])
    assert [concerned(change, old, new) for change in changes(old, new)] == [{"H1"}, {"H1"}]


def test_data_of_any_shape_compare(old: Data) -> None:
    """A protocol of an older format, or no protocol at all, is compared key by key."""
    assert {change.key for change in changes({}, old)} >= {"hypotheses.H1", "format", "inference.level"}
    for odd in (
        {"hypotheses": 3, "controls": [1], "facts": {"worlds": 2}},
        {"hypotheses": {"H1": "x", "H2": {"threshold": "1", "contrasts": [1], "controls": {"a": 1}}}},
        {"inference": {"level": "low"}, "hypotheses": {"H1": {"contrasts": [{"label": [1]}]}}},
    ):
        for change in (*changes(old, odd), *changes(odd, old)):
            assert concerned(change, old, odd) <= {"H1", "H1-order", "H2"}
            assert change.words


def test_true_is_not_one(old: Data, new: Data) -> None:
    """Python's equality would hide it."""
    put(old, "analyses.kernels.orders", [1])
    put(new, "analyses.kernels.orders", [True])
    assert only(old, new).words == "analyses.kernels.orders: [1] -> [true], other"


def test_keys_that_are_one_in_normal_form_are_refused(old: Data) -> None:
    """A table with two such keys says two things under one digest."""
    with pytest.raises(ProtocolError, match="normal form"):
        changes(old, {"analyses": {"x": {"é": 1, "e\u0301": 2}}})


def test_what_a_terminal_would_obey_is_escaped(old: Data, new: Data) -> None:
    """Colours, cursor movements and directions come out as escapes."""
    put(new, "hypotheses.H1.claim", "good\x1b[2K\u202e news for all")
    new["analyses"]["a\x1bb"] = {}
    assert all(change.words.isprintable() for change in changes(old, new))


def test_long_text_is_shown_where_it_differs(old: Data, new: Data) -> None:
    """The end of a long sentence can be what changed."""
    put(old, "hypotheses.H1.claim", "word " * 100 + "always")
    put(new, "hypotheses.H1.claim", "word " * 100 + "often")
    line = only(old, new).words
    assert 'always" -> ' in line
    assert 'often", other' in line
    assert len(line) < 200
