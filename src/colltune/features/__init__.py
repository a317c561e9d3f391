"""Instances as numbers: named, vectorised maps from (nodes, ppn, message size) to a matrix."""

from colltune.features.feature_sets import FEATURE_SETS, FeatureSet, feature_set

__all__ = ["FEATURE_SETS", "FeatureSet", "feature_set"]
