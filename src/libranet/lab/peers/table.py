"""The table of peers: what each is, how it is built, and what its makers and our paper say about its size."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from libranet.errors import CheckpointError, InputError
from libranet.extension import is_own
from libranet.lab.peers.astp_net import AstpNet
from libranet.lab.peers.dcl import Dcl
from libranet.lab.peers.dcp import dark_channel_dehaze
from libranet.lab.peers.dehamer import Dehamer
from libranet.lab.peers.dehazeformer import DehazeFormer
from libranet.lab.peers.dehazexl import DehazeXl
from libranet.lab.peers.dmphn import Dmphn
from libranet.lab.peers.ds_tfn import DsTfn
from libranet.lab.peers.dvd import Dvd
from libranet.lab.peers.ffa_net import FfaNet
from libranet.lab.peers.fourk_dehazing import FourKDehazing
from libranet.lab.peers.map_net import MapNet
from libranet.lab.peers.maxim import Maxim
from libranet.lab.peers.msbdn_dff import MsbdnDff
from libranet.lab.peers.pm_net import PmNet
from libranet.lab.peers.simple import FrameByFrame, Identity, clahe
from libranet.lab.peers.uhddip import UhdDip
from libranet.lab.peers.uhdformer import UhdFormer
from libranet.lab.peers.viws_net import ViwsNet
from libranet.network import Network
from libranet.network.checkpoint import assign_weights, read_header
from libranet.network.own import build_own


@dataclass(frozen=True)
class PeerEntry:
    """One row of the table."""

    name: str
    title: str
    """Name and place of publication."""
    build: Callable[[], Network]
    """Makes the network: with fresh weights, or with the published ones, which must be in the cache then."""
    parameters: int
    """What the official network has; ours must have the same. 0: a method without weights."""
    paper_row: str = ""
    """Its row in the efficiency table of our paper."""
    note: str = ""
    """What a reader of a table must know about this build."""
    published: bool = False
    """Its makers' weights are in the table of third-party models under the same name; it cannot be trained here."""

    def build_on_meta(self) -> Network:
        """Make the network without storage, for its shapes and settings."""
        if self.published:
            return self.build().to("meta")
        with torch.device("meta"):
            return self.build()

    @property
    def trainable(self) -> bool:
        """Whether there is anything to train."""
        return self.parameters > 0 and not self.published


ASTP_NOTE = "three frames; layers whose result the official network drops are kept and not run; without memory loss"

PEERS: tuple[PeerEntry, ...] = (
    PeerEntry("identity", "no dehazing", Identity, 0),
    PeerEntry("clahe", "CLAHE on lightness (OpenCV)", partial(FrameByFrame, "clahe", clahe), 0),
    PeerEntry("dcp", "Dark channel prior, CVPR 2009", partial(FrameByFrame, "dcp", dark_channel_dehaze), 0),
    PeerEntry(
        "maxim-outdoor",
        "MAXIM, CVPR 2022, weights for RESIDE outdoors",
        partial(Maxim, "outdoor"),
        14_170_988,
        note="the makers' graph and weights, trained on RESIDE; computes in float32",
        published=True,
    ),
    PeerEntry(
        "maxim-indoor",
        "MAXIM, CVPR 2022, weights for RESIDE indoors",
        partial(Maxim, "indoor"),
        14_170_988,
        note="the makers' graph and weights, trained on RESIDE; computes in float32",
        published=True,
    ),
    PeerEntry(
        "dmphn",
        "DMPHN, CVPR workshops 2020, weights for NH-HAZE",
        Dmphn,
        5_424_393,
        note="the makers' weights, trained on real haze from a machine; paints texture into skies",
        published=True,
    ),
    PeerEntry("ffa-net", "FFA-Net, AAAI 2020", FfaNet, 4_455_913, "FFA-Net", "19 blocks per group, as released"),
    PeerEntry("msbdn-dff", "MSBDN-DFF, CVPR 2020", MsbdnDff, 31_353_061, "MSBDN-DFF"),
    PeerEntry("4kdehazing", "4KDehazing, CVPR 2021", FourKDehazing, 34_547_655, "4KDehazing"),
    PeerEntry(
        "dehamer",
        "DeHamer, CVPR 2022",
        Dehamer,
        29_450_464,
        "DeHamer",
        "built from counts that add up; the 103 million parameters that the official network never uses are left out",
    ),
    PeerEntry("dehazeformer-t", "DehazeFormer-T, TIP 2023", partial(DehazeFormer, "t"), 687_404),
    PeerEntry("dehazeformer-s", "DehazeFormer-S, TIP 2023", partial(DehazeFormer, "s"), 1_284_884),
    PeerEntry("dehazeformer-b", "DehazeFormer-B, TIP 2023", partial(DehazeFormer, "b"), 2_517_612, "DehazeFormer"),
    PeerEntry(
        "map-net",
        "MAP-Net, CVPR 2023",
        MapNet,
        28_750_383,
        "MAP-Net",
        "causal; the memory of haze priors is limited to 32 frames; auxiliary heads are unused without its own losses",
    ),
    PeerEntry(
        "pm-net",
        "PM-Net, ACM MM 2022",
        PmNet,
        151_197_743,
        "PM-Net",
        "built from counts that add up; that the phase of the memory is that of the past hazy frame is our choice",
    ),
    PeerEntry(
        "viws-net",
        "ViWS-Net, ICCV 2023",
        ViwsNet,
        57_821_217,
        "ViWS-Net",
        "five frames, whole ones where the official network cuts tiles of 512; without its adversarial weather loss",
    ),
    PeerEntry("uhdformer", "UHDformer, AAAI 2024", UhdFormer, 339_323, "UHDformer"),
    PeerEntry(
        "dvd",
        "DVD, CVPR 2024",
        Dvd,
        4_286_669,
        "DVD",
        "second stage only, fed with frames at half size, because it doubles the size; the first stage is left out",
    ),
    PeerEntry(
        "dehazexl",
        "DehazeXL, CVPR 2025",
        DehazeXl,
        125_484_996,
        "DehazeXL",
        "exact global attention at every size; frames of any shape, the official network takes squares",
    ),
    PeerEntry(
        "dcl",
        "DCL, AAAI 2025, its dehazing network",
        Dcl,
        11_378_179,
        "DCL",
        "sees one frame; its depth network and its losses over frames serve training without pairs and are left out",
    ),
    PeerEntry("astp-net-t", "ASTP-Net-t, Visual Computer 2025", partial(AstpNet, "t"), 5_721_168, "", ASTP_NOTE),
    PeerEntry("astp-net-s", "ASTP-Net-s, Visual Computer 2025", partial(AstpNet, "s"), 10_563_336, "", ASTP_NOTE),
    PeerEntry("astp-net-b", "ASTP-Net-b, Visual Computer 2025", partial(AstpNet, "b"), 20_519_120, "", ASTP_NOTE),
    PeerEntry(
        "ds-tfn",
        "DS-TFN, Visual Computer 2025",
        DsTfn,
        57_581_822,
        "DS-TFN",
        "causal; after the public code of that name, which nothing states to be the paper's; memory and heads as "
        "in map-net",
    ),
    PeerEntry(
        "uhddip",
        "UHDDIP, TCSVT 2025",
        UhdDip,
        813_107,
        "UHDDIP",
        "normals of the brightness stand in for the outside estimator of surface normals; the facts at hand leave the "
        "place of two of the blocks in its mutual filter open",
    ),
)

ABSENT: dict[str, str] = {
    "cg-idn": "its makers released no code, and its widths, depths and frame count are not published",
}
"""Peers of the paper that cannot be rebuilt faithfully, and why."""


def peer_names() -> str:
    return ", ".join(entry.name for entry in PEERS)


def find_peer(name: str) -> PeerEntry:
    """Find a row by its name; a user's own network, `package.module:Class`, has one, too."""
    if is_own(name):
        count = sum(parameter.numel() for parameter in build_own(name).parameters())
        return PeerEntry(name, f"{name}, your own network", partial(build_own, name), count)
    for entry in PEERS:
        if entry.name == name:
            return entry
    if reason := ABSENT.get(name):
        raise InputError(f"{name} is not among the peers: {reason}")
    raise InputError(f"no peer is called {name!r}: expected one of {peer_names()}")


def is_peer(name: str) -> bool:
    """Whether the table, or the list of those that we cannot build, has this name, or it is that of a user's own."""
    return is_own(name) or name in ABSENT or any(entry.name == name for entry in PEERS)


def build_peer(name: str, *, seed: int = 0) -> Network:
    """Build a peer with fresh weights, which depend on the seed alone."""
    entry = find_peer(name)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return entry.build()


def load_peer(path: str | Path, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Network:
    """Load a peer from a checkpoint of our trainer, ready for inference.

    Raises:
        CheckpointError: The file is missing, damaged, or of another network.
    """
    header = read_header(path)
    if not is_peer(header.architecture):
        raise CheckpointError(f"{path} holds the weights of {header.architecture}, which is not a peer")
    peer = build_peer(header.architecture)
    assign_weights(peer, Path(path), dtype=dtype)
    peer.weights = header.weights
    return peer.to(device, dtype).eval()


def open_peer(
    name: str,
    weights: str | Path | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Network:
    """Open a peer by its name, ready for inference.

    Args:
        weights: A checkpoint of our trainer. Methods without weights have none.

    Raises:
        InputError: There is no such peer, or it needs weights that were not given.
        CheckpointError: The file does not hold this peer's weights.
    """
    entry = find_peer(name)
    if weights is not None:
        if not entry.trainable:
            what = "comes with its makers' weights" if entry.published else "has no weights"
            raise InputError(f"{name} {what}: leave out {weights}")
        found = read_header(weights).architecture
        if found != name:
            raise CheckpointError(f"expected the weights of {name}, {weights} holds those of {found}")
        return load_peer(weights, device=device, dtype=dtype)
    if entry.trainable:
        raise InputError(
            f"nobody publishes weights of {name} that we may ship: train it (libranet train RECIPE --set peer={name}) "
            "and give the checkpoint"
        )
    return entry.build().to(device, torch.float32 if entry.published else dtype).eval()
