"""LiBrA-Net: its configuration and its grids. `forward.py` has the forward pass, `stream.py` the streaming form."""

from dataclasses import dataclass

from torch import Tensor

from libranet.errors import InputError
from libranet.kernels.color_field.reference import estimate_transmission
from libranet.kernels.resample.reference import downsample, pad_to_multiple
from libranet.network.base import Network, WeightsInfo
from libranet.network.config import LiBrANetConfig
from libranet.network.forward import Steady, TorchOperations, restore
from libranet.network.layers import ChromaticField, Encoder, Refiner, TemporalField
from libranet.network.residual_haze import fold, plan, view_frame

MIN_SIZE = 16  # smallest height and width of a frame, in pixels


@dataclass(frozen=True)
class Grids:
    """What the fields predict for one window: coefficients in the Lie algebra, before the Cayley map."""

    chromatic: Tensor | None  # [B, 2, 12, bins, 16, 16], guided by red and by green
    temporal: Tensor | None  # [B, 12, T, 16, 16], or [B, 12, 1, 16, 16]: the centre plane alone
    clearing: Tensor | None = None  # [B, 9, 16, 16], a plan of `residual_haze.py` that is still to be folded in

    @property
    def plane(self) -> Tensor | None:  # [B, 12, 16, 16]
        """The centre plane of the temporal grid: tau = 0 lies exactly on it."""
        return None if self.temporal is None else self.temporal[:, :, self.temporal.shape[2] // 2]


@dataclass(frozen=True)
class Restoration:
    """One restored frame and what led to it."""

    image: Tensor  # [B, 3, H, W] in [0, 1]
    small: Tensor  # [B, 3, h, w] in [0, 1], restored by the colour field alone
    matrix: Tensor  # [B, 3, 3, h, w], A at each pixel of `small`
    offset: Tensor  # [B, 3, h, w], b at each pixel of `small`
    singular: Tensor  # [], how many pixels of the batch fell back to A = I
    grids: Grids

    def transmission(self) -> Tensor:  # [B, 1, h, w] in [0, 1]
        """Estimate the transmission in the matrices."""
        return estimate_transmission(self.matrix)


class LiBrANet(Network):
    """Restores the centre frame of a window of hazy frames.

    Examples:
        >>> net = LiBrANet().eval()
        >>> clear = net(frames)  # [B, T, 3, H, W] in [0, 1] -> [B, 3, H, W]
    """

    architecture = "libranet"
    config: LiBrANetConfig

    def __init__(self, config: LiBrANetConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or LiBrANetConfig()
        self.weights = WeightsInfo()
        self.chromatic = self.temporal = self.refiner = None
        if c.parts.chromatic_field:
            encoder = Encoder(c.encoder.widths, c.encoder.blocks, c.encoder.drop_path)
            self.chromatic = ChromaticField(
                encoder, hidden=c.fields.hidden, bins=c.fields.bins, dropout=c.fields.dropout
            )
        if c.parts.temporal_field:
            encoder = Encoder(c.encoder.widths, c.encoder.blocks, c.encoder.drop_path)
            self.temporal = TemporalField(
                encoder,
                hidden=c.fields.hidden,
                window=c.window,
                heads=c.fields.attention_heads,
                ffn_ratio=c.fields.ffn_ratio,
                dropout=c.fields.dropout,
            )
        if c.parts.refiner:
            self.refiner = Refiner(
                scale=c.scale,
                width=c.refiner.width,
                stream_blocks=c.refiner.stream_blocks,
                fusion_blocks=c.refiner.fusion_blocks,
                mix_kernel=c.refiner.mix_kernel,
            )

    @property
    def grid_side(self) -> int:
        """Height and width of the grids."""
        return self.config.grid_side

    def forward(
        self,
        frames: Tensor,  # [B, T, 3, H, W] in [0, 1], H and W at least 16; [B, 1, 3, H, W] with `still`
        *,
        strength: float = 1.0,
        still: bool = False,
    ) -> Tensor:  # [B, 3, H, W] in [0, 1], the dtype of `frames`
        """Restore the centre frame.

        Args:
            frames: The window.
            strength: Factor on the correction: 0 returns the input, 1 the network's answer.
            still: The window is one frame T times. The frame is given once and encoded once.

        Values outside [0, 1] are not looked for, because a GPU would have to be waited for: `check_values` does.

        Raises:
            InputError: The frames have the wrong shape, size or type.
        """
        self.check_window(frames, still=still)
        if frames.shape[0] == 0:
            return frames[:, 0]  # resampling takes no empty batch
        grids = self.predict_grids(frames, centre_only=True, still=still)
        centre = frames[:, frames.shape[1] // 2]
        if self.config.dense_fog:
            view = view_frame(self.encoder_input(centre), self.grid_side)
            grids = fold(grids, plan(grids, view))
        return self.restore(centre, grids, strength=strength).image

    def predict(
        self,
        frames: Tensor,  # [B, T + K - 1, 3, H, W] in [0, 1], or [B, K, 3, H, W] with `still`; not validated
        *,
        still: bool = False,
    ) -> Restoration:
        """The forward pass with everything a loss or an analysis needs, of K consecutive windows that share frames.

        Args:
            frames: The windows of each sequence.
            still: Each window is one frame T times, given once.

        Returns:
            The B * K restored centre frames, the K of each sequence in a row, their transforms, and the grids with all
            T planes of the temporal one.
        """
        return self.restore(self.centres(frames, still=still).flatten(0, 1), self.predict_grids(frames, still=still))

    def predict_grids(
        self,
        frames: Tensor,  # [B, T + K - 1, 3, H, W], or [B, K, 3, H, W] with `still`
        *,
        centre_only: bool = False,
        still: bool = False,
    ) -> Grids:
        """Predict the grids of K consecutive windows by both fields, those of each sequence in a row.

        Args:
            centre_only: Of the temporal grid, predict only the plane that is sliced.
            still: Each window is one frame T times, given and encoded once.
        """
        chromatic = temporal = None
        if self.temporal is not None:
            small = self.encoder_input(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
            features = self.temporal.encode(small.flatten(0, 1)).unflatten(0, frames.shape[:2])
            temporal = self.temporal.mix(self.windows(features, still=still), centre_only=centre_only)
            centre = self.centres(small, still=still).flatten(0, 1)
        else:
            centre = self.encoder_input(self.centres(frames, still=still).flatten(0, 1))
        if self.chromatic is not None:
            chromatic = self.chromatic(centre)
        return Grids(chromatic, temporal)

    def encoder_input(self, frames: Tensor) -> Tensor:  # [N, 3, H, W] -> [N, 3, S, S] in [-1, 1]
        """The encoders' input: a small square, centred on zero, so that zero padding is mid-grey and not black."""
        size = self.config.encoder.size
        small = downsample(pad_to_multiple(frames, self.config.scale), (size, size))
        return (small * 2.0 - 1.0).to(self.dtype)

    def restore(
        self,
        frame: Tensor,  # [B, 3, H, W] in [0, 1]
        grids: Grids,
        *,
        strength: float = 1.0,
        steady: Steady | None = None,
    ) -> Restoration:
        """Restore one frame by its grids (`forward.py`), with its transforms."""
        ops = TorchOperations(self)
        image, small = restore(frame, grids, ops, strength=strength, steady=steady)
        assert ops.transform is not None
        return Restoration(image, small, *ops.transform, grids)

    def predict_chromatic(self, small: Tensor) -> Tensor | None:  # [B, 3, S, S] -> [B, 2, 12, bins, 16, 16]
        """The chromatic grids of frames, from the encoders' input."""
        return None if self.chromatic is None else self.chromatic(small)

    def encode_temporal(self, small: Tensor) -> Tensor | None:  # [B, 3, S, S] -> [B, C, 16, 16]
        """The temporal features of frames, from the encoders' input."""
        return None if self.temporal is None else self.temporal.encode(small)

    def mix_window(self, features: Tensor) -> Tensor:  # [B, T, C, 16, 16] -> [B, 12, 1, 16, 16]
        """The plane of the temporal grid that is sliced, from the features of a window."""
        assert self.temporal is not None
        return self.temporal.mix(features, centre_only=True)

    def check_window(self, frames: Tensor, *, still: bool = False) -> None:
        """Raise InputError for frames that the network cannot restore."""
        if frames.dim() != 5:
            raise InputError(f"expected frames as [B, T, 3, H, W], got shape {tuple(frames.shape)}")
        length = 1 if still else self.config.window
        if frames.shape[1] != length:
            what = "a still window as T=1 frame" if still else f"a window of T={length} frames"
            raise InputError(f"expected {what}, got T={frames.shape[1]}")
        check_frames(frames)


def check_frames(frames: Tensor) -> None:  # [..., 3, H, W]
    """Check that these are RGB frames of usable size and type, without a look at their values."""
    channels, height, width = frames.shape[-3:]
    if channels != 3:
        raise InputError(f"expected 3 colour channels, got {channels}")
    if min(height, width) < MIN_SIZE:
        raise InputError(f"expected frames of at least {MIN_SIZE}x{MIN_SIZE} pixels, got {width}x{height}")
    if not frames.is_floating_point():
        raise InputError(f"expected floating-point frames in [0, 1], got {frames.dtype}: divide by 255 first")
