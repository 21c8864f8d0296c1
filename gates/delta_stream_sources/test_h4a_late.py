"""H4a-late. Single features cause recall, late."""

from prereg import Study


def test_h4a_late_some_feature_causes_recall(study: Study) -> None:
    """Removing some single feature costs the answer more than removing a random direction of the same norm.

    As at mid-depth; the verdict may differ between depths, so each is registered.
    """
    single = study.verdict("H4a-late")
    assert single.supported, single.explain()
