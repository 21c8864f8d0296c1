"""H4b-mid. A group of features causes recall, at mid-depth."""

from prereg import Study


def test_h4b_mid_the_group_beats_a_random_direction(study: Study) -> None:
    """Removing the top features together costs the answer more than removing a random direction of the same norm.

    The random direction has, for each prompt, the norm of what the group contributes there.
    """
    group = study.verdict("H4b-mid")
    assert group.supported, group.explain()
