"""The terms of the training objective, each a plain function or module."""

from libranet.losses.charbonnier import charbonnier
from libranet.losses.lie import LieTerms, LieWeights, lie_regulariser
from libranet.losses.perceptual import DinoV2Features, FeatureExtractor, PerceptualLoss, VggFeatures

__all__ = [
    "DinoV2Features",
    "FeatureExtractor",
    "LieTerms",
    "LieWeights",
    "PerceptualLoss",
    "VggFeatures",
    "charbonnier",
    "lie_regulariser",
]
