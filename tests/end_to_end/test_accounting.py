"""No way of running gates turns an answer into another one: refused, reported, or counted as what it is."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from prereg.pytest_plugin.refusals import session_refusals
from prereg.pytest_plugin.words import said, worst
from tests.end_to_end.sessions import VERDICTS, again, apart, optimised, told
from tests.synthetic import make_project, registered_project

GATE = "gates/sample/test_h1.py"


def project(pytester: pytest.Pytester, files: dict[str, str] | None = None, *, effect: float = 0.03) -> Path:
    """Make a project whose H1 is refuted, with other files in it; return its verdicts.json, which isn't there yet."""
    make_project(pytester.path, effect=effect)
    for name, text in (files or {}).items():
        (pytester.path / name).write_text(text)
    return pytester.path / VERDICTS


def words(result: pytest.RunResult) -> dict[str, str]:
    """Return the word behind each test of a run with -v, by its node id without the model."""
    found = re.findall(r"^(gates\S+?)(?:\[[^\]]*\])? ([A-Z]{2,})\b", result.stdout.str(), re.MULTILINE)
    return dict(found)


# -- what a record is called ---------------------------------------------------------------------------


def record(answer: str, outcome: str, status: str) -> dict[str, object]:
    standing = {"status": status, "root": None, "known": None, "reasons": ["a reason"]}
    return {"hypothesis": "H1", "model": "m", "answer": answer, "outcome": outcome, "registration": standing}


@pytest.mark.parametrize(
    ("answer", "outcome", "status", "wanted"),
    [
        ("supported", "supported", "registered", ("passed", "supported")),
        ("supported", "supported", "unregistered", ("skipped", "unregistered")),
        ("supported", "unverified", "registered", ("skipped", "unverified")),
        ("supported", "unverified", "unregistered", ("skipped", "unregistered")),
        ("supported", "unverified", "unverified", ("skipped", "unverified")),
        ("supported", "exploratory", "registered", ("skipped", "exploratory")),
        ("supported", "nonsense", "registered", ("skipped", "unverified")),
        ("supported", "supported", "nonsense", ("skipped", "unverified")),
        ("supported", "supported", "tampered", ("failed", "tampered")),
        ("refuted", "unverified", "tampered", ("failed", "tampered")),
        ("refuted", "unverified", "unregistered", ("failed", "refuted")),
        ("refuted", "supported", "registered", ("failed", "refuted")),
        ("inconclusive", "inconclusive", "registered", ("failed", "inconclusive")),
        ("invalid", "invalid", "registered", ("failed", "invalid")),
        ("nonsense", "supported", "registered", ("failed", "invalid")),
        ("unverified", "supported", "registered", ("failed", "invalid")),
    ],
)
def test_only_a_registered_and_supported_answer_passes(
    answer: str, outcome: str, status: str, wanted: tuple[str, str]
) -> None:
    """Every combination that isn't known to be good is something else than green."""
    found = said(record(answer, outcome, status), "explained")
    assert (found.outcome, found.word) == wanted
    assert (found.text == "") == (found.outcome == "passed")


def test_the_worst_of_several_answers_counts() -> None:
    """A gate that asked twice gets the answer that is worse."""
    good, bad = (said(record(a, a, "registered"), f"it is {a}") for a in ("supported", "refuted"))
    assert worst([good, bad]).word == worst([bad, good]).word == "refuted"


# -- refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["prereg-accounting", "prereg-seal"])
def test_the_plugin_can_not_be_switched_off_in_part(pytester: pytest.Pytester, part: str) -> None:
    """Blocking what counts the gates is a usage error that names the option."""
    table = project(pytester)
    result = again(pytester, "-p", f"no:{part}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"-p no:{part}" in told(result)
    assert not table.exists()


def test_without_the_plugin_a_gate_is_an_error(pytester: pytest.Pytester) -> None:
    """`-p no:prereg` takes the fixture away with it: nothing is asked and nothing is claimed."""
    table = project(pytester)
    result = pytester.runpytest_subprocess("gates", "-p", "no:prereg")
    assert result.ret == 1
    result.assert_outcomes(errors=2)
    assert "supported" not in told(result)
    assert not table.exists()


def test_optimised_python_is_refused_under_xdist_too(pytester: pytest.Pytester) -> None:
    """The controller says so before any worker starts."""
    project(pytester)
    done = optimised(pytester.path, "-n", "1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "PYTHONOPTIMIZE" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [("--reruns", "2"), ("--reruns", "2", "-n", "1"), ("--force-reruns", "1")]
)
def test_rerunning_failed_gates_is_refused(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """With pytest-rerunfailures active no gate is asked at all."""
    table = project(pytester)
    result = apart(pytester, *arguments) if "-n" in arguments else again(pytester, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{arguments[0]} runs a failed gate again" in told(result)
    assert not table.exists()


def test_rerunning_no_time_is_harmless(pytester: pytest.Pytester) -> None:
    """`--reruns 0` asks for nothing, and `--runxfail` and plain asserts change no answer."""
    project(pytester)
    result = again(pytester, "-v", "--reruns", "0", "--runxfail", "--assert=plain")
    assert words(result)[f"{GATE}::test_h1"] == "REFUTED"


@pytest.mark.parametrize(
    ("options", "ini", "name"),
    [
        ({"force_flaky": True}, {}, "--force-flaky"),
        ({"retries": 2}, {}, "--retries"),
        ({}, {"retries": "3"}, "retries in the configuration"),
        ({}, {"reruns": "1"}, "reruns in the configuration"),
        ({"reruns": 0, "force_flaky": False}, {"retries": "0"}, None),
        ({"count": 5}, {}, None),
    ],
)
def test_each_plugin_that_reruns_is_known_by_its_option(
    options: dict[str, object], ini: dict[str, object], name: str | None
) -> None:
    """Also flaky and pytest-retry as well, on the command line or in a configuration; pytest-repeat only repeats."""
    config = SimpleNamespace(getoption=lambda key, default: options.get(key, default), getini=ini.__getitem__)
    found = session_refusals(config)  # type: ignore[arg-type]
    assert [name in text for text in found if name] == ([True] if name else [])
    assert bool(found) == (name is not None)


@pytest.mark.parametrize(
    "gate",
    [
        "import pytest\n\n@pytest.mark.flaky(reruns=2)\ndef test_h1(study):\n    study.verdict('H1')\n",
        "def test_h1(study):\n    study.verdict('H1')\n\ntest_h1._flaky_max_runs = 3\n",
        "import pytest\n\npytestmark = pytest.mark.flaky\n\ndef test_h1(study):\n    study.verdict('H1')\n",
    ],
)
def test_a_gate_marked_flaky_is_refused(pytester: pytest.Pytester, gate: str) -> None:
    """By a mark, a decorator, or for the whole file."""
    project(pytester, {GATE: gate})
    result = again(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "marked flaky" in told(result)


def test_a_hook_that_runs_a_gate_again_gets_no_second_answer(pytester: pytest.Pytester) -> None:
    """Whatever plugin repeats it: the second time is an error."""
    project(
        pytester,
        {
            "conftest.py": "from _pytest.runner import runtestprotocol\n\n"
            "def pytest_runtest_protocol(item, nextitem):\n"
            "    runtestprotocol(item, nextitem=nextitem, log=False)\n"
            "    item._initrequest()\n"
        },
        effect=0.5,
    )
    result = again(pytester)
    assert result.ret == 1
    assert "was run again" in told(result)


FAKE = "class Fake:\n    def verdict(self, name):\n        return type('V', (), {'supported': True})\n"
FIXTURE = f"import pytest\n\n{FAKE}\n\n@pytest.fixture\ndef study():\n    return Fake()\n"
ASKS = "def test_h1(study):\n    assert study.verdict('H1').supported\n"


@pytest.mark.parametrize(
    "files",
    [
        {"gates/conftest.py": FIXTURE},
        {GATE: f"{FIXTURE}\n\n{ASKS}"},
        {
            GATE: f"import pytest\n\n{FAKE}\n\nclass TestGates:\n    @pytest.fixture\n    def study(self):\n"
            "        return Fake()\n\n    def test_h1(self, study):\n        assert study.verdict('H1').supported\n"
        },
        {"gates/conftest.py": FIXTURE.replace("pytest.fixture\n", "pytest.fixture(autouse=True)\n")},
        {
            "gates/conftest.py": FIXTURE,
            GATE: "import pytest\n\n@pytest.mark.usefixtures('study')\ndef test_h1():\n    pass\n",
        },
        {
            "gates/conftest.py": FIXTURE,
            GATE: "def test_h1(request):\n    assert request.getfixturevalue('study').verdict('H1').supported\n",
        },
        {
            "gates/conftest.py": FIXTURE.replace(
                "pytest.fixture\n", "pytest.fixture(name='study')\n"
            ).replace("def study", "def other")
        },
        {
            "gates/conftest.py": FIXTURE.replace("def study():\n", "def study():\n").replace(
                "    return Fake()\n",
                "    return Fake()\n\nstudy._get_wrapped_function().__module__ = 'prereg'\n",
            )
        },
    ],
    ids=["conftest", "file", "class", "autouse", "usefixtures", "dynamic", "renamed", "lying"],
)
def test_a_study_fixture_from_elsewhere_is_refused(pytester: pytest.Pytester, files: dict[str, str]) -> None:
    """Wherever it is defined, however it is asked for."""
    table = project(pytester, files)
    result = again(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "not in prereg" in told(result)
    assert not table.exists()


def test_a_study_fixture_from_another_plugin_is_refused(pytester: pytest.Pytester) -> None:
    """A plugin that is loaded by name can't answer in prereg's place."""
    project(pytester, {"other.py": FIXTURE})
    result = apart(pytester, "-p", "other")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "not in prereg" in told(result)


def test_under_xdist_a_refused_gate_fails_with_the_reason(pytester: pytest.Pytester) -> None:
    """A worker can't raise a usage error; the gate says it."""
    table = project(pytester, {"gates/conftest.py": FIXTURE})
    result = apart(pytester, "-n", "1")
    assert result.ret == 1
    result.assert_outcomes(errors=2)
    assert "not in prereg" in told(result)
    assert not table.exists()


def test_a_parametrised_study_is_refused(pytester: pytest.Pytester) -> None:
    """A mark can't put a made-up study in the fixture's place."""
    project(
        pytester,
        {GATE: f"import pytest\n\n{FAKE}\n\n@pytest.mark.parametrize('study', [Fake()])\n{ASKS}"},
    )
    result = again(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "not in prereg" in told(result)


def test_a_study_of_somebody_elses_is_none_of_our_business(pytester: pytest.Pytester) -> None:
    """Outside a study's folder a fixture may have that name, and its tests are no gates."""
    project(pytester, {"gates/test_other.py": f"{FIXTURE}\n\ndef test_other(study):\n    pass\n"})
    result = again(pytester, "gates/test_other.py")
    result.assert_outcomes(failed=1, skipped=1, passed=1)
    assert words(again(pytester, "-v"))["gates/test_other.py::test_other"] == "PASSED"


def test_a_fixture_swapped_by_a_hook_shows_nothing(pytester: pytest.Pytester) -> None:
    """`pytest_fixture_setup` in a conftest puts another value there: the gate asked for no verdict."""
    hook = (
        "def pytest_fixture_setup(fixturedef, request):\n    if fixturedef.argname == 'study':\n"
        "        value = Fake()\n        fixturedef.cached_result = (value, fixturedef.cache_key(request), None)\n"
        "        return value\n"
    )
    table = project(pytester, {"conftest.py": f"{FAKE}\n\n{hook}"})
    result = again(pytester)
    assert result.ret == 1
    result.assert_outcomes(failed=2)
    assert "without asking for the verdict of H1" in told(result)
    assert not table.exists()


# -- dropped, or reported as something else ---------------------------------------------------------------


def test_a_gate_that_a_hook_takes_away_is_missed(pytester: pytest.Pytester) -> None:
    """It isn't tested, and that nobody was told of it makes the run a failure."""
    registered_project(pytester.path, effect=0.03)
    (pytester.path / VERDICTS).unlink()
    (pytester.path / "dropping.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'order' in i.name]\n"
    )
    result = apart(pytester, "-p", "dropping", "--gate-exit=harness")
    assert result.ret == 1
    assert "test_h1[pythia-tiny] was taken away by a hook" in told(result)
    assert "1 of 2 tested" in told(result)
    assert not (pytester.path / VERDICTS).exists()


def test_gates_that_are_never_collected_are_no_success(pytester: pytest.Pytester) -> None:
    """A conftest that ignores the gate files, and a dummy that passes: nothing was tested."""
    project(
        pytester,
        {
            "conftest.py": "def pytest_ignore_collect(collection_path):\n"
            "    return True if collection_path.name.startswith('test_h1') else None\n",
            "gates/sample/test_dummy.py": "def test_dummy():\n    pass\n",
        },
    )
    for mode in ("claims", "harness"):
        result = again(pytester, f"--gate-exit={mode}")
        assert result.ret == 1
        assert "0 of 2 tested" in told(result)
    assert again(pytester, "gates/sample/test_dummy.py", "-k", "dummy").ret == 0


@pytest.mark.parametrize(
    "hook",
    [
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome = 'passed'\n    return report\n",
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome = 'passed'\n"
        "    for name in ('prereg_gate', 'prereg_word'):\n        vars(report).pop(name, None)\n    return report\n",
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_logreport(report):\n    report.outcome = 'passed'\n"
        "    report.prereg_gate = None\n",
        "def pytest_runtest_protocol(item):\n    for when in ('setup', 'call', 'teardown'):\n"
        "        item.ihook.pytest_runtest_logreport(report=pytest.TestReport(\n"
        "            item.nodeid, item.location, {}, 'passed', None, when))\n    return True\n",
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_call(item):\n"
        "    item.config.pluginmanager.unregister(name='prereg-accounting')\n",
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_setup(item):\n"
        "    from prereg import pytest_plugin\n    item.config.pluginmanager.unregister(pytest_plugin)\n",
    ],
    ids=["makereport", "stripped", "logreport", "protocol", "no-accounting", "no-plugin"],
)
def test_a_report_that_a_hook_made_green_is_found(pytester: pytest.Pytester, hook: str) -> None:
    """What came of a gate is written down apart from its report, and the two are compared."""
    table = project(pytester, {"conftest.py": f"import pytest\n\n{hook}"})
    for mode in ("claims", "harness"):
        result = apart(pytester, f"--gate-exit={mode}")
        assert result.ret == 1
        assert re.search(r"ALTERED|was unregistered|no longer called", told(result))
    assert not table.exists()


def test_under_xdist_a_report_that_was_made_green_is_found(pytester: pytest.Pytester) -> None:
    """The worker's own ledger reaches the controller beside its reports."""
    hook = (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome = 'passed'\n    vars(report).pop('prereg_gate', None)\n"
        "    return report\n"
    )
    table = project(pytester, {"conftest.py": f"import pytest\n\n{hook}"})
    result = apart(pytester, "-n", "1")
    assert result.ret == 1
    assert "was reported passed by a hook or plugin; what came of it is refuted" in told(result)
    assert not table.exists()


# -- prereg itself altered --------------------------------------------------------------------------------

SUPPORT = "    import dataclasses\n    from prereg.inference import Outcome\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {
                "conftest.py": "import dataclasses\nimport prereg.study.settling as d\n"
                "from prereg.inference import Outcome\nreal = d.decide_conjunction\n"
                "def fake(*a, **k):\n    return dataclasses.replace(real(*a, **k), outcome=Outcome.SUPPORTED)\n"
                "d.decide_conjunction = fake\n"
            },
            "decide_conjunction is not what it imports from prereg.inference",
        ),
        (
            {
                GATE: "def test_h1(study, monkeypatch):\n    from prereg import Verdict\n"
                "    with monkeypatch.context() as m:\n"
                "        m.setattr(Verdict, 'as_record', lambda self: {})\n        study.verdict('H1')\n"
            },
            "as_record",
        ),
        (
            {
                GATE: f"def test_h1(study, monkeypatch):\n{SUPPORT}    import numpy as np\n"
                "    monkeypatch.setattr(np, 'hstack', lambda x: x[0])\n    study.verdict('H1')\n"
            },
            "numpy.hstack was replaced",
        ),
        (
            {
                GATE: f"def test_h1(study):\n{SUPPORT}    true = study._decide('H1')\n"
                "    study._verdicts['H1'] = dataclasses.replace(true, outcome=Outcome.SUPPORTED)\n"
                "    assert study.verdict('H1').supported\n"
            },
            "was altered while the gates ran: answer",
        ),
        (
            {
                GATE: "def test_h1(study):\n    from prereg.inference import Outcome\n"
                "    Outcome.REFUTED._value_ = 'supported'\n    assert study.verdict('H1')\n"
            },
            "Outcome.REFUTED is 'supported', its file says 'refuted'",
        ),
    ],
    ids=["conftest", "for-a-moment", "numpy", "memory", "enum"],
)
def test_a_patch_of_prereg_is_found(pytester: pytest.Pytester, files: dict[str, str], message: str) -> None:
    """In a conftest or a gate, for the whole run or for a moment: red, named, and no tables."""
    table = project(pytester, files)
    result = apart(pytester, "--gate-exit=harness")
    assert result.ret == 1
    assert message in " ".join(told(result).split())
    assert not table.exists()


def test_evidence_that_changes_while_gates_run_is_found(pytester: pytest.Pytester) -> None:
    """What was answered must still be what lies on disk at the end."""
    gate = (
        "from pathlib import Path\n\ndef test_h1(study):\n    study.verdict('H1')\n"
        "    for file in Path('reports').rglob('kernels.model.json'):\n        file.unlink()\n"
    )
    table = project(pytester, {GATE: gate})
    result = again(pytester)
    assert result.ret == 1
    assert "its evidence is gone since it was answered" in " ".join(told(result).split())
    assert not table.exists()


# -- not tested -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "import pytest\n\ndef test_h1(study):\n    pytest.importorskip('no_such_module')\n",
        "import pytest\n\npytest.importorskip('no_such_module')\n\ndef test_h1(study):\n    pass\n",
        "import pytest\n\n@pytest.mark.xfail(strict=True)\ndef test_h1(study):\n    raise RuntimeError\n",
        "async def test_h1(study):\n    study.verdict('H1')\n",
        "def test_h1(study):\n    yield study.verdict('H1')\n",
    ],
    ids=["importorskip", "module", "xfail", "async", "yield"],
)
def test_a_gate_that_asked_nothing_is_not_tested(pytester: pytest.Pytester, body: str) -> None:
    """However it ended: no table says otherwise, and the run is no success."""
    table = project(pytester, {GATE: body}, effect=0.5)
    result = again(pytester, "--gate-exit=harness")
    assert result.ret != 0
    assert "2 of 2 tested" not in told(result)
    assert not table.exists()


@pytest.mark.parametrize("ending", ["pytest.exit('enough', returncode=0)", "raise KeyboardInterrupt"])
def test_a_session_that_a_gate_ends_is_no_success(pytester: pytest.Pytester, ending: str) -> None:
    """Not even where the gate names the exit code."""
    table = project(pytester, {GATE: f"import pytest\n\ndef test_h1(study):\n    {ending}\n"}, effect=0.5)
    result = apart(pytester, "--gate-exit=harness")
    assert result.ret != 0
    assert "2 of 2 tested" not in told(result)
    assert not table.exists()


@pytest.mark.parametrize(
    "arguments", [("-x",), ("--maxfail=1",), ("--deselect", GATE), ("-k", "order"), ("-m", "not_there")]
)
def test_a_part_is_a_part(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """Cut short or selected: tables stay as they were."""
    table = project(pytester)
    result = again(pytester, *arguments)
    assert "2 of 2 tested" not in told(result)
    assert not table.exists()


def test_the_last_failures_are_a_part(pytester: pytest.Pytester) -> None:
    """`--lf` asks again what was refuted, and says that it is a part."""
    registered_project(pytester.path, effect=0.03)
    run = ("gates", "--cache-dir", "cache")
    assert pytester.runpytest_inprocess(*run).ret == 1
    (pytester.path / VERDICTS).unlink()
    result = pytester.runpytest_inprocess(*run, "--lf")
    assert result.ret == 1
    assert "1 of 2 tested" in told(result)
    assert not (pytester.path / VERDICTS).exists()


def test_a_worker_that_ends_itself_leaves_its_gate_untested(pytester: pytest.Pytester) -> None:
    """`os._exit(0)` before the verdict: the other hypothesis is answered, this one is not."""
    table = project(pytester, {GATE: "import os\n\ndef test_h1(study):\n    os._exit(0)\n"}, effect=0.5)
    result = apart(pytester, "-n", "1", "--gate-exit=harness")
    assert result.ret == 1
    assert "1 of 2 tested" in told(result)
    assert not table.exists()


def test_every_kind_of_gate_is_counted_once_for_its_hypothesis(pytester: pytest.Pytester) -> None:
    """Parametrised, asked twice, in a class, in a TestCase, in two files: one hypothesis, one row."""
    asks = "    assert study.verdict('H1')\n"
    project(
        pytester,
        {
            GATE: f"import pytest\n\n@pytest.mark.parametrize('x', [1, 2])\ndef test_h1(study, x):\n{asks}{asks}\n\n"
            f"class TestGates:\n    def test_h1_in_a_class(self, study):\n    {asks}",
            "gates/sample/test_again.py": f"def test_h1_again(study):\n{asks}",
            "gates/sample/test_case.py": "import unittest\nimport pytest\n\nclass Case(unittest.TestCase):\n"
            "    @pytest.fixture(autouse=True)\n    def _take(self, study):\n        self.study = study\n\n"
            "    def test_h1_in_a_case(self):\n        assert self.study.verdict('H1')\n",
        },
    )
    result = again(pytester, "-v")
    assert result.ret == 1
    result.assert_outcomes(failed=5, skipped=1)
    assert set(words(result).values()) == {"REFUTED", "UNREGISTERED"}
    assert "2 of 2 tested" in told(result)


@pytest.mark.parametrize(
    "gate",
    [
        "def test_h1_without_the_fixture():\n    pass\n",
        "import unittest\n\nclass Case(unittest.TestCase):\n    def test_h1_in_a_case(self):\n        pass\n",
        "import pytest\n\n@pytest.mark.usefixtures('study')\ndef test_h1():\n    pass\n",
    ],
)
def test_a_test_named_after_a_hypothesis_must_ask(pytester: pytest.Pytester, gate: str) -> None:
    """In a study's folder a green dot with a hypothesis' name would be read as its answer."""
    table = project(pytester, {GATE: gate}, effect=0.5)
    result = again(pytester)
    assert result.ret == 1
    assert "without asking for the verdict of H1" in told(result)
    assert not table.exists()


@pytest.mark.parametrize("mark", ["xfail", "xfail(strict=True)"])
def test_an_expected_failure_of_a_supported_gate_is_no_claim(pytester: pytest.Pytester, mark: str) -> None:
    """The mark doesn't hide an answer; a strict one that passes is pytest's own failure."""
    gate = f"import pytest\n\n@pytest.mark.{mark}\ndef test_h1(study):\n    assert study.verdict('H1').supported\n"
    project(pytester, {GATE: gate}, effect=0.5)
    result = again(pytester, "-v")
    assert result.ret == 1
    assert words(result)[f"{GATE}::test_h1"] == ("UNREGISTERED" if mark == "xfail" else "FAILED")


def test_each_session_logs_its_attempt_once(pytester: pytest.Pytester) -> None:
    """The same answer on the same data is one attempt, however often gates are run, with or without xdist."""
    project(pytester)
    folder = pytester.path / "gates/sample/attempts"
    for _ in range(2):
        again(pytester)
        assert len(list(folder.glob("*.json"))) == 1
    apart(pytester, "-n", "1")
    assert len(list(folder.glob("*.json"))) == 1


def test_an_attempt_that_can_not_be_logged_is_told_and_fails_the_harness(pytester: pytest.Pytester) -> None:
    """An answer that nobody will be able to count is no success of the harness."""
    table = project(pytester)
    (pytester.path / "gates/sample/attempts").write_text("in the way\n")
    result = again(pytester, "--gate-exit=harness")
    assert result.ret == 1
    assert "attempt could not be logged" in told(result)
    assert not table.exists()


def test_a_protocol_among_test_data_is_no_study(pytester: pytest.Pytester) -> None:
    """A suite of ordinary tests beside a protocol without gates is neither announced nor missed, and succeeds."""
    data = pytester.mkdir("tests") / "data"
    data.mkdir()
    make_project(pytester.path)
    (data / "protocol.toml").write_bytes((pytester.path / "gates" / "sample" / "protocol.toml").read_bytes())
    (pytester.path / "tests" / "test_sum.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n")
    result = pytester.runpytest("tests")
    assert result.ret == 0
    assert "study:" not in result.stdout.str()
    assert "no gate was selected" not in result.stdout.str()


def test_a_registered_study_whose_gates_are_gone_is_missed(pytester: pytest.Pytester) -> None:
    """Deleting every gate of a registered study doesn't make a run over its folder a success."""
    study = registered_project(pytester.path)
    for gate in study.glob("test_*.py"):
        gate.unlink()
    (pytester.path / "gates" / "test_other.py").write_text("def test_other():\n    assert True\n")
    assert again(pytester, "gates").ret != 0
