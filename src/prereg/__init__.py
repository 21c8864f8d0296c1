"""prereg: a pre-registered study as a test suite.

``from prereg import Study`` is what a gate needs; the rest is found in the packages named in the README.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prereg.report.loading import load_report
    from prereg.study import Study, Verdict

__all__ = ["Study", "Verdict", "load_report"]


def __getattr__(name: str) -> Any:
    # Lazily, so that `prereg --help` and a run without gates don't pay for numpy and pyarrow.
    if name == "load_report":
        from prereg.report.loading import load_report

        return load_report
    if name in __all__:
        import prereg.study

        return getattr(prereg.study, name)
    raise AttributeError(f"module 'prereg' has no attribute {name!r}")
