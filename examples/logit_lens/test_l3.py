"""L3. The answer is formed over depth."""

from prereg import Study


def test_l3_the_preference_for_the_answer_grows_with_depth(study: Study) -> None:
    """The preference for this subject's answer grows by three nats over the whole depth, and more."""
    l3 = study.verdict("L3")
    assert l3.supported, l3.explain()
