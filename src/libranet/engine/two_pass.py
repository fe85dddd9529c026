"""Two passes at a given bit rate: restored frames are stored without loss, then encoded twice as one stream."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import av

from libranet.engine.options import Phase, Progress, translate_io_errors
from libranet.engine.segments import RESUME_HINT, RunFolder
from libranet.errors import InputError
from libranet.video.encoder import EncoderSettings, encoder_frame, open_encoder, pick_pixel_format
from libranet.video.encoder_options import encoder_options, pass_options
from libranet.video.packets import PacketLog, StoredPacket, read_segment
from libranet.video.pixels import layout_of, plane_views, to_planar
from libranet.video.reader import SourceFrame

Carriers = Callable[[], Iterator[SourceFrame]]
"""Frames of the source in the output's form. Their side data goes to the encoder with the restored samples."""


def lossless_settings(settings: EncoderSettings) -> EncoderSettings:
    """Return the settings of the segments that hold the frames between the network and the two passes."""
    layout = layout_of(settings.pixel_format)
    chosen = pick_pixel_format("ffv1", layout, exact=True)
    assert chosen is not None
    assert chosen[0] == settings.pixel_format
    options = encoder_options("ffv1", crf=None, preset=None, layout=layout, tags=settings.tags)
    name = "" if chosen[1] == chosen[0] else chosen[1]
    return replace(settings, codec="ffv1", options=options, encoder_format=name, lossless=True)


def encode_twice(
    folder: RunFolder,
    settings: EncoderSettings,
    carriers: Carriers,
    *,
    progress: Callable[[Progress], None] | None,
) -> Path:
    """Encode all frames of a run's lossless segments in two passes. Return the segment that holds the result.

    `carriers` opens the source again.
    """
    final = folder.segment_file(0).with_name("two-passes.packets")
    if final.exists():
        return final
    begin = time.perf_counter()

    def report(number: int, count: int) -> None:
        if progress is not None:
            fps = ((number - 1) * folder.frames + count) / max(1e-9, time.perf_counter() - begin)
            phase: Phase = "first pass" if number == 1 else "second pass"
            progress(Progress(count, folder.frames, fps, "encode", phase))

    with translate_io_errors(folder.path, RESUME_HINT), tempfile.TemporaryDirectory() as place:
        for number in (1, 2):
            chosen = pass_options(settings, number, Path(place) / "statistics")
            log = PacketLog(final) if number == 2 else None
            stored = _stored_frames(folder, lossless_settings(settings))
            try:
                _encode(stored, carriers(), chosen, log, partial(report, number))
            except BaseException:
                if log is not None:
                    log.discard()
                raise
    return final


def _encode(
    stored: Iterator[tuple[StoredPacket, av.VideoFrame]],
    carriers: Iterator[SourceFrame],
    settings: EncoderSettings,
    log: PacketLog | None,
    report: Callable[[int], None],
) -> None:
    encoder = open_encoder(settings)
    durations: dict[int, int] = {}

    def store(packets: list[av.Packet]) -> None:
        for packet in packets:
            if log is not None:
                log.add(packet, durations.pop(packet.pts or 0, 0))

    for count, (packet, frame) in enumerate(stored, start=1):
        carrier = next(carriers, None)
        if carrier is None:
            raise InputError("the source gives fewer frames than before: leave out --resume to start over")
        image = carrier.image
        for target, source in zip(plane_views(image), plane_views(to_planar(frame)), strict=True):
            target[...] = source
        image.pts, image.time_base = packet.pts, settings.time_base
        image.pict_type = 0
        durations[packet.pts] = packet.duration
        store(encoder.encode(encoder_frame(image, settings)))
        report(count)
    store(encoder.encode(None))
    if log is not None:
        log.finish()


def _stored_frames(folder: RunFolder, settings: EncoderSettings) -> Iterator[tuple[StoredPacket, av.VideoFrame]]:
    extradata = open_encoder(settings).extradata
    for path in folder.segment_paths:
        decoder = av.CodecContext.create("ffv1", "r")
        assert isinstance(decoder, av.VideoCodecContext)
        decoder.extradata = extradata
        decoder.width, decoder.height = settings.width, settings.height
        decoder.thread_type = "SLICE"  # no delay: one packet in, one frame out
        for stored in read_segment(path):
            packet = av.Packet(stored.data)
            packet.pts, packet.time_base = stored.pts, settings.time_base
            for frame in decoder.decode(packet):
                assert isinstance(frame, av.VideoFrame)
                yield stored, frame
