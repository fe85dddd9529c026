"""What container tools and ffprobe list of a video, and whether it is in another or named in a warning."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from conformance_sources import FFPROBE
from container_sources import MKVEXTRACT, MKVMERGE
from image_sources import EXIFTOOL

TRACK_FACTS = {
    "cropping": "the cropping",
    "stereo_mode": "the stereo mode",
    "projection_type": "the 360 degree projection",
    "projection_pose_yaw": "the 360 degree projection",
    "language_ietf": "language",
    "track_name": "the title",
    "display_dimensions": "",
    "flag_hearing_impaired": "the role",
    "flag_original": "the role",
    "flag_commentary": "the role",
}
KINDS = {
    "cropping": "cropping",
    "stereo_mode": "stereo mode",
    "projection_type": "360 degree projection",
    "projection_pose_yaw": "360 degree projection",
    "language_ietf": "exact languages",
    "track_name": "names of tracks",
    "flag_hearing_impaired": "roles of tracks",
    "flag_original": "roles of tracks",
    "flag_commentary": "roles of tracks",
}
SIDE_DATA = {
    "Spherical Mapping": "the 360 degree projection",
    "Stereo 3D": "the stereo mode",
    "DOVI configuration record": "Dolby Vision",
}


def output_of(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@cache
def listed(path: Path) -> tuple[dict[str, object], ...]:
    """What mkvmerge, ffprobe and exiftool show of a file."""
    probe = json.loads(
        output_of(
            FFPROBE,
            "-v",
            "error",
            "-show_streams",
            "-show_format",
            "-show_chapters",
            "-show_programs",
            "-of",
            "json",
            path,
        )
    )
    return (
        json.loads(output_of(MKVMERGE, "-J", path)),
        probe,
        json.loads(output_of(EXIFTOOL, "-j", "-a", "-G1", "-u", path))[0],
    )


@cache
def texts(path: Path) -> frozenset[tuple[str, str]]:
    """Names and texts of tags and chapters as mkvextract shows them; of other containers what ffprobe shows."""
    found = set()
    if path.suffix in (".mkv", ".webm"):
        for what, tag in (("chapters", "ChapterString"), ("tags", "String")):
            shown = output_of(MKVEXTRACT, path, what, "-")
            if what == "chapters":
                found |= {("order of chapters", "1") for _ in re.findall("<EditionFlagOrdered>1<", shown)}
                found |= {("chapter", text) for text in re.findall(f"<{tag}>(.*?)</{tag}>", shown)}
            else:
                pairs = re.findall(
                    r"<Name>(.*?)</Name>\s*(?:<TagLanguage>.*?</TagLanguage>\s*)?<String>(.*?)</String>", shown
                )
                found |= {(name, text) for name, text in pairs if not is_technical(name)}
        title = listed(path)[0]["container"]["properties"].get("title")
        return frozenset(found | ({("TITLE", title)} if title else set()))
    _, probe, _ = listed(path)
    for chapter in probe.get("chapters", ()):
        found |= {("chapter", text) for text in chapter.get("tags", {}).values()}
    for program in probe.get("programs", ()):
        services = program.get("tags", {}).items()
        found |= {(name.upper(), text) for name, text in services if text not in ("Service01", "FFmpeg")}
    found |= {(name.upper(), text) for name, text in probe["format"].get("tags", {}).items() if not is_technical(name)}
    return frozenset(found)


def is_technical(name: str) -> bool:
    known = (
        "BPS",
        "DURATION",
        "NUMBER_OF",
        "_STATISTICS",
        "ENCODER",
        "MAJOR_BRAND",
        "MINOR_VERSION",
        "COMPATIBLE_BRANDS",
    )
    return name.upper().startswith((*known, "HANDLER_NAME", "VENDOR_ID", "CREATION_TIME", "LOCATION-"))


def verdicts(source: Path, output: Path, said: str) -> Iterator[tuple[str, str, str]]:
    """Yield what the tools show of the source: its kind, its name, and whether it is kept, named or silent."""
    values = {_plain(text) for _, text in texts(output)}
    for name, text in sorted(texts(source)):
        named = text in said or name.lower() in said.lower() or "chapters are" in said
        kind = {"chapter": "chapter titles"}.get(name, name if name == "order of chapters" else "tags")
        yield kind, f"{name} = {text[:50]}", verdict(_plain(text) in values, named)
    for track, name in box_names(source):
        kept = name in map(str, listed(output)[2].values())
        kept |= output.suffix == ".avi" and name.encode() in output.read_bytes()  # exiftool shows one name
        named = f"the title ({name})" in said or re.search(rf"stream {track - 1} \(\w+\) is left out", said) is not None
        yield "names of tracks", name, verdict(kept, named)
    for text in sorted(attached(source)):
        named = text in said or re.search(r"(attachment|cover|video) stream \d+ \(\w+\) is left out", said) is not None
        yield "names of attachments", text, verdict(text in attached(output), named)
    after = tracks_of(output)
    for fact, value in tracks_of(source).items():
        words = TRACK_FACTS[fact[1]]
        if not words or (fact[1] == "language_ietf" and "-" not in value):
            continue
        kept = after.get(fact) == value
        kept |= (
            fact[1] == "track_name" and value.encode() in output.read_bytes()
        )  # ffprobe 5.1 does not show it in .mp4
        left_out = f"stream {fact[0]} " in said and "is left out: " in said
        yield KINDS[fact[1]], f"{fact} = {value}", verdict(kept, words in said or left_out)
    for kind in side_data(source):
        words = SIDE_DATA.get(kind, kind)
        yield words.removeprefix("the "), kind, verdict(kind in side_data(output), words in said)
    if source.suffix == ".gif" and loops(source) != "once":
        yield "loops of GIF", f"{loops(source)} loops", verdict(loops(source) == loops(output), "loops" in said)


def verdict(kept: bool, named: bool) -> str:
    """The word for what happened."""
    return "kept" if kept else "named" if named else "silent"


def silent_losses(source: Path, output: Path, said: str) -> list[str]:
    """What the tools show of the source, not of the output, and no warning names."""
    return [what for _, what, found in verdicts(source, output, said) if found == "silent"]


def _plain(text: str) -> str:
    """A text without the zeros that FFmpeg adds to the numbers of a place."""
    return re.sub(r"(?<=\d)0+(?=\D)", "", text)


def tracks_of(path: Path) -> dict[tuple[int, str], str]:
    if path.suffix not in (".mkv", ".webm"):
        return {}
    shown = listed(path)[0].get("tracks", ())
    return {
        (number, key): str(value)
        for number, track in enumerate(shown)
        for key, value in track["properties"].items()
        if key in TRACK_FACTS
    }


def box_names(path: Path) -> list[tuple[int, str]]:
    """Numbers and names of the tracks of an .mp4 or .mov file."""
    if path.suffix not in (".mp4", ".mov"):
        return []
    found = ((re.fullmatch(r"Track(\d+):Track\d+Name", key), text) for key, text in listed(path)[2].items())
    return [(int(match[1]), str(text)) for match, text in found if match is not None]


def attached(path: Path) -> set[str]:
    """Names and descriptions of a Matroska file's attachments."""
    files = listed(path)[0].get("attachments", ())
    return {str(text) for file in files for text in (file.get("file_name"), file.get("description")) if text}


def side_data(path: Path) -> set[str]:
    streams = listed(path)[1]["streams"]
    return {data["side_data_type"] for stream in streams[:1] for data in stream.get("side_data_list", ())} - {
        "CPB properties"
    }


def loops(path: Path) -> str:
    return str(listed(path)[2].get("GIF:AnimationIterations", "once")) if path.suffix == ".gif" else ""
