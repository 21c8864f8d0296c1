"""H4a-mid. Single features cause recall, at mid-depth."""

from prereg import Study


def test_h4a_mid_some_feature_causes_recall(study: Study) -> None:
    """Removing some single feature costs the answer more than removing a random direction of the same norm.

    Every candidate is tested, and the search over them is corrected for by step-down maxT against the registered
    threshold; candidates are chosen on training prompts.
    """
    single = study.verdict("H4a-mid")
    assert single.supported, single.explain()
