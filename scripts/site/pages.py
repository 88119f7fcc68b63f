"""Hooks of MkDocs: the pages of the repository, their order, and links to what is no page.

A page keeps its path: docs/reads.md becomes docs/reads.html. Links between pages therefore work
unchanged. Order and titles come from the tables of docs/README.md and docs/studies/README.md.
"""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("*.md", "docs/**/*.md", "docs/**/*.svg", "examples/**/*.md", "examples/**/*.svg",
           "native/*/*.md", "fixtures/*/*.md")
REPOSITORY = "https://github.com/statelab/statelab"
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")


def on_config(config):
    config.nav = navigation()
    return config


def on_files(files, config):
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            uri = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files of the repository that are no pages lead to GitHub.

    The search prefers pages for users: those of docs/, and of these the ones outside docs/studies.
    """
    folder = posixpath.dirname(page.file.src_uri)
    boost = {"docs": 4, "docs/studies": 2}.get(folder, 1)
    page.meta.setdefault("search", {"boost": boost})

    def away(match):
        image, text, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if ":" in target or files.get_file_from_path(path) or not (ROOT / path).exists():
            return match[0]  # another site, a page, or an error that MkDocs reports
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{image}[{text}]({REPOSITORY}/{kind}/main/{path}{anchor or ''})"

    return LINK.sub(away, markdown)


def on_post_build(config):
    """The search needs a worker, which a browser does not start from file:, but from a blob."""
    site = Path(config.site_dir)
    worker = next(site.glob("assets/javascripts/workers/search.*.min.js")).read_text("utf-8")
    (site / "iframe-worker.js").write_text(
        'if (location.protocol === "file:") { const Native = Worker; window.Worker = function () {'
        f" return new Native(URL.createObjectURL(new Blob([{json.dumps(worker)}]))) }} }}\n", "utf-8")


def navigation():
    """The nav: README, the sections of the book, studies, and the repository's other pages."""
    nav = [{"Statelab": "README.md"}]
    listed = {"README.md"}

    def add(pages):
        found = []
        for title, path in pages:
            if path not in listed:
                listed.add(path)
                found.append({title: path})
        return found

    nav.append({"The book": add([("All questions", "docs/README.md"),
                                 ("Glossary", "docs/glossary.md")])})
    text = (ROOT / "docs/README.md").read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        links = [(title[0].upper() + title[1:], path) for title, path in table_links(section, "docs")]
        if pages := add(links):
            nav.append({section.split("\n", 1)[0]: pages})
    studies = (ROOT / "docs/studies/README.md").read_text("utf-8")
    nav.append({"Studies": add([("What we found", "docs/studies/README.md"),
                                *table_links(studies, "docs/studies")])})
    rest = [(first_heading(path), path.relative_to(ROOT).as_posix())
            for pattern in SOURCES if pattern.endswith(".md") for path in sorted(ROOT.glob(pattern))]
    nav.append({"The repository": add(rest)})
    return nav


def table_links(markdown, folder):
    """Titles and paths of the pages that the last column of a table names."""
    for line in markdown.splitlines():
        if "|" in line:
            for image, title, target, anchor in LINK.findall(line.rsplit("|", 1)[1]):
                yield title, posixpath.normpath(posixpath.join(folder, target))


def first_heading(path):
    return re.search(r"^# (.*)$", path.read_text("utf-8"), re.MULTILINE)[1]
