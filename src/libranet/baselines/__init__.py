"""Published peers to compare with, behind one interface: `open_peer` builds one by its name."""

from libranet.baselines.interface import Peer, PeerConfig, RecurrentPeer
from libranet.baselines.table import ABSENT, PEERS, PeerEntry, build_peer, find_peer, load_peer, open_peer

__all__ = [
    "ABSENT",
    "PEERS",
    "Peer",
    "PeerConfig",
    "PeerEntry",
    "RecurrentPeer",
    "build_peer",
    "find_peer",
    "load_peer",
    "open_peer",
]
