"""What restores frames: one interface, one implementation per runtime, one function that chooses."""

from libranet.backends.choose import load_network, make_backend, why_not_fused_here
from libranet.backends.interface import MAX_STRENGTH, Backend, Restored

__all__ = ["MAX_STRENGTH", "Backend", "Restored", "load_network", "make_backend", "why_not_fused_here"]
