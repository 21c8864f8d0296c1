"""`pytest gates/ --model A --model B`: one table at the end, and tables that are written only for whole answers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.end_to_end.sessions import again
from tests.synthetic import commit, measured, registered_project

OTHER = "smollm2-135m"
BOTH = ("--model", "pythia-tiny", "--model", OTHER)
REPORTS = Path("reports/sample")


@pytest.fixture
def both(pytester: pytest.Pytester) -> Path:
    """A registered project that was measured on two models: the second refutes H1."""
    registered_project(pytester.path)
    measured(pytester.path, model=OTHER, effect=0.03)
    commit(pytester.path, "Measure the second model")
    return pytester.path / REPORTS


def flat(result: pytest.RunResult) -> str:
    return " ".join(result.stdout.str().split())


def test_several_models_end_in_one_table(pytester: pytest.Pytester, both: Path) -> None:
    """A column each, agreement in words, tracked tables, and each gate's own outcome as before."""
    result = again(pytester, *BOTH)
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=1)
    out = result.stdout.str()
    assert out.count("hypothesis   promised") == 1
    assert f"pythia-tiny               {OTHER}" in out
    assert "supported on 1 of 2, refuted on 1" in out
    assert f"replication tables: {both}" in out
    with (both / "replication.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["hypothesis"] for row in rows] == ["H1", "H1-order"]
    assert rows[0]["outcome"] == "supported; refuted"
    assert rows[0]["agree"] == "false"
    assert rows[1]["agree"] == "true"
    assert again(pytester, *BOTH, "--gate-exit=harness").ret == 0


def test_one_model_ends_as_before(pytester: pytest.Pytester, both: Path) -> None:
    """Nothing is said of replication, and nothing is written."""
    out = flat(again(pytester))
    assert "eplication" not in out
    assert not (both / "replication.csv").exists()


def test_other_data_on_one_model_leave_a_reminder(pytester: pytest.Pytester, both: Path) -> None:
    """The tables over both stay, and a reader is told how to write them again."""
    again(pytester, *BOTH)
    assert "say otherwise" not in flat(again(pytester))
    measured(pytester.path, effect=0.7)
    assert "replication tables say otherwise of pythia-tiny: prereg verdicts" in flat(again(pytester))


def test_a_model_without_an_answer_keeps_its_column(pytester: pytest.Pytester, both: Path) -> None:
    """Its gates broke: it is not tested, and no table over both is written."""
    (pytester.path / "gates/sample/conftest.py").write_text(
        "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef breaks(request):\n"
        f"    if '{OTHER}' in request.node.name:\n        raise RuntimeError('no')\n"
    )
    result = again(pytester, *BOTH)
    assert result.ret == 1
    out = flat(result)
    assert f"{OTHER} 0 of 2 tested" in out
    assert "not tested on 1" in out
    assert "replication tables are left as they were" in out
    assert not (both / "replication.csv").exists()


def test_tampering_is_pooled_nowhere(pytester: pytest.Pytester, both: Path) -> None:
    """A threshold edited after the freeze: red on both, no mean, no tables."""
    file = pytester.path / "gates/sample/protocol.toml"
    file.write_text(file.read_text().replace("threshold = 0.1\n", "threshold = 0.01\n"))
    commit(pytester.path, "Tidy up")
    result = again(pytester, *BOTH, "--gate-exit=harness")
    assert result.ret == 1
    out = flat(result)
    assert "tampered on 2 of 2" in out
    assert "not pooled: tampered with on pythia-tiny, smollm2-135m" in out
    assert not (both / "replication.csv").exists()
    assert "supported on 2 of 2 " not in out.replace("intervals alone: supported on 2 of 2", "")


def test_an_altered_answer_writes_nothing(pytester: pytest.Pytester, both: Path) -> None:
    """Where anything speaks against the session, the tables over both stay as they were."""
    (pytester.path / "gates/sample/conftest.py").write_text(
        "import pytest\n\n\n@pytest.hookimpl(trylast=True)\ndef pytest_runtest_logreport(report):\n"
        "    if report.when == 'call':\n        report.outcome = 'passed'\n"
        "\n\n@pytest.hookimpl(hookwrapper=True, tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
    )
    assert again(pytester, *BOTH).ret == 1
    assert not (both / "replication.csv").exists()


def test_a_model_that_cannot_be_had_keeps_its_column(pytester: pytest.Pytester, both: Path) -> None:
    """A name that leads to no model is not tested; one of two is never one of one."""
    result = again(pytester, "--model", "pythia-tiny", "--model", "no-such-model", "--offline")
    assert result.ret == 1
    out = flat(result)
    assert "no-such-model 0 of 2 tested" in out
    assert "supported on 1 of 2, not tested on 1" in out
    assert not (both / "replication.csv").exists()
