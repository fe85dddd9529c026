"""Published weights for tests that compare with published values; without them those tests say so and are skipped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor

from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights

SHARED = Path("/work/shared/data/weights")


@pytest.fixture
def published(tmp_path: Path) -> Callable[[str], dict[str, Tensor]]:
    """Load third-party weights by name, from the user's cache or a folder beside the project, never from the web."""

    def load(name: str) -> dict[str, Tensor]:
        model = find_model(name)
        if find_weights(model):
            return load_weights(model)
        if (SHARED / model.files[0].name).is_file():
            pull_weights(model, tmp_path, local=SHARED)
            return load_weights(model, tmp_path)
        pytest.skip(f"{name} is not in the cache: run `libranet weights pull {name}`")

    return load
