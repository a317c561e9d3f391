"""Registers the learner, as its line in ``LEARNERS`` of ``models/learners/__init__.py`` would."""

from colltune.models.learners import LEARNERS, LearnerEntry

LEARNERS["extra_trees"] = LearnerEntry("tests.extension.learner.extra_trees:fit", "log")
