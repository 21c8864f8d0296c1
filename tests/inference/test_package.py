"""The package as a whole: names, weight, examples."""

from __future__ import annotations

import doctest
import subprocess
import sys

import prereg.inference


def test_every_public_name_exists_and_is_documented() -> None:
    """`__all__` is sorted as written, complete, and each name has a docstring."""
    for name in prereg.inference.__all__:
        value = getattr(prereg.inference, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), name


def test_the_example_in_the_docstring_runs() -> None:
    """The road from rows to a verdict, as the docstring shows it."""
    failed, tried = doctest.testmod(prereg.inference)
    assert (failed, tried > 0) == (0, True)


def test_importing_stays_light() -> None:
    """A warm gate run pays for numpy only: no scipy, pandas or torch at import."""
    code = (
        "import sys, prereg.inference; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'scipy', 'pandas', 'torch', 'arch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
