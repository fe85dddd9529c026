"""A user's own network, by its name `package.module:Class`, behind the interface that every command takes."""

from torch import Tensor, nn

from libranet.errors import InputError
from libranet.extension import load_own
from libranet.network.base import Network, WeightsInfo
from libranet.network.libranet import LiBrANet
from libranet.network.peer import Peer, PeerConfig


class OwnNetwork(Peer):
    """Any module that restores a frame: [B, 3, H, W] to [B, 3, H, W], or [B, T, 3, H, W] with `past` or `future`.

    The module may have integers `past` and `future`, the neighbouring frames that it looks at, and `divisor`: height
    and width are padded to multiples of it.
    """

    def __init__(self, name: str, module: nn.Module) -> None:
        past, future, divisor = (int(getattr(module, key, least)) for key, least in _SETTINGS.items())
        super().__init__(PeerConfig(name, past=past, future=future, divisor=divisor))
        self.module = module

    def restore(self, frames: Tensor) -> Tensor:
        c = self.config
        restored = self.module(frames if c.past or c.future else frames[:, 0])
        centre = frames[:, c.past]
        if not isinstance(restored, Tensor) or restored.shape != centre.shape:
            found = tuple(restored.shape) if isinstance(restored, Tensor) else type(restored).__name__
            raise InputError(
                f"expected {c.name} to return one frame {tuple(centre.shape)} for {tuple(frames.shape)}, got {found}"
            )
        return restored


_SETTINGS = {"past": 0, "future": 0, "divisor": 1}


def build_own(name: str) -> Network:
    """Build a user's own network, `package.module:Class`. The class is called without arguments."""
    make = load_own(name)
    try:
        made = make()
    except TypeError as error:
        raise InputError(f"expected {name} to be made without arguments: {error}") from error
    if not isinstance(made, nn.Module):
        raise InputError(f"expected {name} to make a torch module, got {type(made).__name__}")
    if isinstance(made, Network) and not isinstance(made, (Peer, LiBrANet)):
        raise InputError(f"{name} extends Network itself: extend libranet.network.peer.Peer, or torch's nn.Module")
    network = made if isinstance(made, Network) else OwnNetwork(name, made)
    network.architecture = name  # what its checkpoints say
    network.weights = WeightsInfo(name.partition(":")[2], "as built")
    return network
