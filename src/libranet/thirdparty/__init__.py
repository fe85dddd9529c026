"""Networks and parameters made by others that a measure or a loss can use: one table, one cache, checked hashes."""

from libranet.thirdparty.cache import default_cache, find_weights, load_weights, pull_weights
from libranet.thirdparty.table import TABLE, ThirdPartyModel, find_model

__all__ = ["TABLE", "ThirdPartyModel", "default_cache", "find_model", "find_weights", "load_weights", "pull_weights"]
