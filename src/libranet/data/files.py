"""The small files of a data set: JSON and checksums."""

import hashlib
import json
from pathlib import Path
from typing import Any

from libranet.atomic import write_atomically
from libranet.errors import InputError


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write readable JSON, whole or not at all. The same content gives the same bytes."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; a missing or damaged file is named."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"expected the file {path}, which is missing") from error
    except (OSError, ValueError) as error:
        raise InputError(f"could not read {path}: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"expected a JSON object in {path}, got {type(content).__name__}")
    return content


def sha256(path: Path) -> str:
    """The checksum that clip.json keeps for every file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
