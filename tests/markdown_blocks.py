"""Finds the code blocks and links of the documentation."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = ("sh", "bash")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    document: str
    """Path below the root of the repository."""
    line: int
    language: str
    text: str
    not_run: str
    """Why no test can run it, from the comment above it; empty if it runs."""

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def read_blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document in order, without those that only include an example."""
    lines = path.read_text().splitlines()
    blocks: list[Block] = []
    start: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
            continue
        above = _NOT_RUN.fullmatch(lines[start - 1]) if start else None
        text = "\n".join(lines[start + 1 : number]) + "\n"
        if "--8<--" not in text:
            reason = above[1] if above else ""
            name = str(path.relative_to(ROOT))
            blocks.append(Block(name, start + 1, lines[start].strip("` "), text, reason))
        start = None
    assert start is None, f"{path} ends inside a code block"
    return blocks


ALL_BLOCKS = [block for document in DOCUMENTS for block in read_blocks(document)]


def read_links(path: Path) -> list[str]:
    """Return the targets of a document's links and images that are not addresses on the web."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text)
    targets = [first or second for first, second in found]
    return [target for target in targets if not target.startswith(("http:", "https:", "mailto:"))]


def heading_anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
