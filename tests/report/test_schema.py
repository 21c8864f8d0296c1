"""The JSON Schema of verdicts.json: made from the models, true of what is written, and closed to what isn't."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from prereg.cli import app
from prereg.report.figures.tables import ReportError
from prereg.report.page.recorded import read_document
from prereg.report.schema import SCHEMA_FILE, VerdictsDocument, published_schema, read_verdicts, schema_bytes
from prereg.report.schema.reading import remedy_for
from tests.report.documents import document
from tests.synthetic import REPOSITORY, registered_project

TRACKED = sorted((REPOSITORY / "reports").glob("*/*/verdicts.json"))


def test_the_file_is_the_schema_that_the_models_make() -> None:
    """Whoever changes a model writes the file again: SCHEMA_FILE.write_bytes(schema_bytes())."""
    assert SCHEMA_FILE.read_bytes() == schema_bytes()


@pytest.mark.parametrize("file", TRACKED, ids=lambda file: f"{file.parts[-3]}-{file.parts[-2]}")
def test_tracked_verdicts_are_what_the_schema_says(file: Path) -> None:
    """Each verdicts.json of the repository passes the models, and the schema by itself."""
    assert read_verdicts(file).tested > 0
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(published_schema()).validate(json.loads(file.read_bytes()))


def test_there_are_tracked_verdicts() -> None:
    """The test before this one has something to say."""
    assert TRACKED


def test_what_is_written_now_is_what_the_schema_says(tmp_path: Path) -> None:
    """A report that was just written has every field, and no other: `Verdict.as_record` and the models are one."""
    registered_project(tmp_path)
    (file,) = tmp_path.glob("reports/*/*/verdicts.json")
    found = read_verdicts(file)
    said = json.loads(file.read_bytes())
    assert [v.outcome for v in found.verdicts] == ["supported", "supported"]
    assert set(said["verdicts"][0]) - {"search"} == set(type(found.verdicts[0]).model_fields) - {"search"}
    assert set(said) == set(VerdictsDocument.model_fields)


def test_every_field_of_the_models_is_described_as_closed() -> None:
    """No object of the schema takes keys that nobody described, but maps by name."""
    schema = published_schema()
    for name, part in {"verdicts.json": schema, **schema["$defs"]}.items():
        assert part["additionalProperties"] is False, name


BAD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "format": lambda d: d.update(format=2),
    "format_true": lambda d: d.update(format=True),
    "extra_key": lambda d: d["verdicts"][0].update(verified=True),
    "nan": lambda d: d["verdicts"][0].update(low=float("nan")),
    "text_for_number": lambda d: d["verdicts"][0].update(low="0.1"),
    "word": lambda d: d["verdicts"][0].update(outcome="proved"),
    "kinder_word": lambda d: d["verdicts"][0].update(answer="refuted"),
    "unregistered": lambda d: d["verdicts"][0]["registration"].update(status="unregistered", root=None),
    "root": lambda d: d["registration"].update(root=None),
    "counts": lambda d: d.update(tested=2, hypotheses_total=2),
    "total": lambda d: d.update(hypotheses_total=7),
    "both": lambda d: d.update(not_tested=["H1"], hypotheses_total=2),
    "twice": lambda d: d.update(verdicts=d["verdicts"] * 2, tested=2, hypotheses_total=2),
    "other_model": lambda d: d["verdicts"][0].update(model="gpt2-small"),
    "no_verdict": lambda d: d.update(verdicts=[], tested=0, hypotheses_total=1, not_tested=["H1"]),
    "no_contrast": lambda d: d["verdicts"][0].update(contrasts=[]),
    "short_digest": lambda d: d.update(protocol_digest="ab"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_document_that_is_none_is_refused(name: str) -> None:
    """A field of another kind, a count that is wrong, a word that the registration doesn't allow."""
    good = document()
    VerdictsDocument.model_validate_json(json.dumps(good))
    bad = copy.deepcopy(good)
    BAD[name](bad)
    with pytest.raises(ValidationError):
        VerdictsDocument.model_validate_json(json.dumps(bad))


def test_an_answer_that_may_not_be_claimed_is_a_document() -> None:
    """Unverified is a word too; so is not tested, beside what was."""
    found = document(outcome="unverified", status="unregistered", root=None)
    found.update(hypotheses_total=2, not_tested=["H2"])
    assert VerdictsDocument.model_validate_json(json.dumps(found)).hypotheses == ("H1", "H2")


def test_the_next_step_names_a_model_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the folder that the file lies in, even where only the file was named; fit to be pasted."""
    folder = tmp_path / "a model"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for read in (read_verdicts, read_document):
        with pytest.raises(ReportError) as found:
            read(Path("verdicts.json"))
        assert str(found.value.remedy).endswith("prereg verdicts --model 'a model'")
    assert remedy_for(Path("/verdicts.json")).endswith("prereg verdicts --model NAME")


def test_a_file_that_is_none_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    """Missing, a link, another format: each names the file, and what would give it."""
    file = tmp_path / "verdicts.json"
    with pytest.raises(ReportError, match="can't be read") as missing:
        read_verdicts(file)
    assert missing.value.remedy is not None
    assert str(file) in missing.value.remedy
    real = tmp_path / "real.json"
    real.write_text(json.dumps(document()))
    file.symlink_to(real)
    with pytest.raises(ReportError, match="link"):
        read_verdicts(file)
    file.unlink()
    file.write_text("[]")
    with pytest.raises(ReportError, match="is no verdicts"):
        read_verdicts(file)


def test_the_command_prints_the_schema_and_checks_files(tmp_path: Path) -> None:
    """`prereg schema` is the file; --check tells a good one from a bad one by its exit code."""
    runner = CliRunner()
    assert json.loads(runner.invoke(app, ["schema"]).stdout) == json.loads(SCHEMA_FILE.read_bytes())
    file = tmp_path / "verdicts.json"
    file.write_text(json.dumps(document()))
    done = runner.invoke(app, ["schema", "--check", str(file)])
    assert (done.exit_code, "1 of 1 hypotheses tested" in " ".join(done.stdout.split())) == (0, True)
    file.write_text(json.dumps({**document(), "tested": 5}))
    assert runner.invoke(app, ["schema", "--check", str(file)]).exit_code == 2
