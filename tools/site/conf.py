# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the site. Its sources are made by make_site.py, which calls Sphinx."""

import functools
import pathlib

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

HERE = pathlib.Path(__file__).parent
SHORT = 28  # characters of code that no line breaks

project = "demi"
author = "the authors of demi"
extensions = ["myst_parser"]
exclude_patterns = ["extra"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
smartquotes = False
highlight_language = "none"
myst_heading_anchors = 6
myst_enable_extensions = ["deflist"]
add_module_names = False
toc_object_entries_show_parents = "hide"
c_maximum_signature_line_length = python_maximum_signature_line_length = 90
python_trailing_comma_in_multi_line_signatures = False

html_theme = "furo"
html_title = "demi"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = html_show_sphinx = False
html_last_updated_fmt = None
# From a file a page may not read others, which summaries of search results would need.
html_show_search_summary = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad",
                            "color-brand-visited": "#6b3fa0", "color-api-name": "#0b5cad",
                            "color-api-pre-name": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7ab7ff", "color-brand-content": "#7ab7ff",
                           "color-brand-visited": "#c3a6ff", "color-api-name": "#7ab7ff",
                           "color-api-pre-name": "#7ab7ff"},
}


class Names:
    """What code within a line may name: options, passes, commands, names of the C and the Python interface."""

    def __init__(self, app: Sphinx) -> None:
        self.places: dict[str, tuple[str, str]] = {}
        self.options: dict[str, dict[str, tuple[str, str]]] = {}  # of an option: by the program
        domains = app.env.domains
        several: set[str] = set()
        for name, _, kind, page, anchor, _ in domains["py"].get_objects():
            if kind != "module":
                self._add(name, (page, anchor), several)
                self._add(name.removeprefix("demi_onnx."), (page, anchor), several)
        for name, _, _, page, anchor, _ in domains["c"].get_objects():
            self._add(name, (page, anchor), set())
        for label, (page, anchor) in domains["std"].anonlabels.items():
            if label.startswith("pass-"):
                self.places[label.removeprefix("pass-")] = (page, anchor)
        for (program, option), place in domains["std"].progoptions.items():
            if program and program.startswith("demi") and option.startswith("--"):
                self.options.setdefault(option, {})[program] = place
        for page in app.env.found_docs:
            command = page.removeprefix("reference/demi-")
            if command != page:
                self.places[f"demi {command}"] = (page, "")
        for name in several:
            self.places.pop(name, None)

    def _add(self, name: str, place: tuple[str, str], several: set[str]) -> None:
        if self.places.setdefault(name, place) != place:
            several.add(name)

    def place(self, text: str, page: str) -> tuple[str, str] | None:
        """Where what this text names is explained. Options are those of the page's command, else convert's."""
        word = text.split("=")[0].split(" ")[0]
        if word in self.options:
            by_program = self.options[word]
            own = page.removeprefix("reference/").replace("demi-", "demi ", 1)
            if own in by_program or "demi convert" in by_program:
                return by_program[own if own in by_program else "demi convert"]
            return next(iter(by_program.values())) if len(by_program) == 1 else None
        name = text.removesuffix("()").split("{")[0]
        if name.startswith("demi "):
            name = " ".join(name.split()[:2])
        if name.islower() and name.isidentifier() and "python" not in page and not name.startswith("demi_"):
            return None  # a word: of Python's names on its pages alone
        return self.places.get(name)


@functools.cache
def names_of(app: Sphinx) -> Names:
    """Once all pages are read."""
    return Names(app)


class LinkLiterals(SphinxPostTransform):
    """Code within a line that names something explained elsewhere leads there."""

    default_priority = 400

    def run(self, **_: object) -> None:
        names = names_of(self.app)
        page = self.env.docname
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, (nodes.reference, nodes.title)):
                continue
            place = names.place(node.astext(), page)
            if " " not in node.astext() and len(node.astext()) <= SHORT:
                node["classes"].append("short")
            if place and self._is_outside(node, place):
                uri = self.app.builder.get_relative_uri(page, place[0]) + (f"#{place[1]}" if place[1] else "")
                link = nodes.reference("", "", internal=True, refuri=uri, classes=["named"])
                node.replace_self(link)
                link += node

    @staticmethod
    def _is_outside(node: nodes.Node, place: tuple[str, str]) -> bool:
        """Not what a description says of itself, and not within a link or a heading."""
        up = node.parent
        while up is not None:
            if isinstance(up, (nodes.title, nodes.reference)):
                return False
            if isinstance(up, nodes.Element) and any(
                    place[1] in child.get("ids", []) for child in up.children if isinstance(child, nodes.Element)):
                return not place[1]
            up = up.parent
        return True


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_object_type("policy-key", "key", objname="key of policies",
                        parse_node=lambda env, text, node: _key(text, node))
    app.add_post_transform(LinkLiterals)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _key(text: str, node: nodes.Element) -> str:
    """`"to": VALUES`: the key stands out, and is the name."""
    from sphinx import addnodes
    key, _, values = text.partition(": ")
    node += addnodes.desc_name(key, key)
    node += addnodes.desc_addname(f": {values}", f": {values}")
    return key.strip('"')
