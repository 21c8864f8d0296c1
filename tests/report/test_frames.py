"""`prereg.load_report`: frames, evidence and a notebook's table, no word greener than what is recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import prereg
from prereg.errors import EvidenceError
from prereg.report.figures.tables import ReportError
from prereg.report.pandas_tables import UnknownTable
from prereg.study import Study
from tests.report.documents import document, write_document
from tests.synthetic import REPOSITORY, options, registered_project

TINY = REPOSITORY / "reports" / "delta_stream" / "pythia-tiny"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registered project with evidence and tables; nothing in it is changed."""
    root = tmp_path_factory.mktemp("project")
    registered_project(root)
    return root


def test_every_way_to_name_a_report_leads_to_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By file, by folder, by study, by name, by an opened study; with the model or without."""
    monkeypatch.chdir(project)
    folder = project / "reports" / "sample" / "pythia-tiny"
    study = Study.open(project / "gates" / "sample", model="pythia-tiny", options=options(project))
    named: list[Any] = [
        folder, folder / "verdicts.json", folder.parent, str(folder), project / "gates" / "sample", "sample", study,
    ]  # fmt: skip
    for one in named:
        for model in (None, "pythia-tiny"):
            found = prereg.load_report(one, model)
            assert (found.folder.resolve(), found.model) == (folder, "pythia-tiny")


def test_a_report_that_is_not_there_is_an_error(project: Path, tmp_path: Path) -> None:
    """None, none on this model, none of this study's model: with the next step."""
    study = Study.open(project / "gates" / "sample", model="pythia-tiny", options=options(project))
    reports = project / "reports" / "sample"
    for path, model in ((tmp_path, None), (reports, "gpt2-small"), (study, "gpt2-small")):
        with pytest.raises(ReportError) as found:
            prereg.load_report(path, model)
        assert found.value.remedy


@pytest.mark.parametrize("what", [3, None, b"reports", ["reports"], object()])
def test_what_is_neither_a_path_nor_a_study_is_an_error(what: Any) -> None:
    """It says what was wanted, and what it got."""
    with pytest.raises(ReportError, match=f"not {type(what).__name__}: ") as found:
        prereg.load_report(what)
    assert found.value.remedy


@pytest.mark.parametrize("path", ["x" * 5000, "x\0y", "x" * 5000 + "/verdicts.json", "\x1b[31m"])
def test_a_path_that_no_disk_has_is_an_error(path: str) -> None:
    """In few words, and without its control characters."""
    with pytest.raises(ReportError) as found:
        prereg.load_report(path)
    assert len(found.value.message) < 400
    assert "\x1b" not in str(found.value)


def test_a_hostile_name_does_not_reach_the_terminal(tmp_path: Path) -> None:
    """A hypothesis, a model, a table may have any name in a file: printed, they hold no escape."""
    evil = "H1\x1b[2J\u202e"
    folder = write_document(tmp_path, document(hypothesis=evil))
    (folder / "odd\x1b[2J.csv").write_text("a,b\n1,2\n")
    report = prereg.load_report(folder)
    with pytest.raises(UnknownTable) as unknown:
        report.tables["none"]
    for text in (repr(report), str(report), report._repr_html_(), repr(report.tables), str(unknown.value)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "H1?[2J? ✓ supported" in repr(report)


def test_of_several_models_one_must_be_named(tmp_path: Path) -> None:
    """By folder or by alias: a hub id's folder has another name."""
    write_document(tmp_path)
    other = document(model="org/name")
    other["model"]["alias"] = "org/name"
    folder = tmp_path / "reports" / "sample" / "org-name-12345678"
    folder.mkdir()
    (folder / "verdicts.json").write_text(json.dumps(other))
    with pytest.raises(ReportError, match="2 models") as found:
        prereg.load_report(tmp_path / "reports" / "sample")
    assert "model=" in str(found.value.remedy)
    for name in ("org/name", folder.name):
        assert prereg.load_report(tmp_path / "reports" / "sample", name).folder == folder


def test_verdicts_have_a_row_for_each_promise(tmp_path: Path) -> None:
    """What was not tested has a row too, and no number."""
    content = document()
    content.update(hypotheses_total=2, not_tested=["H2"])
    frame = prereg.load_report(write_document(tmp_path, content)).verdicts
    assert frame["hypothesis"].tolist() == ["H1", "H2"]
    assert frame["outcome"].tolist() == ["supported", "not_tested"]
    assert frame["estimate"].tolist()[0] == pytest.approx(0.61)
    assert frame[["estimate", "low", "high"]].iloc[1].isna().all()


@pytest.mark.parametrize(
    ("outcome", "status", "word"),
    [
        ("unverified", "unregistered", "unregistered"),
        ("unverified", "unverified", "unverified"),
        ("unverified", "tampered", "tampered"),
        ("exploratory", "registered", "exploratory"),
    ],
)
def test_no_word_is_greener_than_the_record(tmp_path: Path, outcome: str, status: str, word: str) -> None:
    """The interval's own answer stands behind the word, in frame, text and notebook alike."""
    root = None if status == "unregistered" else "cd" * 32
    report = prereg.load_report(write_document(tmp_path, document(outcome, status, root)))
    assert report.verdicts["outcome"].tolist() == [word]
    assert report.verdicts["answer"].tolist() == ["supported"]
    shown = report._repr_html_()
    assert f"{word} (supported)" in shown
    assert "<td>✓" not in shown
    assert f"{word} (supported)" in repr(report)


def test_a_verdict_may_stand_worse_than_its_study(tmp_path: Path) -> None:
    """Evidence measured before the freeze, say: the verdict's own standing and reason are shown."""
    content = document("unverified")
    reasons = ["measured before the freeze"]
    content["verdicts"][0]["registration"].update(status="unverified", reasons=reasons)
    report = prereg.load_report(write_document(tmp_path, content))
    assert report.verdicts["registration"].tolist() == ["unverified"]
    assert report.standing.startswith("registered")
    assert "H1: measured before the freeze." in report._repr_html_()


def test_a_record_that_contradicts_itself_is_no_report(tmp_path: Path) -> None:
    """Supported, though unregistered: not shown as the kinder of the two, but refused."""
    folder = write_document(tmp_path, document("supported", "unregistered", None))
    with pytest.raises(ReportError, match="unregistered"):
        prereg.load_report(folder)


def test_the_notebook_s_table_says_what_it_rests_on() -> None:
    """Standing as recorded; that nothing was verified; what verifies."""
    shown = prereg.load_report(TINY)._repr_html_()
    recorded = json.loads((TINY / "verdicts.json").read_text("utf-8"))["verdicts"][0]["registration"]["root"]
    assert f"Registration, as recorded: registered {recorded[:16]}; full data were known" in shown
    assert "Nothing was verified here; prereg audit does that." in shown
    assert shown.count("<tr>") == 7


def test_hostile_text_is_no_markup(tmp_path: Path) -> None:
    """A claim, a model's name and a reason are text, whatever is in them."""
    evil = '<script>alert("x")</script><img src=x onerror=y>'
    content = document("unverified", "unverified", claim=evil, units=evil, hypothesis=evil)
    content["registration"]["reasons"] = [evil]
    shown = prereg.load_report(write_document(tmp_path, content))._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert shown.count("&lt;script&gt;") >= 4


def test_contrasts_are_those_of_the_tracked_table(project: Path) -> None:
    """Made from verdicts.json, they are what contrasts.csv has; the one that binds gives the claim's estimate."""
    report = prereg.load_report(project / "reports" / "sample")
    pd.testing.assert_frame_equal(report.contrasts, report.tables["contrasts"])
    assert report.contrasts["binds"].dtype == bool
    claims = report.contrasts.query("role == 'claim' and binds").set_index("hypothesis")["estimate"]
    wanted = report.verdicts.set_index("hypothesis")["estimate"]
    assert claims.to_dict() == wanted.to_dict()


def test_every_tracked_table_is_a_frame() -> None:
    """A mapping by name, read one at a time; names stay text."""
    tables = prereg.load_report(TINY).tables
    assert len(tables) == len(list(TINY.glob("*.csv"))) == len(list(tables))
    for name in tables:
        assert len(tables[name]) > 0
    assert set(tables["r2_by_update"]["arm"]) >= {"model"}
    with pytest.raises(UnknownTable, match="no table 'nothing'"):
        tables["nothing"]
    assert tables.get("nothing") is None


def test_a_missing_label_is_not_the_label_none(tmp_path: Path) -> None:
    """Text that looks like a missing value or a number is text."""
    folder = write_document(tmp_path)
    (folder / "orders.csv").write_text("arm,label,estimate\nNone,NA,1\n1,null,\n")
    frame = prereg.load_report(folder).tables["orders"]
    assert frame["arm"].tolist() == ["None", "1"]
    assert frame["label"].tolist() == ["NA", "null"]
    assert frame["estimate"].isna().tolist() == [False, True]


def test_a_verdicts_csv_that_says_something_else_is_refused(tmp_path: Path) -> None:
    """An edited table is not shown beside a record that contradicts it."""
    folder = write_document(tmp_path, document("unverified", "unregistered", None))
    (folder / "verdicts.csv").write_text("hypothesis,outcome,answer\nH1,supported,supported\n")
    tables = prereg.load_report(folder).tables
    with pytest.raises(ReportError, match="something else"):
        tables["verdicts"]
    (folder / "verdicts.csv").write_text("hypothesis,outcome,answer\nH1,unverified,supported\n")
    assert tables["verdicts"]["outcome"].tolist() == ["unverified"]


def test_a_table_that_is_none_is_an_error(tmp_path: Path) -> None:
    """Ragged rows, and a link."""
    folder = write_document(tmp_path)
    (folder / "orders.csv").write_text('a,b\n1,2\n1,2,3,4\n"')
    (folder / "draws.csv").symlink_to(folder / "orders.csv")
    tables = prereg.load_report(folder).tables
    for name in ("orders", "draws"):
        with pytest.raises(ReportError):
            tables[name]


def test_pandas_polars_and_duckdb_read_the_evidence() -> None:
    """Each opens the paths as they are, and finds the same rows and the same sum."""
    report = prereg.load_report(TINY)
    file = report.evidence["kernels.model"]
    wanted = pq.read_table(file)
    number = next(f.name for f in wanted.schema if str(f.type) == "double")
    total = sum(wanted[number].to_pylist())
    frame = pd.read_parquet(file)
    assert (len(frame), frame[number].sum()) == (wanted.num_rows, pytest.approx(total))
    polars = pytest.importorskip("polars")
    read = polars.read_parquet(file)
    assert (read.height, read[number].sum()) == (wanted.num_rows, pytest.approx(total))
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(":memory:", config={"threads": 1}) as database:
        query = f'SELECT count(*), sum("{number}") FROM read_parquet(?)'  # noqa: S608 - a column of our own
        assert database.execute(query, [str(file)]).fetchone() == (wanted.num_rows, pytest.approx(total))


def test_evidence_is_compared_with_the_digests_on_request(tmp_path: Path) -> None:
    """Whole, changed, missing; a name that leads out of the folder; none at all."""
    report = prereg.load_report(TINY)
    assert {f.name for f in report.check_evidence()} == set().union(
        *(v.evidence for v in report.document.verdicts)
    )
    folder = write_document(tmp_path, document(evidence={"kernels.model.parquet": "00" * 32}))
    (folder / "evidence").mkdir()
    with pytest.raises(EvidenceError, match="can't be read"):
        prereg.load_report(folder).check_evidence()
    (folder / "evidence" / "kernels.model.parquet").write_bytes(b"x")
    with pytest.raises(EvidenceError, match="the verdicts rest on 0000"):
        prereg.load_report(folder).check_evidence()
    for number, (evidence, words) in enumerate(
        [({"../x.parquet": "00" * 32}, "no name"), ({}, "no evidence")]
    ):
        folder = write_document(tmp_path / str(number), document(evidence=evidence))
        with pytest.raises(EvidenceError, match=words):
            prereg.load_report(folder).check_evidence()


def test_without_pandas_a_report_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, paths and records need none; a frame names the command that helps."""
    report = prereg.load_report(TINY)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert report.rows[0].outcome == "supported"
    with pytest.raises(ReportError) as found:
        report.verdicts  # noqa: B018 - asking is the test
    assert str(found.value.remedy).startswith("pip install 'pandas")


def test_importing_prereg_loads_neither_pandas_nor_numpy() -> None:
    """`load_report` is there by name only, until it is asked for; a report loads no pandas and no torch."""
    code = (
        "import sys, prereg; print('numpy' in sys.modules, 'pandas' in sys.modules)\n"
        f"prereg.load_report({str(TINY)!r}); print('pandas' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * 4
