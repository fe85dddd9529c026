"""Sound in another codec, where the user asks for it or the container needs it."""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, Literal, get_args

import av

from libranet.errors import InputError

AudioCodec = Literal["aac", "opus", "flac", "ac3", "mp3", "mp2", "pcm"]

AUDIO_CHOICES = ("copy", "none", *get_args(AudioCodec))
"""What may happen to sound: copied, left out, or transcoded."""
AUDIO_ENCODERS = {"opus": "libopus", "mp3": "libmp3lame", "pcm": "pcm_s16le"}
"""FFmpeg's names of encoders, where they are not ours."""
_BITS_PER_CHANNEL = {"aac": 96_000, "opus": 80_000, "ac3": 112_000, "mp3": 112_000, "mp2": 128_000}
_ONLY_RATE = 48_000
"""Of Opus and in MXF."""


class AudioTranscoder:
    """Decodes packets of one sound track and encodes them again. Times stay."""

    def __init__(self, source: Any, container: Any, codec: str) -> None:
        """Add a track to the container of an output.

        Raises:
            InputError: The sound of the source's stream cannot be decoded.
        """
        context = source.codec_context
        if context is None:
            raise InputError(f"the sound of stream {source.index} cannot be decoded: leave it out with --audio none")
        decoder = av.CodecContext.create(context.name, "r")
        assert isinstance(decoder, av.AudioCodecContext)
        decoder.extradata = context.extradata
        decoder.sample_rate, decoder.layout = context.sample_rate, context.layout
        self._decoder, self._source = decoder, source
        self.damaged = 0
        """Packets that could not be decoded."""
        encoder = AUDIO_ENCODERS.get(codec, codec)
        rates = av.codec.Codec(encoder, "w").audio_rates or [context.sample_rate]
        if codec == "opus" or container.format.name == "mxf":
            rates = [_ONLY_RATE]
        rate = min(rates, key=lambda known: abs(known - context.sample_rate))
        self.target = container.add_stream(encoder, rate=rate, time_base=Fraction(1, rate))
        self._encoder = self.target.codec_context
        self._encoder.layout = context.layout.name
        if bits := _BITS_PER_CHANNEL.get(codec):
            self._encoder.bit_rate = bits * context.layout.nb_channels
        if codec == "flac" and context.format.name.startswith(("s32", "flt", "dbl")):
            self._encoder.format = "s32"

    def packets(self, packet: av.Packet) -> Iterator[av.Packet]:
        """Decode a packet and yield what the encoder gives. Damaged packets are left out and counted."""
        try:
            frames = self._decoder.decode(packet)
        except av.FFmpegError:
            self.damaged += 1
            return
        for frame in frames:
            if frame.time_base is None:
                frame.time_base = self._source.time_base
            yield from self._encode(frame)

    def finish(self) -> Iterator[av.Packet]:
        """Drain decoder and encoder."""
        with suppress(av.FFmpegError, EOFError):
            for frame in self._decoder.decode(None):
                yield from self._encode(frame)
        if self._encoder.is_open:
            yield from self._encode(None)

    def _encode(self, frame: av.AudioFrame | None) -> Iterator[av.Packet]:
        for packet in self._encoder.encode(frame):
            packet.stream = self.target
            yield packet
