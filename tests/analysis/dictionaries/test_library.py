"""A library trains what is missing, keeps what is done, and trusts no file that it can't verify."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prereg.analysis.dictionaries import Library, library, tasks
from prereg.analysis.dictionaries.library import Wanted
from prereg.errors import AnalysisError, StoreCorrupt
from prereg.workers import Workers
from tests.analysis.dictionaries import worlds
from tests.analysis.dictionaries.worlds import BRIEF

WORLD = worlds.world()
ALL: list[Wanted] = [(kind, 1, update) for kind in ("topk", "l1") for update in range(worlds.N_LAYERS)]


class Counted:
    """How often training was asked for, and by whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Wanted] = []
        real = tasks.train

        def counted(*args, **named):
            self.asked.append((named["kind"], named["seed"], named["layer"]))
            return real(*args, **named)

        monkeypatch.setattr(tasks, "train", counted)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The trainings of this test."""
    return Counted(monkeypatch)


def opened(folder: Path, *, identity: str = "store", **changes) -> Library:
    return Library.open(folder, WORLD, BRIEF.model_copy(update=changes), identity=identity)


def bits(shelf: Library, one: Wanted) -> bytes:
    return (shelf.folder / f"{shelf.key(one)}.safetensors").read_bytes()


def test_what_is_done_is_not_done_again(tmp_path: Path, counted: Counted) -> None:
    """A second run finds every dictionary, and the first TopK before the L1 that is matched to it."""
    opened(tmp_path).ensure([("l1", 1, 0)], Workers())
    assert counted.asked == [("topk", 1, 0), ("l1", 1, 0)]
    again = opened(tmp_path)
    again.ensure([("l1", 1, 0), ("topk", 1, 0)], Workers())
    assert len(counted.asked) == 2
    assert again.dictionary("l1", 1, 0).n_features == BRIEF.width


def test_a_kill_loses_at_most_what_was_being_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dictionaries that were finished before it are taken up."""
    real = tasks.train

    def killed(*args, **named):
        if named["layer"] == 1:
            raise KeyboardInterrupt
        return real(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path).ensure([("topk", 1, 0), ("topk", 1, 1)], Workers())
    counted = Counted(monkeypatch)
    opened(tmp_path).ensure([("topk", 1, 0), ("topk", 1, 1)], Workers())
    assert counted.asked == [("topk", 1, 1)]


@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_two_workers_make_the_same_bits_as_one(tmp_path: Path, engine: str) -> None:
    """Neither their number nor their order shows in a file."""
    one, two = opened(tmp_path / "one"), opened(tmp_path / "two")
    one.ensure(ALL, Workers())
    two.ensure(ALL[::-1], Workers(jobs=2, engine=engine))
    assert all(bits(one, each) == bits(two, each) for each in ALL)


@pytest.mark.parametrize("part", ["json", "safetensors"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "empty"])
def test_a_damaged_file_is_trained_anew(tmp_path: Path, counted: Counted, part: str, damage: str) -> None:
    """Neither a flipped bit nor half a file is trusted, and the bits come back the same."""
    first = opened(tmp_path)
    first.ensure([("topk", 1, 0)], Workers())
    before = bits(first, ("topk", 1, 0))
    file = tmp_path / f"{first.key(('topk', 1, 0))}.{part}"
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    kept = {"flipped": bytes(content), "cut": bytes(content[: len(content) // 2]), "empty": b""}
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(kept[damage])
    again = opened(tmp_path)
    again.ensure([("topk", 1, 0)], Workers())
    assert len(counted.asked) == 2
    assert bits(again, ("topk", 1, 0)) == before


def test_a_foreign_dictionary_is_not_taken_for_ours(tmp_path: Path, counted: Counted) -> None:
    """A whole and sealed file under another's name is another's."""
    shelf = opened(tmp_path)
    shelf.ensure([("topk", 1, 0), ("topk", 1, 1)], Workers())
    ours, theirs = shelf.key(("topk", 1, 0)), shelf.key(("topk", 1, 1))
    for part in ("json", "safetensors"):
        (tmp_path / f"{ours}.{part}").write_bytes((tmp_path / f"{theirs}.{part}").read_bytes())
    opened(tmp_path).ensure([("topk", 1, 0)], Workers())
    assert counted.asked[2:] == [("topk", 1, 0)]


def test_an_edited_record_is_not_believed(tmp_path: Path, counted: Counted) -> None:
    """A record says how many features are dead: its seal must hold."""
    shelf = opened(tmp_path)
    shelf.ensure([("topk", 1, 0)], Workers())
    file = tmp_path / f"{shelf.key(('topk', 1, 0))}.json"
    record = json.loads(file.read_text())
    record["l0_readout"] = 1.0
    file.write_text(json.dumps(record))
    opened(tmp_path).ensure([("topk", 1, 0)], Workers())
    assert len(counted.asked) == 2


def test_damage_while_in_use_is_told(tmp_path: Path) -> None:
    """A dictionary that changes between two reads must not change the numbers in silence."""
    shelf = opened(tmp_path)
    shelf.ensure([("topk", 1, 0)], Workers())
    (tmp_path / f"{shelf.key(('topk', 1, 0))}.safetensors").write_bytes(b"")
    with pytest.raises(StoreCorrupt, match="damaged"):
        shelf.dictionary("topk", 1, 0)


def test_what_was_not_asked_for_is_not_there(tmp_path: Path) -> None:
    """Reading trains nothing."""
    with pytest.raises(AnalysisError, match="not asked for"):
        opened(tmp_path).dictionary("topk", 1, 0)


@pytest.mark.parametrize("one", [("topk", 9, 0), ("topk", 1, worlds.N_LAYERS), ("topk", 1, -1)])
def test_what_the_protocol_does_not_have_is_refused(tmp_path: Path, one: Wanted) -> None:
    """A seed that isn't registered, an update that the model doesn't have."""
    with pytest.raises(AnalysisError, match="no dictionary of"):
        opened(tmp_path).ensure([one], Workers())


def test_only_what_the_bits_depend_on_is_in_the_key(tmp_path: Path) -> None:
    """More seeds or another bound train nothing anew; another origin, k, or value in a training row does."""
    one: Wanted = ("topk", 1, 0)
    key = opened(tmp_path).key(one)
    assert opened(tmp_path, seeds=(1, 2, 3), max_dead_share=0.5, updates="one").key(one) == key
    assert opened(tmp_path, identity="another").key(one) != key
    assert opened(tmp_path, k=2).key(one) != key
    stream = WORLD.tokens.stream.copy()
    stream[1, opened(tmp_path).selection.rows[0], 0] += 1.0
    other = replace(WORLD, tokens=replace(WORLD.tokens, stream=stream))
    assert Library.open(tmp_path, other, BRIEF, identity="store").key(one) != key


def test_another_versions_source_has_other_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this code would train differently it must not find ready."""
    before = opened(tmp_path).key(("topk", 1, 0))
    monkeypatch.setattr(library, "_source_digest", lambda: "another")
    assert opened(tmp_path).key(("topk", 1, 0)) != before


def test_fresh_prompts_are_the_activations_own(tmp_path: Path) -> None:
    """The mask can't be written through, and other activations are refused."""
    shelf = opened(tmp_path)
    mask = shelf.fresh(WORLD)
    mask[:] = False
    assert shelf.fresh(WORLD)[WORLD.held_out].all()
    with pytest.raises(AnalysisError, match="was asked about"):
        shelf.fresh(worlds.world(n_subjects=30))


def test_a_record_says_what_was_done(tmp_path: Path) -> None:
    """Counts of features, rows, L0 and what was explained agree with the dictionary."""
    shelf = opened(tmp_path)
    shelf.ensure([("topk", 1, 0)], Workers())
    record, dictionary = shelf.record("topk", 1, 0), shelf.dictionary("topk", 1, 0)
    rows = shelf.selection.rows
    delta = WORLD.tokens.stream[1][rows].astype(np.float64) - WORLD.tokens.stream[0][rows]
    active = dictionary.codes(delta) > 0
    assert record.n_rows == len(rows)
    # Rows were kept as float32: a value at a threshold may fall on either side.
    assert np.allclose(record.fired, active.sum(axis=0), atol=2)
    assert record.l0_tokens == pytest.approx(active.sum(axis=1).mean(), rel=1e-2)
    assert record.capped == 0.0
    assert record.dead == np.mean(np.array(record.fired) == 0)
