"""H3-decoding. The state tells the recalled answer."""

from prereg import Study


def test_h3_decoding_the_state_tells_the_answer(study: Study) -> None:
    """At mid-depth a linear classifier reads the answer off the state better than off PCA of its own codes.

    Same dimension, same training prompts, same classifier; candidates are the answers of one relation.
    """
    decoding = study.verdict("H3-decoding")
    assert decoding.supported, decoding.explain()
