"""H4b-raw-mid. Removing a group of features costs the answer, at mid-depth."""

from prereg import Study


def test_h4b_raw_mid_the_group_matters(study: Study) -> None:
    """Removing the top features together costs the answer, whatever a random direction would have done.

    This is half of the paper's finding; the other half is whether a random direction of the same norm does as much.
    """
    raw = study.verdict("H4b-raw-mid")
    assert raw.supported, raw.explain()
