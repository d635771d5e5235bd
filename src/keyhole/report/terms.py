"""The words of a report, explained in the section in which they stand."""

from keyhole.report.content import Term

ALONE = Term("alone in the sample (sample unique)", "no other record of the file has the same values of all keys.")
ALONE_OUTSIDE = Term(
    "alone in the population (population unique)",
    "nobody else in the whole population has them either: whoever knows them has found the person.",
)
KEYS = Term("keys (key variables)", "what somebody could know about a person without having the file.")

GLOSSARY: dict[str, tuple[Term, ...]] = {
    "answer": (ALONE, ALONE_OUTSIDE, KEYS),
    "certainty": (
        Term("tau1", "how many of the records that are alone in the sample are alone in the population."),
        Term(
            "tau2",
            "how many correct matches somebody makes who, for each record alone in the sample, picks one at random "
            "among all people who fit.",
        ),
        Term(
            "interval",
            "holds the true number with the probability given, if the model and the assumptions are right. It covers "
            "what is not known of the model and the chance of who else lives in the population.",
        ),
    ),
    "records": (
        Term("r1", "the probability that a record alone in the sample is alone in the population. Their sum is tau1."),
        Term("r2", "the probability that a match of this record with a person is right. Their sum is tau2."),
    ),
    "variables": (
        Term(
            "without it",
            "the estimate for the same file with this variable taken out of the release, by the same model.",
        ),
    ),
    "check": (
        Term("model expects", "the range that holds 95 % of files drawn from the fitted model."),
        Term("doubles, triples", "combinations of key values that exactly two, or three, records share."),
    ),
    "chains": (
        Term("chain", "one run of the estimation. Several runs from very different starts must reach the same answer."),
        Term("R-hat", "how much chains differ, compared with how much each moves; 1 is perfect agreement."),
        Term("effective draws", "how many independent draws the chains' draws are worth."),
        Term("profile", "a typical way of answering. The model learns how many there are and mixes them."),
    ),
    "impossible": (
        Term("rule", "a combination of categories in which nobody can be, such as a married child."),
        Term(
            "p0",
            "the share of people whom the model would have put into impossible combinations if there were no rules.",
        ),
    ),
}
