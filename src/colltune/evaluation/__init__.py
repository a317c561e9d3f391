"""How good decisions are on what was not trained on.

A split parts a dataset into cells to learn from and instances to decide (`splits`). Tested is every
instance whose default and at least one other configuration were measured. A choice that was not
measured there counts as the default's time, and how many there were is told; the oracle chooses
among what was measured. Beside the learners stand the library's default, the single best
configuration, the oracle, and the paper's learners as published (`recipes`). Figures are means over
instances (`scores`), with intervals over shapes.
"""

from colltune.evaluation.evaluation import Evaluation, EvaluationSetup
from colltune.evaluation.run import evaluate_split
from colltune.evaluation.scores import ALL, Score
from colltune.evaluation.splits import (
    Extrapolation,
    LeaveAllocationOut,
    LeaveNodesOut,
    LeavePpnOut,
    MessageSizes,
    NodeCounts,
    Split,
)

__all__ = [
    "ALL",
    "Evaluation",
    "EvaluationSetup",
    "Extrapolation",
    "LeaveAllocationOut",
    "LeaveNodesOut",
    "LeavePpnOut",
    "MessageSizes",
    "NodeCounts",
    "Score",
    "Split",
    "evaluate_split",
]
