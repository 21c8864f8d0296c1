"""L2. What is read is about the subject."""

from prereg import Study


def test_l2_past_the_middle_the_answer_is_likelier_than_other_answers(study: Study) -> None:
    """In the third quarter the answer is likelier, by a nat, than what other subjects would be answered."""
    l2 = study.verdict("L2")
    assert l2.supported, l2.explain()
