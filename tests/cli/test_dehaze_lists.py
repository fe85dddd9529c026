"""Many jobs at once: patterns, lists of jobs, shares of them."""

import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.cli.dehaze_jobs import plan_jobs, select_shard
from libranet.cli.main import with_addresses
from libranet.engine.adjust import Adjustments
from libranet.engine.options import DehazeOptions
from libranet.errors import InputError


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    for name in ("a.mp4", "b.mp4", "c.flv", "d.txt"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def outputs(jobs) -> list[str]:
    return [Path(job.output).name for job in jobs]


def test_a_pattern_names_files(clips):
    jobs = plan_jobs([f"{clips}/*.mp4"], "out", live=False)
    assert [Path(job.source.name).name for job in jobs] == ["a.mp4", "b.mp4"]
    with pytest.raises(InputError, match="nothing matches"):
        plan_jobs([f"{clips}/*.webm"], "out", live=False)


def test_without_an_output_files_go_beside_their_inputs(clips):
    names = [str(clips / name) for name in ("a.mp4", "c.flv")]
    assert [job.output for job in plan_jobs(names, None, live=False)] == [
        str(clips / "a-clear.mp4"),
        str(clips / "c-clear.mkv"),
    ]
    (clips / "jobs.csv").write_text("source\na.mp4\n")
    for name in (str(clips), str(clips / "jobs.csv"), "s3://bucket/a.mp4", "camera:0", "-"):
        with pytest.raises(InputError, match="needs an output: add output"):
            plan_jobs([name], None, live=False)
    with pytest.raises(InputError, match="needs an output: add output"):
        plan_jobs([str(clips / "a.mp4")], None, live=True)


@pytest.mark.parametrize("folder", ["v1.2", "take.2026", "out"])
def test_a_folder_may_have_a_dot_in_its_name(clips, folder):
    jobs = plan_jobs([f"{clips}/*.mp4"], str(clips / folder), live=False)
    assert [job.output for job in jobs] == [str(clips / folder / name) for name in ("a.mp4", "b.mp4")]
    for file in ("x.mp4", "x.png"):
        with pytest.raises(InputError, match="several inputs need a folder"):
            plan_jobs([f"{clips}/*.mp4"], str(clips / file), live=False)


def test_a_folder_of_numbered_frames_goes_into_a_folder_with_a_dot(tmp_path):
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        cv2.imwrite(str(tmp_path / "in" / f"p{number}.png"), np.zeros((32, 32, 3), np.uint8))
    (job,) = plan_jobs([str(tmp_path / "in")], str(tmp_path / "v1.2"), live=False)
    assert (job.kind, [path.parent.name for path in job.outputs]) == ("sequence", ["v1.2", "v1.2"])
    (job,) = plan_jobs([str(tmp_path / "in")], str(tmp_path / "clear.mkv"), live=False)
    assert job.kind == "video"


def test_no_job_replaces_the_input_or_the_output_of_another(clips):
    (clips / "b-clear.mp4").write_bytes(b"x")
    with pytest.raises(InputError, match="which is an input as well"):
        plan_jobs([str(clips / "b.mp4"), str(clips / "b-clear.mp4")], f"{clips}/{{stem}}-clear.mp4", live=False)
    (clips / "jobs.csv").write_text("source,output\na.mp4,x/one.mkv\nb.mp4,x/../x/one.mkv\n")
    with pytest.raises(InputError, match="would both become"):
        plan_jobs([str(clips / "jobs.csv")], str(clips / "out"), live=False)


def test_a_list_as_csv_gives_every_row_its_own_options(clips):
    rows = [
        {"source": "a.mp4", "output": "one.mkv", "strength": "0.5", "start": "1:30", "codec": "hevc"},
        {"source": "c.flv", "output": "", "strength": "", "start": "", "codec": ""},
        {"source": "gone.mp4", "output": "", "strength": "", "start": "", "codec": ""},
    ]
    with (clips / "jobs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    jobs = plan_jobs([str(clips / "jobs.csv")], "out", live=False)
    assert outputs(jobs) == ["one.mkv", "c.mkv", "gone.mp4"]
    base = DehazeOptions(crf=20)
    changed = jobs[0].options(base)
    assert (changed.strength, changed.start, changed.codec, changed.crf) == (0.5, 90.0, "hevc", 20)
    assert jobs[1].options(base) == base


def test_a_list_as_json_lines_adds_to_the_adjustments_of_the_command_line(clips):
    lines = [
        {"source": "a.mp4", "options": {"protect-sky": 0.5, "strength": "0:0.2,5:1"}},
        {"source": "s3://bucket/in/b.mov", "output": "s3://bucket/out/b.mov"},
    ]
    (clips / "jobs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    jobs = plan_jobs([str(clips / "jobs.jsonl")], "out", live=False, adjust=Adjustments(color=0.5))
    adjust = jobs[0].options(DehazeOptions()).adjust
    assert (adjust.color, adjust.protect_sky, adjust.strength_keys) == (0.5, 0.5, ((0.0, 0.2), (5.0, 1.0)))
    assert (jobs[1].source.name, jobs[1].output) == ("s3://bucket/in/b.mov", "s3://bucket/out/b.mov")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("j.csv", "file,output\na,b\n", "no column source"),
        ("j.csv", "source,crf\na.mp4,good\n", r"line 2: crf = 'good' cannot be read"),
        ("j.csv", "source\na.mp4,b,c\n", "more values than the header"),
        ("j.csv", "source\n", "has no rows"),
        ("j.jsonl", '{"output": "b.mp4"}', "line 1 has no source"),
        ("j.jsonl", '{"source": "a.mp4", "colour": 1}', "unknown option 'colour'"),
        ("j.jsonl", "not json", "is no JSON"),
        ("j.csv", "source,output\na.mp4,x.mp4\nb.mp4,x.mp4\n", "would both become"),
    ],
)
def test_a_list_that_cannot_be_used_names_the_line(clips, name, text, sentence):
    (clips / name).write_text(text)
    with pytest.raises(InputError, match=sentence):
        plan_jobs([str(clips / name)], "out", live=False)


def test_shares_are_disjoint_and_complete():
    jobs = list(range(11))
    parts = [select_shard(jobs, f"{i}/4") for i in range(1, 5)]
    assert sorted(job for part in parts for job in part) == jobs
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for text in ("0/4", "5/4", "1", "a/b"):
        with pytest.raises(InputError, match="expected shard"):
            select_shard(jobs, text)


def test_an_address_behind_cluster_is_optional():
    assert with_addresses(["dehaze", "in", "--cluster"]) == ["dehaze", "in", "--cluster=local"]
    assert with_addresses(["dehaze", "--cluster", "in", "-o", "x"]) == ["dehaze", "--cluster=local", "in", "-o", "x"]
    assert with_addresses(["--cluster", "ray://head:10001"]) == ["--cluster", "ray://head:10001"]
    assert with_addresses(["--cluster", "auto"]) == ["--cluster", "auto"]


@pytest.mark.parametrize("text", ["{folder}", "{folder}/*.mp4", "{folder}/a b.mp4"])
def test_addresses_of_files_are_paths_for_inputs_and_outputs(text, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.mp4").write_bytes(b"x")
    address = "file://" + text.format(folder=tmp_path / "in").replace(" ", "%20")
    (job,) = plan_jobs([address], f"file://{tmp_path}/out/", live=False)
    assert (job.source.path, job.output) == (tmp_path / "in" / "a b.mp4", str(tmp_path / "out" / "a b.mp4"))


def test_one_name_that_a_shell_expanded_goes_into_a_new_folder(clips):
    """`clips/*.mp4 -o out` means the same with one file as with two."""
    for name, output in (("a.mp4", "a.mp4"), ("c.flv", "c.mkv")):
        assert plan_jobs([str(clips / name)], str(clips / "out"), live=False)[0].output == str(clips / "out" / output)
    (clips / "taken").write_bytes(b"x")
    assert plan_jobs([str(clips / "a.mp4")], str(clips / "taken"), live=False)[0].output == str(clips / "taken")
