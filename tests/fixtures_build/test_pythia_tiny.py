"""pythia-tiny: the committed files belong together, and the facts keep their rules."""

from __future__ import annotations

import csv
import importlib
import json
import shutil
import sys
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2] / "fixtures" / "pythia-tiny"
MODULES = ("texts", "world", "measure")


@pytest.fixture(scope="module")
def tiny() -> Iterator[SimpleNamespace]:
    """Import the folder's own modules, which stand outside of any package; gone again afterwards."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two threads on a shared core slow small matrices many times over
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(ROOT))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        torch.set_num_threads(threads)
        sys.path.remove(str(ROOT))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """Read the committed training record."""
    return json.loads((ROOT / "training.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    """Read the rows of the committed facts.csv."""
    with (ROOT / "facts.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the folder to one that a test may spoil."""
    return Path(shutil.copytree(ROOT, tmp_path / "pythia-tiny"))


def test_the_committed_files_pass_the_check(tiny: SimpleNamespace) -> None:
    """Digests, facts, training sentences and recomputed recall all equal the record."""
    assert tiny.measure.check() == []


def test_facts_are_regenerated_byte_for_byte(tiny: SimpleNamespace) -> None:
    """world.py builds the bytes of the committed facts.csv."""
    built = tiny.world.facts_csv(tiny.world.build_world())
    assert built == (ROOT / "facts.csv").read_bytes()
    assert b"\r" not in built


@pytest.mark.parametrize("name", ["facts.csv", "model.safetensors", "tokenizer.json"])
def test_a_changed_byte_is_named(tiny: SimpleNamespace, copy: Path, name: str) -> None:
    """The check names the file whose last byte differs."""
    data = bytearray((copy / name).read_bytes())
    data[-1] ^= 1
    (copy / name).write_bytes(bytes(data))
    assert any(line.startswith(f"{name}: ") for line in tiny.measure.check(copy))


def test_an_overstated_recall_is_caught(tiny: SimpleNamespace, copy: Path) -> None:
    """A record that claims one more known prompt fails: recall is recomputed, not trusted."""
    path = copy / "training.json"
    edited = json.loads(path.read_text("utf-8"))
    edited["recall"]["overall"][0] += 1
    path.write_text(json.dumps(edited), "utf-8")
    (line,) = tiny.measure.check(copy)
    assert line.startswith("recall overall: ")


def test_a_dropped_table_or_file_is_caught(tiny: SimpleNamespace, copy: Path) -> None:
    """Leaving a recall table or a file out is no way past the check."""
    path = copy / "training.json"
    edited = json.loads(path.read_text("utf-8"))
    del edited["recall"]["by_relation"]
    path.write_text(json.dumps(edited), "utf-8")
    (line,) = tiny.measure.check(copy)
    assert line.startswith("recall by_relation: ")
    (copy / "facts.csv").unlink()
    assert tiny.measure.check(copy) == ["facts.csv: is missing"]


def test_recall_leaves_something_to_exclude(record: dict[str, Any]) -> None:
    """Between 75 and 95 % of the prompts are known, in each relation some; the README agrees."""
    known, asked = record["recall"]["overall"]
    assert 0.75 <= known / asked <= 0.95
    assert f"{known:,} of {asked:,} prompts" in (ROOT / "README.md").read_text("utf-8")
    for known, asked in record["recall"]["by_relation"].values():
        assert 0 < known < asked


def test_recall_holds_on_another_machine(record: dict[str, Any]) -> None:
    """No prompt is near a tie: rounding, some 1e-5 nats, can't move the counts."""
    assert record["recall"]["smallest_margin_nats"] > 2e-4


def test_recall_follows_what_was_stated(record: dict[str, Any]) -> None:
    """Stated facts are known, facts that training never stated are guesses, withheld are between."""
    by_exposure = record["recall"]["by_exposure"]
    share = {name: known / asked for name, (known, asked) in by_exposure.items()}
    assert share["stated"] > 0.9
    assert share["unstated"] < 0.25
    assert share["unstated"] < share["withheld"] <= share["stated"]


def test_the_folder_is_small() -> None:
    """Weights stay under 3 MB, the folder under 4 MB."""
    sizes = {path.name: path.stat().st_size for path in ROOT.iterdir() if path.is_file()}
    assert sizes["model.safetensors"] < 3_000_000
    assert sum(sizes.values()) < 4_000_000


def test_the_facts_keep_the_rules_of_real_facts(rows: list[dict[str, str]]) -> None:
    """Sorted, no duplicates, one placeholder, one answer a subject, no answer in its prompt."""
    keys = [(row["relation"], row["subject"], row["template"]) for row in rows]
    assert keys == sorted(set(keys))
    answers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        assert row["template"].count("{subject}") == 1
        prompt = row["template"].replace("{subject}", row["subject"])
        assert prompt == prompt.strip()
        assert row["answer"][:4].casefold() not in prompt.casefold()
        answers[row["relation"], row["subject"]].add(row["answer"])
    assert {len(found) for found in answers.values()} == {1}


def test_the_world_is_large_enough_to_study(rows: list[dict[str, str]]) -> None:
    """Eight relations of sixty subjects and four templates; some subjects stand in two."""
    subjects = defaultdict(set)
    templates = defaultdict(set)
    for row in rows:
        subjects[row["relation"]].add(row["subject"])
        templates[row["relation"]].add(row["template"])
    assert len(rows) == 1920
    assert {len(found) for found in subjects.values()} == {60}
    assert {len(found) for found in templates.values()} == {4}
    seen = Counter(subject for found in subjects.values() for subject in found)
    assert Counter(seen.values()) == {1: 400, 2: 40}


def test_the_first_token_tells_answers_apart(tiny: SimpleNamespace, rows: list[dict[str, str]]) -> None:
    """No two answers of a relation begin with the same token, and prompts get no extra token."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(ROOT, local_files_only=True)
    firsts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        firsts[row["relation"]][row["answer"]] = tokenizer(" " + row["answer"])["input_ids"][0]
    for found in firsts.values():
        assert len(set(found.values())) == len(found)
    prompt = tiny.world.build_world().facts[0].prompt
    assert tokenizer.decode(tokenizer(prompt)["input_ids"]) == prompt


def test_the_architecture_is_pythias(record: dict[str, Any]) -> None:
    """Eight parallel-residual blocks of width 64, a quarter rotary, untied embeddings."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(ROOT, local_files_only=True)
    config = model.config
    assert (config.model_type, config.num_hidden_layers, config.hidden_size) == ("gpt_neox", 8, 64)
    assert config.use_parallel_residual
    assert not config.tie_word_embeddings
    assert config.initializer_range == 0.02
    assert config.rope_parameters["partial_rotary_factor"] == 0.25
    assert sum(p.numel() for p in model.parameters()) == record["parameters"] < 740_000
