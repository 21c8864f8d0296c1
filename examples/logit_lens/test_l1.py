"""L1. The answer comes late."""

from prereg import Study


def test_l1_the_first_half_of_the_depth_does_not_hold_the_answer_yet(study: Study) -> None:
    """Read after the blocks of the first half, the answer is on top for fewer than one prompt in five."""
    l1 = study.verdict("L1")
    assert l1.supported, l1.explain()
