"""Damage that one number makes, in containers whose readers then leave frames out and say nothing."""

import shutil
import struct
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from clips import Clip, write_clip
from libranet.errors import InputError
from libranet.image_structure import find_image_damage
from libranet.images import read_images
from libranet.video.reader import open_video
from libranet.video.structure import find_breaks
from libranet.video.structure.breaks import is_sound

FFMPEG = shutil.which("ffmpeg")
B_FRAMES = Clip(frames=30, options=(("bf", "3"), ("g", "10"), ("threads", "1")))


def read(path: Path) -> tuple[int, str]:
    """Number of frames, and what is said about damage."""
    with open_video(path) as reader:
        return len(list(reader.frames())), reader.damage.sentence()


def box(data: bytes, name: bytes) -> int:
    """Where the content of a box begins."""
    return data.index(name) + 4


@pytest.fixture(scope="module")
def mp4(tmp_path_factory) -> bytes:
    return write_clip(tmp_path_factory.mktemp("mp4") / "a.mp4", B_FRAMES).read_bytes()


@pytest.mark.parametrize(
    ("name", "offset", "value"),
    [
        (b"ctts", 8 + 8 * 11 + 4, 0xCF000000),  # one frame is shown long after all others
        (b"ctts", 8 + 8 * 11 + 4, 77 * 512 + 100),  # and off the clock
        (b"ctts", 8 + 8 * 11, 231),  # one offset for too many samples
        (b"elst", 12, 1024 + 155),  # the edit begins inside of the first frame and ends behind the last
        (b"elst", 8, 400),  # it shows a third, which the track's header denies
        (b"stsz", 8, 12),
        (b"stsz", 12 + 4 * 20, 0xDC000000),  # a sample that is longer than the file
    ],
)
def test_tables_of_an_mp4_file_that_contradict_each_other(mp4, tmp_path, name, offset, value):
    data = bytearray(mp4)
    at = box(data, name) + offset
    data[at : at + 4] = value.to_bytes(4, "big")
    (tmp_path / "a.mp4").write_bytes(data)
    frames, said = read(tmp_path / "a.mp4")
    assert "contradict each other" in said, frames


@pytest.mark.parametrize("name", [b"mdhd", b"stts", b"tkhd"])
def test_a_box_of_the_index_that_lost_its_name(mp4, tmp_path, name):
    data = mp4.replace(name, name[:1] + b"\x10" + name[2:])
    assert data != mp4
    (tmp_path / "a.mp4").write_bytes(data)
    assert "belong to no part" in find_breaks(tmp_path / "a.mp4", "mov,mp4,m4a,3gp,3g2,mj2").sentence()
    (tmp_path / "a.mp4").write_bytes(mp4.replace(name, b"q" + name[1:]))
    assert "missing or contradict" in find_breaks(tmp_path / "a.mp4", "mov,mp4,m4a,3gp,3g2,mj2").sentence()


def test_a_fragment_without_samples(mp4, tmp_path):
    (tmp_path / "a.mp4").write_bytes(mp4)
    with (
        av.open(str(tmp_path / "a.mp4")) as given,
        av.open(str(tmp_path / "b.mp4"), "w", container_options={"movflags": "frag_keyframe+empty_moov"}) as container,
    ):
        copied = container.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = copied
                container.mux(packet)
    assert read(tmp_path / "b.mp4") == (30, "")
    data = bytearray((tmp_path / "b.mp4").read_bytes())
    at = data.rindex(b"trun")
    data[at : at + 4] = b"tHun"
    (tmp_path / "b.mp4").write_bytes(data)
    frames, said = read(tmp_path / "b.mp4")
    assert frames < 30
    assert "missing or contradict" in said


@pytest.mark.skipif(FFMPEG is None, reason="Debian's ffmpeg is not installed")
@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".nut", ".flv", ".ts", ".m2ts"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("-ss 0.7", ""), ("-ss 0.7", "-t 0.31"), ("", "-t 0.53"), ("", "-ss 0.5 -t 0.43"), ("-itsoffset 1.5", "")],
)
def test_copies_of_a_part_raise_no_alarm(mp4, tmp_path, suffix, before, after):
    """They begin before a key frame that is shown, and lack frames that would be shown before the last ones."""
    assert FFMPEG is not None
    (tmp_path / "a.mp4").write_bytes(mp4)
    output = tmp_path / f"b{suffix}"
    command = [FFMPEG, "-v", "error", *before.split(), "-i", tmp_path / "a.mp4", *after.split(), "-c", "copy", output]
    subprocess.run(command, check=True)
    frames, said = read(output)
    assert frames > 0
    assert said == ""


@pytest.fixture(scope="module", params=["ffv1 flac", "libx264 aac", "mpeg4 libmp3lame"])
def nut(request, tmp_path_factory) -> bytes:
    codec, audio = request.param.split()
    clip = Clip(codec=codec, frames=8, audio=(audio,), time_base=Fraction(1, 25))
    return write_clip(tmp_path_factory.mktemp("nut") / "a.nut", clip).read_bytes()


def test_every_frame_of_nut_is_followed(nut, tmp_path):
    path = tmp_path / "a.nut"
    path.write_bytes(nut)
    assert read(path) == (8, "")
    for share in (0.3, 0.5, 0.7, 0.9):
        at = int(share * len(nut))
        hole = min(len(nut) // 4, len(nut) - at)  # longer than a frame
        for data in (nut[:at] + bytes(hole) + nut[at + hole :], nut[:at] + nut[at + 600 :], nut[:at]):
            path.write_bytes(data)
            assert read(path)[1], share


def test_a_packet_of_nut_whose_checksum_is_wrong(nut, tmp_path):
    at = nut.index(b"NX\xdd\x67\x2f\x23\xe6\x4e") + 10
    (tmp_path / "a.nut").write_bytes(nut[:at] + bytes([nut[at] ^ 1]) + nut[at + 1 :])
    assert "belong to no part" in read(tmp_path / "a.nut")[1]


def test_the_checksum_of_ogg_and_nut():
    assert is_sound(b"123456789" + struct.pack(">I", 0x89A1897F))  # CRC-32 with polynomial 04C11DB7 that begins at 0
    assert not is_sound(b"123456780" + struct.pack(">I", 0x89A1897F))


def test_a_page_of_ogg_that_changed(tmp_path):
    path = write_clip(tmp_path / "a.ogv", Clip(codec="libvpx", frames=20))
    data = path.read_bytes()
    assert not find_breaks(path, "ogg")
    at = data.rindex(b"OggS") + 200
    path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    assert "belong to no part" in find_breaks(path, "ogg").sentence()


def test_a_frame_of_a_transport_stream_that_lost_its_start_code(tmp_path):
    path = write_clip(tmp_path / "a.ts", Clip(frames=8, options=(("bf", "0"), ("g", "100"))))
    data = path.read_bytes()
    assert read(path) == (8, "")
    at = data.index(b"\0\0\0\1\x41", len(data) // 2)
    path.write_bytes(data[: at + 2] + b"\4" + data[at + 3 :])
    frames, said = read(path)
    assert frames == 7
    assert "1 packets of the video could not be read" in said


def test_a_frame_of_a_transport_stream_that_is_shorter_than_it_says(tmp_path):
    """Here frames have their sizes. One packet in the middle becomes a filling one."""
    path = tmp_path / "a.ts"
    with av.open(str(path), "w", container_options={"omit_video_pes_length": "0"}) as container:
        source = write_clip(tmp_path / "a.mp4", Clip(frames=8, options=(("bf", "0"),)))
        with av.open(str(source)) as given:
            copied = container.add_stream_from_template(given.streams.video[0])
            for packet in given.demux(video=0):
                if packet.dts is not None:
                    packet.stream = copied
                    container.mux(packet)
    data = bytearray(path.read_bytes())
    assert read(path) == (8, "")
    heads = [at for at in range(0, len(data), 188) if data[at + 1] & 0x40 and data[at + 2] == 0]
    at = data.index(b"\0\0\1\xe0", heads[len(heads) // 2])
    size = int.from_bytes(data[at + 4 : at + 6], "big")
    assert size > 0
    data[at + 4 : at + 6] = (size + 50).to_bytes(2, "big")
    path.write_bytes(data)
    assert "pieces of 1 packets of the video are missing" in read(path)[1]
    path.write_bytes(data[: len(data) - 188 * 2])  # the last frame, too, lacks its end
    assert "pieces of 2 packets" in read(path)[1]


def test_a_byte_too_many_in_packets_with_a_clock(tmp_path):
    """Each packet of a Blu-ray or camcorder has four bytes before it: the first one of them is a cut."""
    path = write_clip(tmp_path / "a.m2ts", Clip(frames=8))
    data = path.read_bytes()
    for size, cut in ((len(data) - 192, False), (len(data) - 191, True), (len(data) - 189, True)):
        path.write_bytes(data[:size])
        assert find_breaks(path, "mpegts").cut == cut


def test_a_tag_of_flash_video_with_another_codec(tmp_path):
    path = write_clip(tmp_path / "a.flv", Clip(frames=8))
    data = path.read_bytes()
    assert find_breaks(path, "flv").video_packets == 8
    at = data.rindex(b"\x27\x01")
    path.write_bytes(data[:at] + b"\xa9" + data[at + 1 :])
    frames, said = read(path)
    assert frames == 7
    assert "1 packets of the file belong to no stream" in said


def test_a_key_of_mxf_with_one_wrong_byte(tmp_path):
    path = write_clip(tmp_path / "a.mxf", Clip(codec="mpeg2video", frames=8, time_base=1 / Clip.rate))
    data = path.read_bytes()
    assert read(path) == (8, "")
    at = data.rindex(bytes.fromhex("060e2b34010201010d01030115"))
    path.write_bytes(data[: at + 5] + b"\x37" + data[at + 6 :])
    assert "1 packets of the file belong to no stream" in read(path)[1]


def test_a_first_key_frame_that_gives_no_frame(tmp_path):
    path = write_clip(tmp_path / "a.mxf", Clip(codec="mpeg2video", frames=8, time_base=1 / Clip.rate))
    with av.open(str(path)) as container:
        first = bytes(next(container.demux(video=0)))
    header = first.index(b"\0\0\1\0") + 8  # of the picture; nothing behind it is found again
    data = path.read_bytes().replace(first, first[:header] + b"\xff" * (len(first) - header))
    path.write_bytes(data)
    frames, said = read(path)
    assert frames == 7
    assert "1 packets of the video gave no frame" in said


def test_a_missing_piece_of_a_program_stream(tmp_path):
    path = write_clip(tmp_path / "a.mpg", Clip(codec="mpeg2video", frames=20, audio=("mp2",), time_base=1 / Clip.rate))
    data = path.read_bytes()
    assert not find_breaks(path, "mpeg")
    path.write_bytes(data + bytes(3000))
    assert not find_breaks(path, "mpeg")
    path.write_bytes(data[:9000] + data[9100:])
    assert "belong to no part" in find_breaks(path, "mpeg").sentence()


def animation(path: Path) -> bytes:
    animation = cv2.Animation()
    images = [np.random.default_rng(seed).integers(0, 255, (32, 48, 3), np.uint8) for seed in range(2)]
    animation.frames, animation.durations = images, [50, 50]
    cv2.imwriteanimation(str(path), animation)
    return path.read_bytes()


def test_an_image_of_a_gif_file_that_swallows_the_next(tmp_path):
    path = tmp_path / "a.gif"
    data = animation(path)
    assert not find_breaks(path, "gif")
    first, lost = data.index(b"\x2c\0\0\0\0") + 800, 0
    for size in range(300, 900, 7):
        path.write_bytes(data[:first] + data[first : first + size] + data[first:])
        with open_video(path) as reader:
            if len(list(reader.frames())) < 2:
                lost += 1
                assert reader.damage, size
    assert lost > 5
    second = data.index(b"\x21\xf9\4", first)
    path.write_bytes(data[: second - 700] + data[second + 100 :])  # pieces still fit, one image is gone
    assert find_breaks(path, "gif")
    loops = data.index(b"NETSCAPE2.0") + 11
    path.write_bytes(data[:loops] + b"\xff" + data[loops + 1 :])
    assert find_breaks(path, "gif")
    times = data.index(b"\x21\xf9\4")
    path.write_bytes(data[: times + 2] + b"\7" + data[times + 3 :])
    assert find_breaks(path, "gif")


@pytest.mark.parametrize("colors", [2, 4, 16, 256])
@pytest.mark.parametrize("interlace", [0, 1])
def test_whole_gif_files_of_another_program(tmp_path, colors, interlace):
    noise = np.random.default_rng(7).integers(0, colors, (3, 60, 90), np.uint8)
    noise[1, :40] = 0  # long codes
    images = [Image.fromarray(frame, "P") for frame in noise]
    for image in images:
        image.putpalette([value for level in range(colors) for value in [level * 255 // (colors - 1)] * 3])
    path = tmp_path / "a.gif"
    images[0].save(path, save_all=True, append_images=images[1:], interlace=interlace, duration=40)
    assert not find_breaks(path, "gif")


def test_a_frame_of_an_animation_whose_name_is_damaged(tmp_path):
    path = tmp_path / "a.webp"
    data = animation(path)
    assert find_image_damage(path) == ""
    at = data.rindex(b"ANMF")
    path.write_bytes(data[:at] + b"K" + data[at + 1 :])
    assert find_image_damage(path)
    path.write_bytes(data[:20] + b"\0" + data[21:])  # no animation, says the header
    assert find_image_damage(path)


def test_a_page_without_its_fields_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    image = np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8)
    cv2.imwritemulti(str(path), [image, image])
    data = path.read_bytes()
    photometric = struct.pack("<HHI", 262, 3, 1)
    assert data.count(photometric) == 2
    path.write_bytes(data.replace(photometric, struct.pack("<HHI", 65000, 3, 1)))
    with pytest.raises(InputError, match=r"a\.tif"):
        list(read_images(path))


def _flv_tags(data: bytes) -> list[bytes]:
    tags, at = [], 13
    while at < len(data):
        end = at + 15 + int.from_bytes(data[at + 1 : at + 4], "big")
        tags.append(data[at:end])
        at = end
    return tags


def test_a_stream_that_begins_in_the_middle_is_named(tmp_path):
    """FFmpeg makes it when it comes; PyAV has no place for it then."""
    path = write_clip(tmp_path / "a.flv", Clip(frames=200, audio=("aac",), still=True))
    data = path.read_bytes()
    video, sound = ([tag for tag in _flv_tags(data) if tag[0] == kind] for kind in (9, 8))
    path.write_bytes(data[:4] + b"\1" + data[5:13] + b"".join(video[:190] + sound + video[190:]))
    frames, said = read(path)
    assert frames == 200
    assert "a stream that begins in the middle of the file was left out" in said
