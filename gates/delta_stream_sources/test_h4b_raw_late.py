"""H4b-raw-late. Removing a group of features costs the answer, late."""

from prereg import Study


def test_h4b_raw_late_the_group_matters(study: Study) -> None:
    """Removing the top features together costs the answer, whatever a random direction would have done.

    This is half of the paper's finding; the other half is whether a random direction of the same norm does as much.
    """
    raw = study.verdict("H4b-raw-late")
    assert raw.supported, raw.explain()
