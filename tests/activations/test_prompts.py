"""Facts become prompts by rules that don't depend on the model or on order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prereg.activations.facts import Fact, FactSet
from prereg.activations.prompts import Cloze, clozes, select
from prereg.errors import ActivationsError
from prereg.protocol.models import Prompts, Split

PROMPTS = Prompts(
    inclusion="known",
    max_per_template=20,
    minimum_per_template=2,
    minimum_subjects=10,
    seed=1,
    rationale="for tests, small",
)
SPLIT = Split(unit="subject", held_out=0.4, seed=2, rationale="for tests, small")


def rows(n: int = 60, templates: int = 2) -> list[Cloze]:
    return [
        Cloze(Fact("r", f"subject {i}", f"template {t} of {{subject}} is", f"a{i}"), (i, t, 7), i)
        for i in range(n)
        for t in range(templates)
    ]


def all_known(clozed: list[Cloze]) -> np.ndarray:
    return np.array([c.answer_id for c in clozed])


def test_a_prompt_is_known_when_the_top_token_starts_the_answer() -> None:
    """Others are left out and counted."""
    clozed = rows()
    top1 = all_known(clozed)
    top1[:10] += 1
    chosen = select(clozed, top1, PROMPTS, SPLIT)
    assert chosen.status[:10] == ("unknown",) * 10
    assert not set(range(10)) & set(chosen.index.tolist())


def test_no_subject_stands_on_both_sides() -> None:
    """The split is by subject, over templates and relations alike."""
    clozed = rows()
    chosen = select(clozed, all_known(clozed), PROMPTS, SPLIT)
    sides: dict[str, set[bool]] = {}
    for i, out in zip(chosen.index, chosen.held_out, strict=True):
        sides.setdefault(clozed[i].fact.subject, set()).add(bool(out))
    assert all(len(side) == 1 for side in sides.values())
    assert {True, False} == set().union(*sides.values())


def test_order_of_facts_changes_nothing() -> None:
    """The same facts in another order give the same prompts on the same sides."""
    clozed = rows()
    shuffled = [clozed[i] for i in np.random.default_rng(0).permutation(len(clozed))]
    first = select(clozed, all_known(clozed), PROMPTS, SPLIT)
    second = select(shuffled, all_known(shuffled), PROMPTS, SPLIT)

    def named(c: list[Cloze], s: object) -> set[tuple[str, str]]:
        return {(c[i].fact.prompt_id, st) for i, st in enumerate(s.status)}  # type: ignore[attr-defined]

    assert named(clozed, first) == named(shuffled, second)


def test_a_subjects_side_does_not_depend_on_what_else_is_known() -> None:
    """Two models that know different facts hold out the same subjects."""
    clozed = rows()
    everything = select(
        clozed, all_known(clozed), PROMPTS.model_copy(update={"max_per_template": 100}), SPLIT
    )
    less = all_known(clozed)
    less[::3] += 1
    some = select(clozed, less, PROMPTS, SPLIT)
    side = dict(zip(everything.index.tolist(), everything.held_out.tolist(), strict=True))
    assert all(side[i] == out for i, out in zip(some.index.tolist(), some.held_out.tolist(), strict=True))


def test_the_cap_holds_for_each_template() -> None:
    """What exceeds it is counted, not lost."""
    clozed = rows()
    chosen = select(clozed, all_known(clozed), PROMPTS, SPLIT)
    for t in (0, 1):
        assert sum(clozed[i].ids[1] == t for i in chosen.index) == 20
    assert chosen.counts["over_cap"] == 80


def test_a_template_too_thin_on_one_side_is_left_out() -> None:
    """A template mean needs prompts to be taken from."""
    clozed = [
        *rows(),
        *(Cloze(Fact("s", f"subject {i}", "thin {subject} is", "a"), (i,), 5) for i in range(2)),
    ]
    chosen = select(clozed, all_known(clozed), PROMPTS, SPLIT)
    assert chosen.status[-2:] == ("thin_template", "thin_template")


def test_too_few_subjects_is_an_error_with_counts() -> None:
    """Fewer than the protocol's minimum never becomes a study."""
    clozed = rows(12)
    with pytest.raises(ActivationsError, match="the protocol wants 10"):
        select(clozed, all_known(clozed), PROMPTS, SPLIT)


def test_top_tokens_must_fit_the_prompts() -> None:
    """One token too few would shift every prompt's answer."""
    clozed = rows()
    with pytest.raises(ActivationsError, match="for 120 prompts"):
        select(clozed, all_known(clozed)[:-1], PROMPTS, SPLIT)
    with pytest.raises(ActivationsError, match="None"):
        select(clozed, None, PROMPTS, SPLIT)


def fact_set(*facts: Fact) -> FactSet:
    return FactSet(facts, "0" * 64, Path("facts.csv"))


WORDS = ["", "a", "b", " ", "c", "bc"]


def encode(text: str) -> list[int]:
    """A word-level tokenizer, with two oddities: `b c` merges into one token, a blank may stand alone."""
    ids = [WORDS.index(w) for w in text.replace("b c", "bc").replace("_", " ").split() if w in WORDS]
    return ids if not text.endswith("_") else [*ids, 3]


def decode(ids: list[int]) -> str:
    return "".join(WORDS[i] for i in ids)


def test_the_answers_first_token_is_what_continues_the_prompt() -> None:
    """A prompt's own tokens must survive its continuation."""
    good = Fact("r", "a", "{subject} b", "a")
    merged = Fact("r", "b", "a {subject}", "c")
    first, second = clozes(fact_set(good, merged), encode, decode)
    assert (first.ids, first.answer_id) == ((1, 2), 1)
    assert second.answer_id is None


def test_a_token_that_two_answers_share_identifies_neither() -> None:
    """A right guess of it would count as knowing the other answer too; the same answer twice is no harm."""
    facts = [
        Fact("r", s, "{subject} b", answer)
        for s, answer in (("a", "a b"), ("b", "a a"), ("c", "b"), ("a c", "b"))
    ]
    other = Fact("s", "a", "{subject} b b", "a b")
    assert [c.answer_id for c in clozes(fact_set(*facts, other), encode, decode)] == [None, None, 2, 2, 1]


def test_a_tokenizer_that_fits_no_answer_is_an_error() -> None:
    """Then the tokenizer is not this model's."""
    with pytest.raises(ActivationsError, match="every one of 1 answers oddly"):
        clozes(fact_set(Fact("r", "b", "a {subject}", "c")), encode, decode)
