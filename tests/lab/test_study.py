"""The perceptual study: a blind page, and scores with a known answer."""

import json
from pathlib import Path

import pytest

from browser import open_browser
from libranet.errors import InputError
from libranet.evaluation.clips import open_dataset
from libranet.lab.study import make_study, score_study
from tiny_set import write_pairs


@pytest.fixture
def study(tmp_path: Path) -> Path:
    sets = {name: open_dataset(write_pairs(tmp_path / name)) for name in ("REVIDE", "UHV")}
    make_study(sets, tmp_path / "study", frames=4, seed=1)
    return tmp_path / "study"


def answer(study: Path, rater: str, *, uhv: int, revide: int) -> Path:
    key = json.loads((study / "key.json").read_text())
    ratings = {}
    for item, about in key["items"].items():
        value = uhv if about["dataset"] == "UHV" else revide
        ratings[item] = {"diversity": value} if item.startswith("sheet") else {"realism": value, "fidelity": 3}
    path = study / f"{rater}.json"
    content = {"format": "libranet-study-answers", "study": key["id"], "rater": rater, "ratings": ratings}
    path.write_text(json.dumps(content))
    return path


def test_the_page_is_blind_and_the_key_is_not_in_it(study: Path) -> None:
    page = (study / "page" / "index.html").read_text()
    assert "REVIDE" not in page
    assert "UHV" not in page
    assert sorted(path.name for path in (study / "page").iterdir()) == [f"{n:04d}.jpg" for n in range(1, 9)] + [
        "index.html"
    ]
    items = json.loads((study / "key.json").read_text())["items"]
    by_set = [about["dataset"] for item, about in sorted(items.items()) if item.endswith("jpg")]
    assert by_set not in (["REVIDE"] * 4 + ["UHV"] * 4, ["UHV"] * 4 + ["REVIDE"] * 4)
    assert {about["clip"] for about in items.values() if "clip" in about} == {"one", "two"}


def test_a_rater_answers_by_keyboard_leaves_comes_back_and_downloads(study: Path) -> None:
    with open_browser() as browser:
        page = browser.new_context(accept_downloads=True).new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((study / "page" / "index.html").as_uri())
        page.keyboard.type("rater one")
        page.keyboard.press("Enter")
        assert page.locator("#progress").inner_text() == "1 / 10"
        assert page.locator("img").evaluate_all("images => images.every(i => i.complete)")
        for key in "4", "2", "5":
            page.keyboard.press(key)
        assert page.locator("fieldset.now legend").inner_text().startswith("How good")
        page.keyboard.press("Backspace")  # the second image again, from its first question on
        page.reload()
        assert page.locator("#progress").inner_text() == "2 / 10"
        for key in "14" * 7 + "3" + "5":  # seven more images, two overviews
            page.keyboard.press(key)
        assert page.locator("h1").inner_text() == "Thank you"
        with page.expect_download() as download:
            page.get_by_text("Download answers").click()
        assert download.value.suggested_filename == "answers-rater_one.json"
        download.value.save_as(study / "answers.json")
        assert problems == []
    given = json.loads((study / "answers.json").read_text())["ratings"]
    assert sorted((r["realism"], r["fidelity"]) for r in given.values() if "realism" in r) == [(1, 4)] * 7 + [(4, 2)]
    assert (
        sum(score.answers["diversity"].mean for score in score_study(study / "key.json", [study / "answers.json"])) == 8
    )


def test_scores_are_means_with_intervals(study: Path) -> None:
    files = [answer(study, f"r{n}", uhv=value, revide=2) for n, value in enumerate((3, 4, 5))]
    revide, uhv = score_study(study / "key.json", files)
    assert (revide.dataset, uhv.dataset) == ("REVIDE", "UHV")
    assert (revide.answers["realism"].mean, revide.answers["realism"].half_width) == (2.0, 0.0)
    assert uhv.answers["realism"].mean == 4.0
    # Three raters of one sheet, 3, 4 and 5: t(2) * 1 / sqrt(3).
    assert uhv.answers["diversity"].half_width == pytest.approx(4.303 / 3**0.5)
    assert uhv.overall == pytest.approx((4 + 3 + 4) / 3)


def test_mistakes_are_named(study: Path, tmp_path: Path) -> None:
    good = answer(study, "a", uhv=4, revide=4)
    with pytest.raises(InputError, match="rater 'a' occurs twice"):
        score_study(study / "key.json", [good, good])
    bad = json.loads(good.read_text())
    bad["ratings"]["0001.jpg"]["realism"] = 6
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    with pytest.raises(InputError, match=r"from 1 to 5 in .*bad\.json, got realism=6 for 0001\.jpg"):
        score_study(study / "key.json", [tmp_path / "bad.json"])
    (tmp_path / "other.json").write_text(json.dumps(bad | {"study": "x"}))
    with pytest.raises(InputError, match="expected answers to the study"):
        score_study(study / "key.json", [tmp_path / "other.json"])
    sets = {"UHV": open_dataset(tmp_path / "UHV")}
    with pytest.raises(InputError, match="has a study already"):
        make_study(sets, study)
    with pytest.raises(InputError, match="at least 20 frames in UHV, found 10"):
        make_study(sets, tmp_path / "new", frames=20)
    assert not (tmp_path / "new").exists()
