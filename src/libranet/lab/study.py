"""A blind rating of data sets by people, as in the paper's perceptual study: realism, fidelity and diversity."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from libranet.atomic import write_atomically
from libranet.data.dataset import read_json
from libranet.data.frames import to_8_bit
from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip
from libranet.evaluation.figures import jpeg
from libranet.evaluation.summary import Estimate, estimate

KEY_FILE = "key.json"
PAGE_FOLDER = "page"
QUESTIONS = ("realism", "fidelity", "diversity")
PAPER_STUDY = (
    ("REVIDE", (4.28, 0.08), (3.79, 0.09), (2.55, 0.24), 3.54),
    ("HazeWorld", (3.14, 0.08), (3.28, 0.09), (4.10, 0.21), 3.51),
    ("GoProHazy", (4.22, 0.08), (3.51, 0.09), (3.00, 0.26), 3.58),
    ("UHV-4K", (3.81, 0.09), (4.58, 0.07), (4.60, 0.24), 4.33),
)
"""The paper's table: mean and half width of R, F and D, and the overall mean."""
_QUALITY = 95


@dataclass(frozen=True)
class StudyRow:
    """One data set's result."""

    dataset: str
    answers: dict[str, Estimate]  # by question: mean and 95 % interval over all ratings

    @property
    def overall(self) -> float | None:
        """The mean of the three questions' means, where all were answered."""
        if len(self.answers) < len(QUESTIONS):
            return None
        return sum(answer.mean for answer in self.answers.values()) / len(QUESTIONS)


def make_study(datasets: Mapping[str, Sequence[EvalClip]], folder: Path, *, frames: int = 10, seed: int = 0) -> Path:
    """Write a static page with hazy frames of each data set, and the key beside it that says which is which.

    Args:
        folder: Gets `page/`, which raters see, and `key.json`, which they do not. It must not hold a study yet.
        seed: Chooses clips, frames and file names.
    """
    if (folder / KEY_FILE).exists() or (folder / PAGE_FOLDER).exists():
        raise InputError(f"{folder} has a study already: choose another folder")
    for name, clips in datasets.items():
        if sum(map(len, clips)) < frames:
            raise InputError(f"expected at least {frames} frames in {name}, found {sum(map(len, clips))}")
    rng = random.Random(seed)
    page = folder / PAGE_FOLDER
    page.mkdir(parents=True)
    names = [f"{number:04d}.jpg" for number in range(1, len(datasets) * frames + 1)]
    rng.shuffle(names)
    key: dict[str, dict[str, Any]] = {}
    members: dict[str, list[str]] = {}
    for dataset, clips in datasets.items():
        chosen = _spread(clips, frames, rng)
        mine = [names.pop() for _ in chosen]
        for file, (clip, index) in zip(mine, chosen, strict=True):
            write_atomically(page / file, jpeg(to_8_bit(clip.hazy.read(index)), _QUALITY))
            key[file] = {"dataset": dataset, "clip": clip.name, "frame": index}
        members[dataset] = rng.sample(mine, len(mine))
    sheets = {f"sheet-{number}": files for number, files in enumerate(rng.sample(list(members.values()), len(members)))}
    for sheet, files in sheets.items():
        key[sheet] = {"dataset": key[files[0]]["dataset"]}
    study = f"{rng.getrandbits(64):016x}"
    content = {
        "id": study,
        "frames": sorted(file for file in key if file not in sheets),
        "sheets": list(sheets),
        "members": sheets,
    }
    template = (resources.files("libranet.lab") / "study_page.html").read_text(encoding="utf-8")
    index_file = page / "index.html"
    write_atomically(index_file, template.replace("/*STUDY*/null", json.dumps(content)).encode())
    record = {"format": "libranet-study", "version": 1, "id": study, "seed": seed, "items": key}
    write_atomically(folder / KEY_FILE, (json.dumps(record, indent=2) + "\n").encode())
    return index_file


def score_study(key_file: Path, answer_files: Sequence[Path]) -> list[StudyRow]:
    """Join the raters' answers with the key."""
    key = read_json(key_file)
    if key.get("format") != "libranet-study":
        raise InputError(f"expected the key of a study in {key_file}, got another file")
    items = key["items"]
    ratings: dict[str, dict[str, list[float]]] = {}
    raters: dict[str, Path] = {}
    for file in answer_files:
        answers = read_json(file)
        if answers.get("format") != "libranet-study-answers" or answers.get("study") != key["id"]:
            raise InputError(f"expected answers to the study of {key_file}, got another file: {file}")
        rater = str(answers.get("rater"))
        if rater in raters:
            raise InputError(f"rater {rater!r} occurs twice, in {raters[rater]} and {file}: leave one of them out")
        raters[rater] = file
        for item, given in answers.get("ratings", {}).items():
            if item not in items:
                raise InputError(f"{file} rates {item!r}, which the study of {key_file} has not")
            for question, value in given.items():
                if question not in QUESTIONS or value not in (1, 2, 3, 4, 5):
                    raise InputError(f"expected ratings from 1 to 5 in {file}, got {question}={value!r} for {item}")
                ratings.setdefault(items[item]["dataset"], {}).setdefault(question, []).append(float(value))
    datasets = dict.fromkeys(item["dataset"] for item in items.values())
    return [
        StudyRow(name, {q: estimate(ratings[name][q]) for q in QUESTIONS if ratings.get(name, {}).get(q)})
        for name in datasets
    ]


def _spread(clips: Sequence[EvalClip], count: int, rng: random.Random) -> list[tuple[EvalClip, int]]:
    """Choose frames from as many clips as possible, evenly spaced in each."""
    order = rng.sample(list(clips), len(clips))
    shares = dict.fromkeys(range(len(order)), 0)
    while sum(shares.values()) < count:
        for number, clip in enumerate(order):
            if sum(shares.values()) < count and shares[number] < len(clip):
                shares[number] += 1
    return [
        (order[number], int((i + 0.5) * len(order[number]) / share))
        for number, share in shares.items()
        for i in range(share)
    ]
