"""`libranet data figures`: the paper's figures and tables of a data set."""

from importlib.util import find_spec
from pathlib import Path


def write_figures(folder: Path, output: Path) -> None:
    """Write the comparison of data sets with a row for this one, and its composition as a figure."""
    from libranet.data.dataset import DATASET_FILE
    from libranet.errors import MissingDependencyError, install_command
    from libranet.evaluation.results import write_file
    from libranet.lab.paper.dataset_table import compare_datasets
    from libranet.lab.paper.printed import TableFormat, format_table

    table = compare_datasets(folder)
    figure = None
    if (folder / DATASET_FILE).is_file():
        if find_spec("matplotlib") is None:
            raise MissingDependencyError(f"figures need matplotlib: {install_command('lab')}")
        from libranet.lab.analysis.dataset_figure import composition_figure
        from libranet.lab.analysis.plotting import save_figure

        figure = composition_figure(folder)
    forms: tuple[tuple[str, TableFormat], ...] = (("md", "md"), ("csv", "csv"), ("tex", "latex"))
    for suffix, form in forms:
        write_file(output / f"datasets.{suffix}", format_table(table, form))
    if figure is not None:
        save_figure(figure, output, "composition")
    print(format_table(table, "md"), end="")
