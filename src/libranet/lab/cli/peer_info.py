"""`libranet info --model PEER`: how large a peer is and how much it computes."""

import json

import libranet


def print_peer(
    name: str,
    size: tuple[int, int],  # width, height
    *,
    as_json: bool,
) -> None:
    """Print what a peer costs at one frame size."""
    from rich.console import Console
    from rich.table import Table

    from libranet.lab.peers.cost import peer_cost
    from libranet.lab.peers.table import find_peer

    entry, cost = find_peer(name), peer_cost(name, width=size[0], height=size[1])
    config = entry.build_on_meta().config
    if as_json:
        value = {
            "libranet": libranet.__version__,
            "peer": entry.name,
            "title": entry.title,
            "note": entry.note,
            "size": f"{cost.size[0]}x{cost.size[1]}",
            "frames": {"past": config.past, "future": config.future},
            "parameters": cost.parameters,
            "official_parameters": entry.parameters,
            "gflops": round(cost.gflops, 3),
            "parts": [{"name": p.name, "parameters": p.parameters, "gflops": p.window_gflops} for p in cost.parts],
        }
        print(json.dumps(value, indent=2))
        return
    frames = f"{config.past} past, {config.future} future frames"
    table = Table(title=f"{entry.title} at {cost.size[0]}x{cost.size[1]}, {frames}", title_justify="left")
    table.add_column("part")
    for heading in ("parameters", "GFLOPs, one frame"):
        table.add_column(heading, justify="right")
    for part in cost.parts:
        table.add_row(part.name, f"{part.parameters:,}", f"{part.window_gflops:,.2f}")
    table.add_section()
    table.add_row("total", f"{cost.parameters:,}", f"{cost.gflops:,.2f}", style="bold")
    table.add_row("official network", f"{entry.parameters:,}", "", style="dim")
    console = Console()
    console.print(table)
    if entry.note:
        console.print(entry.note, highlight=False)
