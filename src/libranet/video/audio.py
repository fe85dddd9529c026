"""Sound in another codec, where the user asks for it or the container needs it."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av

from libranet.errors import InputError

AUDIO_ENCODERS = {"opus": "libopus", "mp3": "libmp3lame", "pcm": "pcm_s16le"}
"""FFmpeg's names of encoders, where they are not ours."""
_BITS_PER_CHANNEL = {"aac": 96_000, "opus": 80_000, "ac3": 112_000, "mp3": 112_000, "mp2": 128_000}
_ONLY_RATE = 48_000
"""Of Opus and in MXF."""


def _named_layout(layout: av.AudioLayout) -> str:
    """Return the name of a layout. Old files only count their channels, which no encoder but FLAC takes."""
    usual = dict(enumerate(("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1"), start=1))
    counted = layout.name == f"{layout.nb_channels} channels"
    return usual.get(layout.nb_channels, layout.name) if counted else layout.name


class AudioTranscoder:
    """Encodes decoded sound. Times stay."""

    def __init__(self, source: Any, container: Any, codec: str) -> None:
        """Add a track to the container of an output.

        Raises:
            InputError: The sound of the source's stream cannot be decoded.
        """
        context = source.codec_context
        # A damaged header may name a codec and no rate, channels or format.
        if context is None or not (context.sample_rate and context.layout.nb_channels and context.format):
            raise InputError(f"the sound of stream {source.index} cannot be decoded: leave it out with --audio none")
        encoder = AUDIO_ENCODERS.get(codec, codec)
        rates = av.codec.Codec(encoder, "w").audio_rates or [context.sample_rate]
        if codec == "opus" or container.format.name == "mxf":
            rates = [_ONLY_RATE]
        rate = min(rates, key=lambda known: abs(known - context.sample_rate))
        self.target = container.add_stream(encoder, rate=rate, time_base=Fraction(1, rate))
        self._encoder = self.target.codec_context
        self._encoder.layout = _named_layout(context.layout)
        if bits := _BITS_PER_CHANNEL.get(codec):
            self._encoder.bit_rate = bits * context.layout.nb_channels
        if codec == "flac" and context.format.name.startswith(("s32", "flt", "dbl")):
            self._encoder.format = "s32"

    def packets(self, frames: list[av.AudioFrame], shift: Fraction) -> Iterator[av.Packet]:
        """Yield what the encoder gives for frames that come earlier by `shift` seconds."""
        for frame in frames:
            assert frame.pts is not None
            frame.pts -= round(shift / (frame.time_base or 1))
            yield from self._encode(frame)

    def finish(self) -> Iterator[av.Packet]:
        """Drain the encoder."""
        if self._encoder.is_open:
            yield from self._encode(None)

    def _encode(self, frame: av.AudioFrame | None) -> Iterator[av.Packet]:
        for packet in self._encoder.encode(frame):
            packet.stream = self.target
            yield packet
