"""Keeps the tree in README.md true: one line per file, taken from the first sentence of the file's docstring.

python tools/readme_tree.py          rewrite the tree
python tools/readme_tree.py --check  exit with 1 if it is out of date
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- tree: made by tools/readme_tree.py -->", "<!-- end of tree -->"
FOLDERS = ("src/libranet", "benchmarks", "examples", "tools")


def first_sentence(path: Path) -> str:
    """What a Python file says it is."""
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].replace("\n", " ").strip()
    sentence = text.split(". ")[0].rstrip(".")
    return sentence.replace("`", "")


def tree_lines(folder: Path, *, indent: str = "  ") -> list[str]:
    """The files of a folder, then its subfolders, one line each."""
    files = sorted(folder.glob("*.py"), key=lambda p: (p.name != "__init__.py", p.name))
    lines = [f"{indent}{path.name:<24} {first_sentence(path)}".rstrip() for path in files]
    for child in sorted(p for p in folder.iterdir() if p.is_dir() and any(p.glob("*.py"))):
        lines.append(f"{indent}{child.name}/")
        lines += tree_lines(child, indent=indent + "  ")
    return lines


def readme_with_tree(text: str) -> str:
    """The README with a fresh tree between its markers."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    parts = []
    for folder in FOLDERS:
        parts += [f"{folder}/", *tree_lines(ROOT / folder)]
        if folder == "src/libranet":
            parts.append(f"  {'weights/':<24} the trained network, loaded by default")
    parts += [
        f"{'recipes/':<26} training runs as TOML files, scene geometry of the photos",
        f"{'tests/':<26} one folder per room of src",
        f"{'docs/':<26} guides, model card, measurements, lab notes",
    ]
    return f"{before}{BEGIN}\n```\n" + "\n".join(parts) + f"\n```\n{END}{after}"


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    fresh = readme_with_tree(text)
    if "--check" in sys.argv:
        return int(fresh != text)
    readme.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
