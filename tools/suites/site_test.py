# SPDX-License-Identifier: Apache-2.0
"""The documentation site (tools/site): it is made without a warning, all that it has to explain is there, and it
opens from a folder.

- Every link, on every page and in every report, leads to a file and an anchor of the site.
- No page loads anything from a network, none needs a server: no script, style, picture or font is elsewhere,
  paths are relative, and scripts are no modules.
- Each option of each command, each key of a policy, each pass and each of its options, each declaration and member
  of the installed headers, each public name of the Python package and each exit code has an anchor. They are
  asked of the command, the headers and the package that is imported, not of what makes the site.
- Each Markdown file of the tree is a page, and comments of theirs are not shown.

`--self-test` shows that each fault is found.
"""

import argparse
import html.parser
import importlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))
sys.path.insert(0, str(ROOT / "tools/python"))
PYTHON = ["demi_onnx", "demi_onnx.onnxruntime", "demi_onnx.backend", "demi_onnx.compat.float16"]
REPORTS = 10
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
         "embed": "src", "object": "data"}
LINKS_THAT_LOAD = {"stylesheet", "icon", "preload", "preconnect", "prefetch", "dns-prefetch", "modulepreload",
                   "manifest", "shortcut icon"}
NETWORK = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.I)


class Html(html.parser.HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.modules = 0
        self.scripts_and_styles: list[str] = []
        self.words: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self._within = tag if tag in ("script", "style") else ""
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and set(given.get("rel", "").lower().split()) & LINKS_THAT_LOAD:
            self.loads.append(given.get("href", ""))
        elif tag == "link":
            self.links.append(given.get("href", ""))
        elif tag in LOADS and LOADS[tag] in given:
            self.loads.append(given[LOADS[tag]])
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.modules += tag == "script" and given.get("type") == "module"
        if "url(" in given.get("style", ""):
            self.scripts_and_styles.append(given["style"])

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "style":
            self.scripts_and_styles.append(data)
        elif not self._within:
            self.words.append(data)


def css_loads(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [found.strip("'\" ") for found in re.findall(r"url\(([^)]*)\)|@import\s+([\"'][^\"']+)", text)
            for found in found if found]


class Site:
    """All files of the site, and what is wrong with them."""

    def __init__(self, files: dict[str, str], others: set[str]) -> None:
        self.pages = {name: Html(text) for name, text in files.items() if name.endswith(".html")}
        self.styles = {name: text for name, text in files.items() if name.endswith(".css")}
        self.scripts = {name: text for name, text in files.items() if name.endswith(".js")}
        self.files = set(files) | others
        self.problems: list[str] = []

    @classmethod
    def read(cls, folder: pathlib.Path) -> "Site":
        paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        text = {name: path.read_text() for name, path in paths.items() if name.endswith((".html", ".css", ".js"))}
        return cls(text, set(paths))

    def place(self, page: str, link: str) -> tuple[str, str] | None:
        """(file, anchor) that a link leads to; None: out of the site, by a whole address."""
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        path = urllib.parse.unquote(parts.path)
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        return target, urllib.parse.unquote(parts.fragment)

    def check_links(self) -> None:
        for name, page in self.pages.items():
            for link in page.links:
                place = self.place(name, link)
                if place is None:
                    if not re.match(r"https?://|mailto:", link):
                        self.problems.append(f"{name}: a link that needs more than a browser: {link}")
                elif place[0] not in self.files:
                    self.problems.append(f"{name}: a link to nothing: {link}")
                elif place[1] and place[0] in self.pages and place[1] not in self.pages[place[0]].ids:
                    self.problems.append(f"{name}: no anchor #{place[1]} in {place[0]}")

    def check_loads(self) -> None:
        """Nothing is loaded but files of the site."""
        for name, page in self.pages.items():
            loads = page.loads + [load for text in page.scripts_and_styles for load in css_loads(text)]
            self._check(name, loads)
            if page.modules:
                self.problems.append(f"{name}: a script that is a module does not run from a file")
        for name, text in self.styles.items():
            self._check(name, css_loads(text))
        for name, text in self.scripts.items():
            if re.search(r"import\(|importScripts|new Worker\(|serviceWorker", text):
                self.problems.append(f"{name}: a script that loads another one")
        if "SHOW_SEARCH_SUMMARY: false" not in self.scripts.get("_static/documentation_options.js", ""):
            self.problems.append("the search reads pages, which a page from a file may not")

    def _check(self, name: str, loads: list[str]) -> None:
        for load in loads:
            if load.startswith("data:"):
                continue
            place = self.place(name, load)
            if NETWORK.match(load) or place is None:
                self.problems.append(f"{name}: loads from a network: {load}")
            elif load and place[0] not in self.files:
                self.problems.append(f"{name}: loads what is not there: {load}")

    def check_has(self, what: str, page: str, anchors: set[str]) -> None:
        """These anchors are on that page."""
        have = self.pages[page].ids if page in self.pages else set()
        self.problems += [f"{what}: no #{anchor} on {page}" for anchor in sorted(anchors - have)]


# ---- what there has to be, asked of the command, the headers and the package

def say(demi: str, *words: str) -> str:
    return subprocess.run([demi, *words], capture_output=True, check=True).stdout.decode()


def check_commands(site: Site, demi: str) -> int:
    commands = re.findall(r"^  ([a-z-]+)  ", say(demi, "--help"), re.M)
    options = 0
    for command in commands:
        names = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", say(demi, "help", command).partition("\nExamples:")[0],
                               re.M))
        options += len(names)
        site.check_has(f"option of demi {command}", f"reference/demi-{command}.html",
                       {f"cmdoption-demi-{command}-{name}" for name in names})
    keys = json.loads(say(demi, "convert", "--print-policy"))
    site.check_has("key of policies", "reference/policy.html", {f"policy-key-{key}" for key in keys})
    codes = re.findall(r"^  (\d+) ", say(demi, "--help"), re.M)
    words = " ".join(site.pages["reference/commands.html"].words).split()
    site.problems += [f"exit code {code} is not on reference/commands.html" for code in codes if code not in words]
    if len(commands) < 10 or options < 100 or len(keys) < 10 or len(codes) < 4:
        site.problems.append(f"only {len(commands)} commands, {options} options, {len(keys)} keys, {len(codes)} codes")
    return options


def check_passes(site: Site, demi: str) -> int:
    name, passes, anchors = "", 0, set()
    for line in say(demi, "opt", "--list-passes").splitlines():
        word = re.match(r"\s*([\w-]+)", line).group(1)
        if line.startswith(" "):
            anchors.add(f"cmdoption-{name}-arg-{word}")
        else:
            name, passes = word, passes + 1
            anchors.add(f"pass-{name}")
    site.check_has("pass", "reference/pipeline.html", anchors)
    if passes < 20:
        site.problems.append(f"only {passes} passes")
    return passes


def declarations(text: str) -> set[str]:
    """Names that a header declares, as anchors: functions, types, constants, macros; members as Type.member."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    found = set(re.findall(r"#\s*define\s+(DEMI_\w+)", text))
    text = re.sub(r"^\s*#(?:[^\n\\]|\\\n|\\.)*", "", text, flags=re.M)
    text = re.sub(r"DEMI_PRINTF\([^)]*\)", "", text)
    found |= set(re.findall(r"\b(demi_\w+)\s*\(", text)) | set(re.findall(r"\(\*(Demi\w+)\)", text))
    found |= set(re.findall(r"\btypedef (?:struct|enum) (Demi\w+)", text))
    for enum in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", text, re.S):
        found |= set(re.findall(r"\b(DEMI_\w+)\b\s*(?:=|,|$)", enum.strip()))
    for name, members in re.findall(r"\bstruct (Demi\w+)\s*\{(.*?)\n\}", text, re.S):
        for member in members.split(";"):
            pointer = re.search(r"\(\*(\w+)\)\(", member)
            plain = [] if pointer else [re.search(r"(\w+)\s*(?:\[[^\]]*\])?$", part.strip())
                                        for part in member.split(",") if part.strip()]
            found |= {f"{name}.{pointer[1]}"} if pointer else {f"{name}.{part[1]}" for part in plain if part}
    return {name for name in found if not re.fullmatch(r"DEMI_\w+_H|DEMI_H|DEMI_EXPERIMENTAL", name)}


def check_headers(site: Site, folder: pathlib.Path) -> int:
    count = 0
    for path in sorted(folder.glob("*.h")):
        names = declarations(path.read_text())
        count += len(names)
        page = f"reference/c/{path.stem.replace('demi_', '', 1)}.html"
        have = site.pages[page].ids if page in site.pages else set()
        short = {re.sub(r"^c\.(?:Demi\w+\.)?(?=DEMI_)", "", name).removeprefix("c.") for name in have}
        site.problems += [f"{path.name}: {name} is not on {page}" for name in sorted(names - short)]
    if count < 500:
        site.problems.append(f"only {count} declarations in {folder}")
    return count


def public_names(module: str) -> set[str]:
    """What a program can write behind `import module`: names, and those of classes."""
    there = importlib.import_module(module)
    names = getattr(there, "__all__", None) or [
        name for name, value in vars(there).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("demi_onnx")
        and (inspect.isclass(value) or callable(value)) and (
            getattr(value, "__module__", "") == module)]
    found = set()
    for name in names:
        found.add(f"{module}.{name}")
        value = getattr(there, name)
        if inspect.isclass(value) and (value.__name__ == name or value.__name__ not in names):
            for base in value.__mro__:
                if base.__module__.startswith("demi_onnx"):
                    members = [*vars(base), *getattr(base, "__dataclass_fields__", {})]
                    found |= {f"{module}.{name}.{member}" for member in members
                              if not member.startswith("_") and member not in _slots(base)}
    return found


def _slots(kind: type) -> set[str]:
    """Places of attributes are no descriptions of them."""
    slots = vars(kind).get("__slots__", ())
    return set(slots if not isinstance(slots, str) else [slots])


def check_python(site: Site) -> int:
    count = 0
    for module in PYTHON:
        names = public_names(module)
        count += len(names)
        site.check_has("Python", f"reference/python/{module}.html", names)
    if count < 200:
        site.problems.append(f"only {count} names of the Python package")
    return count


def check_manual(site: Site) -> int:
    """Each Markdown file is a page; its comments are for tools."""
    import manual_pages
    files = manual_pages.Manual(ROOT, ROOT, None).pages
    rooms = [path for path in ROOT.iterdir() if path.is_dir() and path.name != "build"]
    readmes = {str(path.relative_to(ROOT)) for room in rooms for path in room.rglob("README.md")}
    site.problems += [f"{name} is no page" for name in sorted(readmes - set(files))]
    for name, page in files.items():
        page += ".html"
        if page not in site.pages:
            site.problems.append(f"{name} is not a page: {page}")
            continue
        words = " ".join(" ".join(site.pages[page].words).split())
        text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.S | re.M)
        site.problems += [f"{page} shows the comment {comment}" for comment in re.findall(r"<!--.*?-->", text, re.S)
                          if comment in words]
    return len(files)


def check_reports(site: Site) -> int:
    reports = [name for name in site.pages if name.startswith("reports/")]
    if len(reports) != REPORTS:
        site.problems.append(f"{len(reports)} reports, expected {REPORTS}")
    linked = {site.place("gallery.html", link) for link in site.pages["gallery.html"].links}
    site.problems += [f"the gallery has no card for {name}" for name in reports if (name, "") not in linked]
    return len(reports)


# ---- faults that have to be found

def faulty(page: str, **files: str) -> list[str]:
    """Problems of a site of one page."""
    options = {"_static/documentation_options.js": "SHOW_SEARCH_SUMMARY: false,"}
    site = Site({"index.html": page, **options, **files}, set())
    site.check_links()
    site.check_loads()
    return site.problems


def self_test() -> list[str]:
    import c_reference
    import manual_pages
    import python_reference
    wrong = []
    for what, page in (("a link to nothing", '<a href="gone.html">'), ("no anchor", '<a href="#gone">'),
                       ("from a network", '<script src="https://e.org/a.js">'),
                       ("from a network", '<link rel="stylesheet" href="//e.org/a.css">'),
                       ("from a network", "<style>@import 'https://e.org/a.css';</style>"),
                       ("from a network", '<p style="background: url(http://e.org/a.png)">'),
                       ("what is not there", '<img src="gone.png">'),
                       ("not there: /", '<img src="/index.html">'),
                       ("module", '<script type="module">')):
        if not any(what in problem for problem in faulty(page)):
            wrong.append(f"self-test: {what} is not found in {page}")
    if faulty('<p id="here"><a href="#here"><a href="https://example.org"><img src="data:,x">'):
        wrong.append("self-test: a page without faults has one")
    site = Site({"a.html": '<p id="there">'}, set())
    site.check_has("names", "a.html", {"there", "gone"})
    if len(site.problems) != 1:
        wrong.append("self-test: a name that is missing is not found")
    manual = manual_pages.Manual(ROOT, ROOT, None)
    for broken in ("[a](gone.md)", "![a](gone.png)", "[two\nlines](../outside.md)"):
        try:
            manual._with_links("README.md", broken)
            wrong.append(f"self-test: {broken} is not refused")
        except manual_pages.BrokenLink:
            pass
    if manual._with_links("README.md", "`[a](gone)`\n```\n[a](gone)\n```\n") != "`[a](gone)`\n```\n[a](gone)\n```\n":
        wrong.append("self-test: code is not left as it is")
    try:
        page = python_reference.Page(python_reference.Package(ROOT / "tools/python"), python_reference.Module(
            "demi_onnx", ROOT / "tools/python"))
        page.missing.append("name")
        page.text()
        wrong.append("self-test: a missing docstring is not refused")
    except python_reference.Undocumented:
        pass
    header = "/* What it is. */\nint demi_one(void);\nint demi_two(void);\n\ntypedef struct DemiA {\n    int a, *b; /* c */\n} DemiA;\n"
    if declarations(header) != {"demi_one", "demi_two", "DemiA", "DemiA.a", "DemiA.b"}:
        wrong.append(f"self-test: declarations are {declarations(header)}")
    if [piece.kind for piece in c_reference.pieces_of(header)] != ["comment", "code", "code", "code"]:
        wrong.append("self-test: a header is not understood")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    problems = self_test() if args.self_test else []
    out = args.build / "site"
    done = subprocess.run([sys.executable, "-B", ROOT / "tools/site/make_site.py", "--demi", args.demi, "--headers",
                           args.build / "include/demi", "--models", ROOT / "build/data/models", "--out", out, "--jobs", "1"],
                          check=False)
    if done.returncode:
        print("FAIL the site is not made")
        return 1
    site = Site.read(out)
    site.check_links()
    site.check_loads()
    counts = {"options": check_commands(site, args.demi), "passes": check_passes(site, args.demi),
              "declarations": check_headers(site, args.build / "include/demi"), "names of Python": check_python(site),
              "manual pages": check_manual(site), "reports": check_reports(site)}
    links = sum(len(page.links) for page in site.pages.values())
    problems += site.problems
    for text in problems:
        print("FAIL", text)
    print(f"site: {len(site.pages)} pages, {links} links, {', '.join(f'{n} {w}' for w, n in counts.items())}, "
          f"{len(problems)} failures")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
