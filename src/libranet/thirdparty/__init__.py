"""Networks and parameters made by others that a metric or a loss can use: one table, one cache, checked hashes."""

from libranet.thirdparty.cache import default_cache, explain_absence, find_weights, load_weights, pull_weights
from libranet.thirdparty.convert import read_tensors
from libranet.thirdparty.table import ThirdPartyModel, all_models, find_model

__all__ = [
    "ThirdPartyModel",
    "all_models",
    "default_cache",
    "explain_absence",
    "find_model",
    "find_weights",
    "load_weights",
    "pull_weights",
    "read_tensors",
]
