"""The paper's training sets and tables."""

from __future__ import annotations

import pytest

from colltune.domain import Collective
from colltune.errors import DataError
from colltune.evaluation import evaluate_split
from colltune.evaluation.request import (
    PaperLarge,
    PaperSmall,
    paper_counts,
    paper_datasets,
    run_like_paper,
    run_paper,
    table_iv,
)
from tests.models.machines import measured
from tests.refusals import refused

_HYDRA = (4, 7, 8, 13, 16, 19, 24, 27, 32, 35, 36)
_JUPITER = (4, 7, 8, 13, 16, 19, 20, 24, 27, 32)


def test_node_counts_are_parted_as_in_table_iii(subtests: pytest.Subtests) -> None:
    """The paper's machines get Table III's sets, others test what lies between training counts."""
    for measured_on, large, small, test in (
        (_HYDRA, (4, 8, 16, 24, 32, 36), (4, 16, 36), (7, 13, 19, 27, 35)),
        (_JUPITER, (4, 8, 16, 20, 24, 32), (4, 16, 32), (7, 13, 19, 27)),
        ((20, 27, 32, 35, 48), (20, 32, 48), (20, 32, 48), (27, 35)),
        ((2, 4, 8, 16), (2, 8, 16), (2, 8, 16), (4,)),
        ((1, 2, 3, 5, 6, 9, 10), (1, 3, 6, 10), (1, 3, 10), (2, 5, 9)),
    ):
        with subtests.test(measured_on=measured_on, large=large, small=small, test=test):
            assert paper_counts(measured_on) == (large, small, test)


def test_two_node_counts_are_too_few() -> None:
    """Nothing lies between two counts."""
    assert paper_counts((2, 4)) is None


def test_table_iv_holds_arithmetic_means_and_their_mean() -> None:
    """A cell is the mean speed-up of one collective; the last column the mean over datasets."""
    both = (Collective.ALLREDUCE, Collective.BCAST)
    data = measured(nodes=(4, 7, 8, 13, 16, 19, 24), ppn=(1,), collectives=both)
    large, small = (
        evaluate_split(data, split, learners=("knn",)) for split in (PaperLarge(), PaperSmall())
    )
    assert (large.train_nodes, large.test_nodes) == ((4, 8, 16, 24), (7, 13, 19))
    assert small.train_nodes == (4, 8, 24)
    datasets = paper_datasets([(large, small)])
    assert [(d.label, d.collective) for d in datasets] == list(zip(("d1", "d2"), both, strict=True))
    table = table_iv(datasets)
    row = table["small"]["published_gam"]
    score = small.scores["published_gam"]
    assert row["d2"] == score["bcast"].arithmetic_mean_speedup
    assert row["mean"] == pytest.approx((row["d1"] + row["d2"]) / 2)
    assert list(table["large"])[:3] == ["default", "single_best", "virtual_best"]


def test_given_node_counts_replace_table_iii() -> None:
    """The large training set is what was asked for, the small one its ends and middle."""
    begun: list[tuple[int, int, str]] = []
    data = measured(nodes=(2, 3, 4, 6, 8))
    found = run_paper(
        [data],
        lambda d, split: evaluate_split(d, split, learners=(), with_references=False),
        (2, 3, 6, 8),
        (4,),
        lambda *what: begun.append(what),
    )
    assert begun == [(1, 2, "made-up, paper-large"), (2, 2, "made-up, paper-small")]
    assert [(run.train_nodes, run.test_nodes) for run in found[0]] == [
        ((2, 3, 6, 8), (4,)),
        ((2, 3, 8), (4,)),
    ]


def test_data_of_few_shapes_are_evaluated_as_near_to_the_paper_as_they_allow(
    subtests: pytest.Subtests,
) -> None:
    """Unseen node counts if there are three, else unseen ppn, else unseen message sizes."""
    for nodes, ppn, trainings, split in (
        ((2, 3, 4), (1, 2), ("large", "small"), "paper-large"),
        ((2, 4), (1, 2), ("large",), "leave-ppn-out"),
        ((2,), (4,), ("large",), "message-sizes"),
    ):
        with subtests.test(nodes=nodes, ppn=ppn, trainings=trainings, split=split):
            found = run_like_paper(
                measured(nodes=nodes, ppn=ppn), lambda d, s: evaluate_split(d, s, learners=("knn",))
            )
            assert (tuple(found.trainings), found.pairs[0][0].setup.split) == (trainings, split)
            assert found.trainings["large"].name == split
            table = table_iv(paper_datasets(found.pairs))
            assert table["large"]["virtual_best"]["mean"] >= table["large"]["knn"]["mean"] > 0


def test_data_of_one_instance_allow_nothing_of_it() -> None:
    """The error says what each of the splits would need."""
    data = measured(nodes=(2,), ppn=(1,))
    one = data.where(data.frame["msize_bytes"] == data.frame["msize_bytes"].iloc[0])
    with refused("no-evaluation", DataError):
        run_like_paper(one, lambda d, s: evaluate_split(d, s, learners=("knn",)))
