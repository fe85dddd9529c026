"""Optical flow between two frames: one estimator interface, DIS and RAFT behind it, and warping along a flow."""

from libranet.flow.estimators import DisFlow, FlowEstimator, RaftFlow
from libranet.flow.raft import RaftSmall
from libranet.flow.warp import invert_flow, resize_flow, warp, warp_tensor

__all__ = ["DisFlow", "FlowEstimator", "RaftFlow", "RaftSmall", "invert_flow", "resize_flow", "warp", "warp_tensor"]
