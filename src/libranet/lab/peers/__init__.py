"""Published peers to compare with, behind one interface: `open_peer` builds one by its name."""

from libranet.lab.peers.table import ABSENT, PEERS, PeerEntry, build_peer, load_peer, open_peer
from libranet.network.peer import Peer, PeerConfig, RecurrentPeer

__all__ = [
    "ABSENT",
    "PEERS",
    "Peer",
    "PeerConfig",
    "PeerEntry",
    "RecurrentPeer",
    "build_peer",
    "load_peer",
    "open_peer",
]
