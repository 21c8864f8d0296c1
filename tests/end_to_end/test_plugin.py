"""The plugin, through real pytest runs on a project with made-up evidence: no outcome is greener than its verdict."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.end_to_end.sessions import again, apart, optimised, told
from tests.synthetic import commit, make_project, registered_project


def run(pytester: pytest.Pytester, *arguments: str, **evidence: float | bool) -> pytest.RunResult:
    """Make the project and run its gates."""
    make_project(pytester.path, **evidence)  # type: ignore[arg-type]
    return again(pytester, *arguments)


def registered(pytester: pytest.Pytester, *arguments: str, **evidence: float | bool) -> pytest.RunResult:
    """Make a project whose study was frozen before it was measured, and run its gates."""
    registered_project(pytester.path, **evidence)
    return again(pytester, *arguments)


def test_supported_gates_of_a_registered_study_pass(pytester: pytest.Pytester) -> None:
    """Both claims hold: exit 0, a header that names the study, a table, and tables on disk."""
    result = registered(pytester)
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    out = result.stdout.str()
    for part in (
        "study: sample on pythia-tiny",
        "registered ",
        "80 held-out prompts of 40 subjects",
        "verdicts",
    ):
        assert part in out
    report = json.loads((pytester.path / "reports/sample/pythia-tiny/verdicts.json").read_text())
    assert [v["outcome"] for v in report["verdicts"]] == ["supported", "supported"]


def test_supported_gates_of_a_study_that_nobody_froze_are_not_green(pytester: pytest.Pytester) -> None:
    """Without a freeze nothing may be claimed: skipped with the word, exit 1; the harness did its work."""
    result = run(pytester, "-v")
    assert result.ret == 1
    result.assert_outcomes(skipped=2)
    out = result.stdout.str()
    assert "UNREGISTERED" in out
    assert "PASSED" not in out
    assert "not registered" in out
    assert again(pytester, "--gate-exit=harness").ret == 0
    report = json.loads((pytester.path / "reports/sample/pythia-tiny/verdicts.json").read_text())
    assert [(v["outcome"], v["answer"]) for v in report["verdicts"]] == [("unverified", "supported")] * 2


def test_a_gate_edited_after_the_freeze_is_unverified(pytester: pytest.Pytester) -> None:
    """Its answer stands, but nobody may claim it: skipped, and the word says so."""
    registered_project(pytester.path)
    gate = pytester.path / "gates/sample/test_h1.py"
    gate.write_text(gate.read_text() + "\n# one more thought\n")
    result = again(pytester, "-v")
    assert result.ret == 1
    result.assert_outcomes(skipped=2)
    assert "UNVERIFIED" in result.stdout.str()


def test_a_threshold_edited_after_the_freeze_is_tampered(pytester: pytest.Pytester) -> None:
    """Supported by the looser promise or not: red, for claims and for the harness."""
    study = registered_project(pytester.path, effect=0.08)
    file = study / "protocol.toml"
    file.write_text(file.read_text().replace("threshold = 0.1\n", "threshold = 0.01\n"))
    commit(pytester.path, "Tidy up")
    for mode in ("claims", "harness"):
        result = again(pytester, f"--gate-exit={mode}")
        assert result.ret == 1
        result.assert_outcomes(failed=2)
        out = result.stdout.str()
        assert "TAMPERED" in out
        assert "0.01" in out


@pytest.mark.parametrize(
    ("evidence", "word"),
    [
        ({"effect": 0.03}, "refuted"),
        ({"effect": 0.0, "null": -0.1, "spread": 0.1}, "inconclusive"),
        ({"effect": 0.7, "null": 0.2}, "invalid"),
        ({"check": False}, "invalid"),
        ({"spread": 0.0}, "invalid"),
    ],
)
def test_anything_but_supported_fails(
    pytester: pytest.Pytester, evidence: dict[str, float], word: str
) -> None:
    """The gate is red, and says why in words instead of a traceback."""
    result = run(pytester, "-k", "test_h1 and not order", **evidence)
    assert result.ret == 1
    result.assert_outcomes(failed=1, deselected=1)
    out = result.stdout.str()
    assert re.search(rf"H1 on pythia-tiny: .*\b{word}\b", out)
    assert f"{word.upper()} gates/sample/test_h1.py" in out
    assert "Traceback" not in out
    assert "def test_h1" not in out


def test_harness_exit_speaks_of_the_harness_only(pytester: pytest.Pytester) -> None:
    """A refuted claim is an answer: exit 0 for those who publish answers, 1 for those who rely on claims."""
    assert run(pytester, "--gate-exit=harness", effect=0.03).ret == 0
    assert again(pytester).ret == 1


@pytest.mark.parametrize("evidence", [{"check": False}, {"effect": 0.7, "null": 0.2}])
def test_harness_exit_still_fails_on_an_invalid_verdict(
    pytester: pytest.Pytester, evidence: dict[str, float]
) -> None:
    """An invalid verdict is no answer."""
    assert run(pytester, "--gate-exit=harness", **evidence).ret == 1


def test_harness_exit_still_fails_on_a_broken_gate(pytester: pytest.Pytester) -> None:
    """One refuted claim does not cover for a gate that crashed."""
    make_project(pytester.path, effect=0.03)
    (pytester.path / "gates/sample/test_h1_order.py").write_text("def test_x(study):\n    1 / 0\n")
    assert again(pytester, "--gate-exit=harness").ret == 1


@pytest.mark.parametrize("body", ["pass", "assert True", "return None", "study.hypotheses"])
def test_a_gate_that_asks_nothing_is_not_green(pytester: pytest.Pytester, body: str) -> None:
    """Passing without a verdict shows nothing."""
    make_project(pytester.path)
    (pytester.path / "gates/sample/test_h1.py").write_text(f"def test_h1(study):\n    {body}\n")
    result = again(pytester, "-k", "test_h1 and not order")
    assert result.ret == 1
    assert "without asking for the verdict of H1" in result.stdout.str()


@pytest.mark.parametrize(
    "body", ['study.verdict("H1")', 'assert study.verdict("H1")', 'assert not study.verdict("H1").supported']
)
def test_a_gate_that_ignores_its_verdict_is_not_green(pytester: pytest.Pytester, body: str) -> None:
    """Asking and looking away, or asserting the contrary, does not pass."""
    make_project(pytester.path, effect=0.03)
    (pytester.path / "gates/sample/test_h1.py").write_text(f"def test_h1(study):\n    {body}\n")
    result = again(pytester, "-k", "test_h1 and not order")
    assert result.ret == 1
    assert "REFUTED gates/sample/test_h1.py" in result.stdout.str()


def test_asserts_switched_off_are_refused(pytester: pytest.Pytester) -> None:
    """`python -O` removes the gates' asserts: nothing is asked, and the message says what to run."""
    make_project(pytester.path, effect=0.03)
    done = optimised(pytester.path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "python -O" in done.stdout + done.stderr
    assert "python -m pytest" in done.stdout + done.stderr


def test_a_study_fixture_from_elsewhere_is_refused(pytester: pytest.Pytester) -> None:
    """A conftest can't answer in the plugin's place."""
    make_project(pytester.path, effect=0.03)
    (pytester.path / "gates/conftest.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef study():\n    return None\n"
    )
    result = again(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "not in prereg" in told(result)


def test_a_part_of_the_study_is_called_a_part(pytester: pytest.Pytester) -> None:
    """With -k the table says how many were tested, and tracked tables stay as they were."""
    registered_project(pytester.path)
    table = pytester.path / "reports/sample/pythia-tiny/verdicts.json"
    table.unlink()
    result = again(pytester, "-k", "order")
    assert result.ret == 0
    assert "1 of 2" in result.stdout.str()
    assert not table.exists()


@pytest.mark.parametrize("mark", ["skip", "xfail(run=False)", "skipif(True, reason='x')"])
def test_a_gate_that_is_not_run_is_not_tested_and_not_green(pytester: pytest.Pytester, mark: str) -> None:
    """The rest of the study is answered; the run as a whole is not a success, whatever the exit code speaks of."""
    make_project(pytester.path)
    gate = pytester.path / "gates/sample/test_h1.py"
    gate.write_text(
        gate.read_text().replace("def test_h1", f"import pytest\n\n@pytest.mark.{mark}\ndef test_h1")
    )
    for mode in ("claims", "harness"):
        result = again(pytester, f"--gate-exit={mode}")
        assert result.ret == 1
        assert "1 of 2" in result.stdout.str()
    assert not (pytester.path / "reports/sample/pythia-tiny/verdicts.json").exists()


@pytest.mark.parametrize(
    "body",
    [
        "    if not verdict.supported:\n        pytest.skip('later')\n",
        "    if not verdict.supported:\n        pytest.xfail('known')\n",
    ],
)
def test_an_answer_that_was_asked_for_stands(pytester: pytest.Pytester, body: str) -> None:
    """Skipping or expecting failure after the verdict was heard changes nothing."""
    make_project(pytester.path, effect=0.03)
    (pytester.path / "gates/sample/test_h1.py").write_text(
        f"import pytest\n\ndef test_h1(study):\n    verdict = study.verdict('H1')\n{body}"
    )
    result = again(pytester, "-k", "test_h1 and not order")
    assert result.ret == 1
    result.assert_outcomes(failed=1, deselected=1)
    assert "refuted" in result.stdout.str()


def test_a_marked_expected_failure_that_asked_is_refuted(pytester: pytest.Pytester) -> None:
    """An xfail on a gate doesn't make a refuted claim acceptable."""
    make_project(pytester.path, effect=0.03)
    gate = pytester.path / "gates/sample/test_h1.py"
    gate.write_text(
        gate.read_text().replace("def test_h1", "import pytest\n\n@pytest.mark.xfail\ndef test_h1")
    )
    result = again(pytester)
    assert result.ret == 1
    result.assert_outcomes(failed=1, skipped=1)


@pytest.mark.parametrize(
    ("name", "asks", "message"),
    [
        ("test_h1", ["H1-order"], "a gate of H1 may not answer for H1-order"),
        ("test_h1_says", ["H1", "H1-order"], "a gate of H1 may not answer for H1-order"),
        ("test_h1_order_says", ["H1"], "a gate of H1-order may not answer for H1"),
        ("test_everything", ["H1"], "named after the hypothesis it asks"),
    ],
)
def test_a_gate_answers_for_the_hypothesis_in_its_name(
    pytester: pytest.Pytester, name: str, asks: list[str], message: str
) -> None:
    """A supported claim can't stand in for another one."""
    make_project(pytester.path)
    body = "".join(f"    assert study.verdict({asked!r}).supported\n" for asked in asks)
    (pytester.path / "gates/sample/test_h1.py").write_text(f"def {name}(study):\n{body}")
    result = again(pytester, "gates/sample/test_h1.py")
    assert result.ret == 1
    assert message in result.stdout.str()


def test_a_run_cut_short_is_no_success_of_the_harness(pytester: pytest.Pytester) -> None:
    """With -x the rest was not asked, though the first answer came."""
    assert run(pytester, "-x", "--gate-exit=harness", effect=0.03).ret == 1


def test_a_report_turned_green_by_a_hook_does_not_turn_the_exit_code(pytester: pytest.Pytester) -> None:
    """The exit code is made from the verdicts, not from what others made of the reports."""
    make_project(pytester.path, effect=0.03)
    (pytester.path / "conftest.py").write_text(
        "import pytest\n\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport(item, call):\n    report = yield\n    report.outcome = 'passed'\n"
        "    return report\n"
    )
    assert again(pytester).ret == 1


def test_a_study_asked_for_by_name_is_that_of_the_chosen_model(pytester: pytest.Pytester) -> None:
    """`getfixturevalue` doesn't fall back on another model than the one under test."""
    make_project(pytester.path)
    (pytester.path / "gates/sample/test_h1.py").write_text(
        "def test_h1(request):\n    assert request.getfixturevalue('study').verdict('H1').supported\n"
    )
    result = again(pytester, "--model", "no-such-model", "gates/sample/test_h1.py")
    assert result.ret == 1
    assert "no-such-model" in result.stdout.str()


def test_under_xdist_the_table_is_the_same(pytester: pytest.Pytester) -> None:
    """Workers answer, the controller tells, and the tables on disk have the same bytes."""
    registered(pytester)
    folder = pytester.path / "reports/sample/pythia-tiny"
    alone = {f.name: f.read_bytes() for f in folder.glob("*.*")}
    for file in folder.glob("*.*"):
        file.unlink()
    result = apart(pytester, "-n", "2")
    assert result.ret == 0
    assert "verdicts" in result.stdout.str()
    assert {f.name: f.read_bytes() for f in folder.glob("*.*")} == alone


def test_a_second_run_changes_no_byte(pytester: pytest.Pytester) -> None:
    """Tracked tables don't churn."""
    run(pytester)
    folder = pytester.path / "reports"
    first = {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.rglob("*.*") if f.is_file()}
    again(pytester)
    assert {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.rglob("*.*") if f.is_file()} == first


def test_collecting_measures_nothing(pytester: pytest.Pytester) -> None:
    """--collect-only shows gates and leaves disk and evidence alone."""
    result = run(pytester, "--collect-only")
    assert result.ret == 0
    assert not (pytester.path / "reports/sample/pythia-tiny/verdicts.json").exists()
    assert "test_h1[pythia-tiny]" in result.stdout.str()


def test_quiet_runs_and_narrow_pipes_work(pytester: pytest.Pytester) -> None:
    """No tty, 80 columns, -q and -qq: no crash, and no colour codes."""
    registered_project(pytester.path)
    for flag in ("-q", "-qq"):
        result = again(pytester, flag)
        assert result.ret == 0
        assert "\x1b[" not in result.stdout.str()


def test_several_models_stand_side_by_side(pytester: pytest.Pytester) -> None:
    """Each gate is asked once a model; a model that can't be had is a failure of its own, not of the other."""
    result = registered(pytester, "--model", "pythia-tiny", "--model", "no-such-model", "--offline")
    assert result.ret == 1
    result.assert_outcomes(passed=2, errors=2)
    assert "no-such-model" in result.stdout.str()
    assert "prereg models" in result.stdout.str()


def test_a_broken_protocol_is_an_error_with_its_line(pytester: pytest.Pytester) -> None:
    """No gate of it can be green."""
    study = make_project(pytester.path)
    file = study / "protocol.toml"
    file.write_text(file.read_text().replace("threshold = 0.1\n", "threshold = nan\n"))
    result = again(pytester)
    assert result.ret == 1
    result.assert_outcomes(errors=2)
    assert "protocol.toml:" in result.stdout.str()
    assert "found nan" in result.stdout.str()


def test_a_gate_without_a_study_says_so(pytester: pytest.Pytester) -> None:
    """A gate outside any study's folder is an error that names the remedy."""
    make_project(pytester.path)
    (pytester.path / "gates/test_stray.py").write_text('def test_stray(study):\n    study.verdict("H1")\n')
    out = again(pytester).stdout.str()
    assert "no protocol.toml beside or above" in out
    assert "--study" in out


def test_the_options_are_documented(pytester: pytest.Pytester) -> None:
    """`pytest --help` teaches every option."""
    out = pytester.runpytest_subprocess("--help").stdout.str()
    for option in (
        "--model", "--study", "--cache-dir", "--device", "--dtype", "--offline", "--engine", "--jobs",
        "--gate-exit", "--report-dir",
    ):  # fmt: skip
        assert f"  {option}" in out


def test_a_warm_run_imports_neither_torch_nor_transformers(pytester: pytest.Pytester) -> None:
    """Reading finished evidence needs no model."""
    registered_project(pytester.path)
    # Not a conftest.py: that would be a change since the freeze.
    (pytester.path / "heavy.py").write_text(
        "import sys\n\n"
        "def pytest_unconfigure():\n"
        "    heavy = {'torch', 'transformers', 'transformer_lens', 'scipy.stats', 'pandas'} & set(sys.modules)\n"
        "    print('HEAVY', sorted(heavy))\n"
    )
    result = apart(pytester, "-s", "-p", "heavy")
    assert result.ret == 0
    assert "HEAVY []" in told(result)


def test_reports_that_can_not_be_written_are_told_and_not_fatal(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    """The verdicts stand; only the tables are missing."""
    registered_project(pytester.path)
    folder = pytester.path / "reports/sample/pythia-tiny"
    if os.geteuid() == 0:
        # Root may write anywhere; a file in the folder's place refuses root as well.
        (folder / "verdicts.json").unlink()
        (folder / "verdicts.json").mkdir()
    else:
        (folder / "verdicts.json").write_text("out of date\n")
        folder.chmod(0o555)
    result = again(pytester)
    assert result.ret == 0
    assert "could not be written" in result.stdout.str()
