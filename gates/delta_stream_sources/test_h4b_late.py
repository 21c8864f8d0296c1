"""H4b-late. A group of features causes recall, late."""

from prereg import Study


def test_h4b_late_the_group_beats_a_random_direction(study: Study) -> None:
    """Removing the top features together costs the answer more than removing a random direction of the same norm.

    As at mid-depth.
    """
    group = study.verdict("H4b-late")
    assert group.supported, group.explain()
