"""Make the sources ready for a package index: addresses of the repository, a README whose links and lines work there.

    python packaging/for_index.py OWNER/NAME TAG

The release workflow runs it before the build. It rewrites pyproject.toml and README.md in the current folder.
"""

import re
import sys
from pathlib import Path

_IMAGES = (".jpg", ".png", ".svg", ".webp")


def addresses(repository: str) -> str:
    """The table [project.urls]."""
    owner, _, name = repository.partition("/")
    home, pages = f"https://github.com/{repository}", f"https://{owner.lower()}.github.io/{name}/"
    rows = {
        "Documentation": pages,
        "Source": home,
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }
    return "[project.urls]\n" + "".join(f'{name} = "{address}"\n' for name, address in rows.items())


def absolute_links(text: str, repository: str, tag: str) -> str:
    """The README with the repository's address before every relative link and image."""

    def address(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        raw = target.partition("#")[0].lower().endswith(_IMAGES)
        place = f"raw.githubusercontent.com/{repository}/{tag}" if raw else f"github.com/{repository}/blob/{tag}"
        return f"{before}https://{place}/{target}{after}"

    text = re.sub(r"(\]\()([^)\s]+)(\))", address, text)
    return re.sub(r'((?:src|srcset|href)=")([^"]+)(")', address, text)


def by_name(text: str) -> str:
    """The README with the package's name where a clone stands: whoever reads it on an index has none."""
    text = text.replace(" From a clone:", "").replace("uvx --from . libranet", "uvx libranet")
    return re.sub(r"(pip install(?: --\S+)* '?)\.(?=[\s`\[])", r"\1libranet", text)


def main(repository: str, tag: str) -> None:
    """Rewrite both files."""
    project, readme = Path("pyproject.toml"), Path("README.md")
    text = project.read_text(encoding="utf-8")
    before, marker, after = text.partition("[project.optional-dependencies]")
    project.write_text(f"{before}{addresses(repository)}\n{marker}{after}", encoding="utf-8")
    shown = absolute_links(by_name(readme.read_text(encoding="utf-8")), repository, tag)
    readme.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
