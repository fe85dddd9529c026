"""Everything that shapes the network, in groups. Stored with the weights; the defaults are the shipped model."""

from dataclasses import asdict, dataclass, field
from typing import Any

from libranet.errors import InputError
from libranet.typed import check_types

_LARGEST = 4096  # of any number here: beyond it no memory would hold the network
_MOST_STAGES = 8


@dataclass(frozen=True)
class EncoderConfig:
    """The two encoders: the same structure, own weights."""

    size: int = 256
    """Side of the square that they see; the aspect ratio is not kept."""
    widths: tuple[int, ...] = (24, 48, 96, 192)
    """Channels of the stride-2 stages."""
    blocks: int = 2
    """Residual blocks per stage."""
    drop_path: float = 0.1
    """Stochastic depth of the deepest block while training; shallower blocks have less."""

    def __post_init__(self) -> None:
        check_types(self)
        if not 1 <= len(self.widths) <= _MOST_STAGES:
            raise InputError(f"expected 1 to {_MOST_STAGES} encoder.widths, got {len(self.widths)}")
        stride = 2 ** len(self.widths)
        if not stride <= self.size <= _LARGEST or self.size % stride:
            raise InputError(f"expected encoder.size a multiple of {stride} up to {_LARGEST}, got {self.size}")
        _check_widths(*self.widths)
        _check_counts(blocks=self.blocks)
        _check_rate("encoder.drop_path", self.drop_path)


@dataclass(frozen=True)
class FieldsConfig:
    """The chromatic and the temporal field behind the encoders."""

    bins: int = 8
    """Cells of a chromatic grid along its colour axis."""
    hidden: int = 272
    """Channels between the two convolutions of a grid head."""
    attention_heads: int = 8
    """Heads of the attention along time."""
    ffn_ratio: int = 4
    """Width of the feed-forward layer after the attention, in multiples of its input."""
    dropout: float = 0.1
    """Dropout2d in the grid heads while training."""

    def __post_init__(self) -> None:
        check_types(self)
        heads = self.attention_heads
        _check_counts(bins=self.bins, hidden=self.hidden, ffn_ratio=self.ffn_ratio, attention_heads=heads)
        _check_rate("fields.dropout", self.dropout)


@dataclass(frozen=True)
class RefinerConfig:
    """The refiner at 1/p of the frame's size."""

    width: int = 64
    """Channels."""
    stream_blocks: int = 1
    """Residual blocks in each of the two streams."""
    fusion_blocks: int = 1
    """Residual blocks after the streams have met."""
    mix_kernel: int = 1
    """Kernel size of the second convolution of a block: 1 or 3."""

    def __post_init__(self) -> None:
        check_types(self)
        _check_widths(self.width)
        _check_counts(stream_blocks=self.stream_blocks)
        if not 0 <= self.fusion_blocks <= _LARGEST:
            raise InputError(f"expected refiner.fusion_blocks from 0 to {_LARGEST}, got {self.fusion_blocks}")
        if self.mix_kernel not in (1, 3):
            raise InputError(f"expected refiner.mix_kernel 1 or 3, got {self.mix_kernel}")


@dataclass(frozen=True)
class PartsConfig:
    """Which parts there are. Each switch off is a variant of the paper's ablation."""

    chromatic_field: bool = True
    temporal_field: bool = True
    refiner: bool = True
    """False: the output is the small restored frame, enlarged."""
    cayley: bool = True
    """False: A = I + M."""
    adaptive_slicing: bool = True
    """False: slices at the encoders' size instead of at 1/p of the frame's."""

    def __post_init__(self) -> None:
        check_types(self)
        if not (self.chromatic_field or self.temporal_field):
            raise InputError(
                "expected at least one affine field, got parts.chromatic_field=False and parts.temporal_field=False"
            )

    @property
    def full(self) -> bool:
        """Whether this is the full design, which our kernels compute."""
        return self == PartsConfig()


@dataclass(frozen=True)
class LiBrANetConfig:
    """The configuration of a network."""

    window: int = 5
    """Frames the network looks at, T: 1, 3, 5 or 7. The centre one is restored."""
    scale: int = 4
    """p: slicing and refining happen at 1/p of the frame's size."""
    dense_fog: bool = False
    """Clear what the fields leave of dense fog (`residual_haze.py`). Neither a part of the paper's network nor of its
    training, so it is not stored: `runtime.load_network` switches it on, `load_model` does not."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    fields: FieldsConfig = field(default_factory=FieldsConfig)
    refiner: RefinerConfig = field(default_factory=RefinerConfig)
    parts: PartsConfig = field(default_factory=PartsConfig)

    def __post_init__(self) -> None:
        check_types(self)
        if self.window not in (1, 3, 5, 7):
            raise InputError(f"expected an odd window length of 1, 3, 5 or 7, got T={self.window}")
        _check_counts(scale=self.scale)
        if self.dense_fog and not self.has_both_fields:
            raise InputError("expected both affine fields and Cayley's map for dense_fog=True, got a network without")
        if self.encoder.widths[-1] % self.fields.attention_heads:
            heads = self.fields.attention_heads
            raise InputError(f"expected fields.attention_heads to divide {self.encoder.widths[-1]}, got {heads}")

    @property
    def least_weights(self) -> int:
        """A number of weights that every network of this configuration exceeds, known without building it."""
        deepest = self.encoder.widths[-1]
        weights = sum(width * width for width in self.encoder.widths) * self.encoder.blocks
        weights += self.fields.hidden * (deepest + self.fields.bins if self.parts.chromatic_field else deepest)
        weights += self.fields.ffn_ratio * deepest**2 if self.parts.temporal_field else 0
        blocks = self.refiner.stream_blocks + self.refiner.fusion_blocks
        return weights + (blocks * self.refiner.width**2 if self.parts.refiner else 0)

    @property
    def grid_side(self) -> int:
        """Height and width of the grids."""
        return self.encoder.size >> len(self.encoder.widths)

    @property
    def has_both_fields(self) -> bool:
        """Whether the network has what `dense_fog` changes."""
        return self.parts.chromatic_field and self.parts.temporal_field and self.parts.cayley

    def stored(self) -> dict[str, Any]:
        """The settings as a checkpoint's header has them: flat, by the names of `_STORED`."""
        groups = asdict(self)
        return {name: groups[group][key] if group else groups[key] for name, (group, key) in _STORED.items()}

    @classmethod
    def from_stored(cls, settings: dict[str, Any]) -> "LiBrANetConfig":
        """The configuration that a checkpoint's header has; what it does not say is the default.

        Raises:
            InputError: A value does not fit.
            KeyError: A setting is unknown.
        """
        groups: dict[str, dict[str, Any]] = {"": {}, "encoder": {}, "fields": {}, "refiner": {}, "parts": {}}
        for name, value in settings.items():
            group, key = _STORED[name]
            groups[group][key] = tuple(value) if isinstance(value, list) else value
        return cls(
            **groups[""],
            encoder=EncoderConfig(**groups["encoder"]),
            fields=FieldsConfig(**groups["fields"]),
            refiner=RefinerConfig(**groups["refiner"]),
            parts=PartsConfig(**groups["parts"]),
        )


_STORED = {
    "window": ("", "window"),
    "encoder_size": ("encoder", "size"),
    "encoder_widths": ("encoder", "widths"),
    "encoder_blocks": ("encoder", "blocks"),
    "bins": ("fields", "bins"),
    "head_hidden": ("fields", "hidden"),
    "attention_heads": ("fields", "attention_heads"),
    "ffn_ratio": ("fields", "ffn_ratio"),
    "scale": ("", "scale"),
    "refiner_width": ("refiner", "width"),
    "refiner_stream_blocks": ("refiner", "stream_blocks"),
    "refiner_fusion_blocks": ("refiner", "fusion_blocks"),
    "refiner_mix_kernel": ("refiner", "mix_kernel"),
    "drop_path": ("encoder", "drop_path"),
    "dropout": ("fields", "dropout"),
    "chromatic_field": ("parts", "chromatic_field"),
    "temporal_field": ("parts", "temporal_field"),
    "refiner": ("parts", "refiner"),
    "cayley": ("parts", "cayley"),
    "adaptive_slicing": ("parts", "adaptive_slicing"),
}
"""Where a setting of a checkpoint's header is: its group and its name there."""


def _check_widths(*widths: int) -> None:
    for width in widths:
        if not 8 <= width <= _LARGEST or width % 8:
            raise InputError(f"expected widths that are multiples of 8 up to {_LARGEST}, got {width}")


def _check_counts(**values: int) -> None:
    for name, value in values.items():
        if not 1 <= value <= _LARGEST:
            raise InputError(f"expected {name} from 1 to {_LARGEST}, got {value}")


def _check_rate(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise InputError(f"expected {name} in [0, 1), got {value}")


SMALL = LiBrANetConfig(
    encoder=EncoderConfig(widths=(16, 32, 64, 96), blocks=1),
    fields=FieldsConfig(hidden=112),
    refiner=RefinerConfig(width=16, fusion_blocks=2),
)
"""`libranet-small`: under 2.5 MB in half precision and under 60 GFLOPs at 4K, within what the fused kernels cover."""
