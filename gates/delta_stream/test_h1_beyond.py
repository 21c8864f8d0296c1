"""H1-beyond. Predictability is more than the running-sum tautology."""

from prereg import Study


def test_h1_beyond_ordered_history_explains_updates_beyond_the_running_sum(study: Study) -> None:
    """The last update adds to what the running sum v[l] already explains of the next one.

    A block reads v[l], the sum of all updates before it; that its update can be predicted from them is in part
    a tautology. Only the share that v[l] alone does not explain counts here.
    """
    beyond = study.verdict("H1-beyond")
    assert beyond.supported, beyond.explain()
