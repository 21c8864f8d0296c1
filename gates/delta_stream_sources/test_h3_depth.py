"""H3-depth. The gain is graded by depth."""

from prereg import Study


def test_h3_depth_the_gain_grows_with_depth(study: Study) -> None:
    """The rank-matched gain rises from the first updates to the last.

    The trend is the least-squares slope against relative depth.
    """
    depth = study.verdict("H3-depth")
    assert depth.supported, depth.explain()
