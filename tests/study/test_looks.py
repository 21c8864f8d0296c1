"""Registered looks at new data: each spends its part of alpha, and past the last nothing can be claimed."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.inference import look_alphas
from prereg.protocol import read_protocol
from prereg.report import write_report
from prereg.study import Study, Verdict
from tests.frozen import added, edit, opened, written
from tests.synthetic import REPOSITORY, commit, register, write

LOOKS = """
[inference.looks]
planned = 3
spending = "{spending}"
rationale = "New prompts come in three batches."
"""
PLANNED = 3


def looked(root: Path, spending: str = "pocock", *, freeze: bool = True) -> Path:
    """Write a project that registers three looks; return the study's folder."""
    folder = written(root)
    file = folder / "protocol.toml"
    file.write_text(file.read_text("utf-8") + LOOKS.format(spending=spending), "utf-8")
    commit(root, "Plan the looks")
    if freeze:
        register(root)
        commit(root, "Register")
    return folder


def look(root: Path, batch: int, *, null: float = -0.01, check: bool = True, effect: float = 0.5) -> Study:
    """Bring a batch of data and answer it, as the commands do."""
    study = opened(root)
    registered = study.standing.root
    fits = {"history_1": effect + batch / 1000, "history_2": effect + batch / 1000, "null": null}
    for arm in ("model", "twin-3"):
        write(root, arm, fits, registration=registered, check=check)
    study = opened(root)
    verdicts = study.verdicts()
    study.record_attempt(verdicts)
    write_report(study, verdicts)
    return study


def shares(level: float, spending: str) -> list[float]:
    """Return the two-sided alpha of each look: each of the interval's two bounds is a boundary."""
    return [2.0 * a for a in look_alphas((1.0 - level) / 2.0, PLANNED, spending)]  # type: ignore[arg-type]


def spent(verdict: Verdict) -> tuple[int | None, float | None]:
    attempts = verdict.as_record()["attempts"]
    return attempts["look"], attempts["alpha"]


@pytest.mark.parametrize("spending", ["pocock", "obrien_fleming"])
def test_each_look_has_its_level(tmp_path: Path, spending: str) -> None:
    """For a claim at 0.95, an equivalence at 0.9, and a control, which gets no second chance either."""
    looked(tmp_path, spending)
    for number in range(1, PLANNED + 1):
        study = look(tmp_path, number)
        one, order = study.verdicts()
        assert one.level == pytest.approx(1.0 - shares(0.95, spending)[number - 1], abs=1e-12)
        assert order.level == pytest.approx(1.0 - shares(0.9, spending)[number - 1], abs=1e-12)
        assert spent(one) == (number, pytest.approx(shares(0.95, spending)[number - 1]))
        assert spent(order) == (number, pytest.approx(shares(0.9, spending)[number - 1]))
        assert one.outcome.value == "supported"
        assert f"look {number}, tested at alpha" in one.explain()
    assert sum(shares(0.95, spending)) == pytest.approx(0.05)


def test_the_same_data_are_the_same_look(tmp_path: Path) -> None:
    """A rerun costs nothing and changes no byte; old data that come back are their old look."""
    looked(tmp_path)
    first = look(tmp_path, 1)
    table = first.pipeline.report_folder / "verdicts.json"
    before = table.read_bytes()
    assert spent(look(tmp_path, 1).verdict("H1")) == spent(first.verdict("H1"))
    assert table.read_bytes() == before
    assert spent(look(tmp_path, 2).verdict("H1"))[0] == 2
    assert spent(look(tmp_path, 1).verdict("H1")) == spent(first.verdict("H1"))
    assert len(opened(tmp_path).log.read().entries) == 2


def test_past_the_last_look_nothing_is_claimed(tmp_path: Path) -> None:
    """However clear the interval; the reason says that the alpha is spent."""
    looked(tmp_path)
    for number in range(1, PLANNED + 1):
        look(tmp_path, number)
    verdict = look(tmp_path, 4).verdict("H1")
    assert verdict.result.low > 0.4
    assert (verdict.outcome.value, verdict.claimed) == ("inconclusive", "inconclusive")
    assert verdict.reason.startswith("look 4: the registered alpha is spent")
    assert spent(verdict) == (None, None)
    assert look(tmp_path, 5).verdict("H1").reason.startswith("look 5:")
    assert look(tmp_path, 3).verdict("H1").outcome.value == "supported"


def test_past_the_last_look_a_refutation_is_not_claimed_either(tmp_path: Path) -> None:
    """Spent is spent, on both sides."""
    looked(tmp_path)
    for number in range(1, PLANNED + 1):
        look(tmp_path, number)
    assert look(tmp_path, 4, effect=0.02).verdict("H1").outcome.value == "inconclusive"


@pytest.mark.parametrize("trouble", ["control", "check"])
def test_invalid_stays_invalid(tmp_path: Path, trouble: str) -> None:
    """What speaks against the measurement speaks before the alpha does."""
    looked(tmp_path)
    for number in range(1, PLANNED + 1):
        look(tmp_path, number)
    study = look(tmp_path, 4, null=0.2) if trouble == "control" else look(tmp_path, 4, check=False)
    assert study.verdict("H1").outcome.value == "invalid"


def test_the_log_records_each_look(tmp_path: Path) -> None:
    """Look and alpha, for each hypothesis; none past the last."""
    looked(tmp_path)
    for number in range(1, PLANNED + 2):
        look(tmp_path, number)
    entries = opened(tmp_path).log.read().entries
    assert [e.looks["H1"].look if e.looks else None for e in entries] == [1, 2, 3, None]
    assert [e.looks["H1"].alpha for e in entries if e.looks] == pytest.approx(shares(0.95, "pocock"))


def test_a_look_while_unverified_is_a_look(tmp_path: Path) -> None:
    """A stray file doesn't make looking free: the data were seen."""
    folder = looked(tmp_path)
    (folder / "notes.txt").write_text("")
    assert spent(look(tmp_path, 1).verdict("H1"))[0] == 1
    (folder / "notes.txt").unlink()
    commit(tmp_path, "Tidy up")
    study = look(tmp_path, 2)
    assert study.standing.is_registered
    assert spent(study.verdict("H1"))[0] == 2


def test_looks_before_an_amendment_count(tmp_path: Path) -> None:
    """A new root is no new alpha."""
    folder = looked(tmp_path)
    look(tmp_path, 1)
    commit(tmp_path, "Look")
    edit(folder / "protocol.toml", "A tenth is the least worth reporting.", "A tenth is worth a report.")
    added(tmp_path, "H1", known="full", statement="The first look was supported.")
    assert spent(look(tmp_path, 2).verdict("H1"))[0] == 2


def test_more_looks_planned_after_the_fact_do_not_lead(tmp_path: Path) -> None:
    """The original promise's alpha is spent, and it leads."""
    folder = looked(tmp_path)
    for number in range(1, PLANNED + 1):
        look(tmp_path, number)
    commit(tmp_path, "Look three times")
    edit(folder / "protocol.toml", "planned = 3", "planned = 8")
    added(tmp_path, "inference", known="full", statement="All three looks were inconclusive.")
    verdict = look(tmp_path, 4).verdict("H1")
    assert (verdict.version, verdict.outcome.value) == ("original", "inconclusive")
    assert "alpha is spent" in verdict.reason
    assert verdict.other is not None
    assert verdict.other.version == "amended"


def test_an_unregistered_study_counts_its_looks_too(tmp_path: Path) -> None:
    """Nothing is claimed, but the numbers shown are those that would be."""
    looked(tmp_path, freeze=False)
    for number in (1, 2):
        verdict = look(tmp_path, number).verdict("H1")
        assert spent(verdict)[0] == number
        assert verdict.claimed == "unverified"


def test_models_have_looks_of_their_own(tmp_path: Path) -> None:
    """An attempt on another model spends nothing of this one's."""
    looked(tmp_path)
    study = look(tmp_path, 1)
    study.log.record(
        study="sample",
        model="smollm2-135m",
        registration=study.standing.root,
        protocol=study.protocol_file.digest,
        results={"H1": ("b" * 64, "refuted")},
    )
    assert spent(look(tmp_path, 2).verdict("H1"))[0] == 2


def test_a_protocol_without_looks_is_what_it_was() -> None:
    """Its digest holds: the new key is nothing where it isn't written."""
    found = read_protocol(REPOSITORY / "tests" / "data" / "protocol.toml")
    assert found.protocol.inference.looks is None
    assert found.digest == "96a9a50de9e93a9e3ebac7155cab28ede6af269ecccd9c8c4e6aaa92da7c5345"


@pytest.mark.parametrize(
    ("old", "new"),
    [("planned = 3", "planned = 1"), ("planned = 3", "planned = 0"), ("planned = 3", "planned = 21"),
     ("planned = 3", "planned = 2.0"), ('spending = "pocock"', 'spending = "all at once"'),
     ('rationale = "New prompts come in three batches."', "")],
)  # fmt: skip
def test_a_plan_that_is_none_is_refused(tmp_path: Path, old: str, new: str) -> None:
    """One look is no plan of looks; each key must be given."""
    folder = looked(tmp_path, freeze=False)
    edit(folder / "protocol.toml", old, new)
    from prereg.errors import ProtocolError

    with pytest.raises(ProtocolError, match=r"inference\.looks"):
        read_protocol(folder)
