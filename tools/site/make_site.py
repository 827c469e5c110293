# SPDX-License-Identifier: Apache-2.0
"""Makes the documentation site: `make_site.py --demi COMMAND --headers FOLDER --models FOLDER --out FOLDER`.

There is no text of its own but tables of contents: guides are the manual's Markdown files, commands, policies
and passes what `demi help` prints, the C reference the public headers, the Python reference the package's
source, and the gallery reports that are made here. All become sources in OUT.sources, which Sphinx turns into
OUT, where a warning is an error: links and their anchors are checked by it. OUT is replaced whole, or, where
something is wrong, not at all. Exit 3: Sphinx is not there, and how to have it.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import time

import c_reference
import gallery
import man_pages
import manual_pages
import python_reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NEEDS = {"sphinx": "Sphinx", "myst_parser": "MyST-Parser", "furo": "Furo"}
INDEX = """{title}
{line}

{text}

.. toctree::
   :maxdepth: 2

{pages}
"""


def index_page(title: str, text: str, pages: list[str]) -> str:
    return INDEX.format(title=title, line="=" * len(title), text=text, pages="\n".join(f"   {p}" for p in pages))


def write_sources(args: argparse.Namespace, folder: pathlib.Path) -> int:
    """All that Sphinx reads; gives the number of reports."""
    reference = folder / "reference"
    manual = manual_pages.Manual(ROOT, folder, args.source)
    headers = sorted(args.headers.glob("demi*.h"))
    if not headers or "glossary" not in manual.pages.values():
        raise manual_pages.BrokenLink(f"no public headers in {args.headers}" if not headers
                                      else "tools/glossary.md is not there")
    pages = c_reference.write_pages(headers, reference / "c")
    manual.headers = {f"{path.name}": f"reference/c/{path.stem.replace('demi_', '', 1)}" for path in headers}
    (reference / "c.rst").write_text(index_page(
        "C interface", "The public headers, one page each.", [f"c/{name}" for name in pages]))
    modules = python_reference.write_pages(ROOT / "tools/python", reference / "python")
    (reference / "python.rst").write_text(index_page(
        "Python interface", "The modules that programs import.", [f"python/{name}" for name in modules]))
    topics = man_pages.write_pages(args.demi, reference)
    manual.write_pages()
    contents = (HERE / "contents.md").read_text()
    with (folder / "index.md").open("a") as index:
        index.write("\n" + contents.replace("@TOPICS@", "\n".join(f"reference/{topic}" for topic in topics)))
    return gallery.write_page(args.demi, args.models, folder / "gallery.rst", folder / "extra/reports")


def run_sphinx(sources: pathlib.Path, out: pathlib.Path, version: str, jobs: int) -> int:
    from sphinx.cmd.build import build_main
    settings = {"version": version, "release": version, "html_extra_path": f"{sources.resolve()}/extra"}
    return build_main(["-b", "html", "-W", "--keep-going", "-q", "-E", "-c", str(HERE), "-d", f"{sources}/.doctrees",
                       *(word for name, value in settings.items() for word in ("-D", f"{name}={value}")),
                       "-j", str(jobs), str(sources), str(out)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the documentation site.")
    parser.add_argument("--demi", type=pathlib.Path, required=True, help="the command that was built")
    parser.add_argument("--headers", type=pathlib.Path, required=True, help="the public headers")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="models of the gallery: FOLDER/*/*.onnx")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--source", help="where the tree can be read: links to its files begin with this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    missing = [title for name, title in NEEDS.items() if importlib.util.find_spec(name) is None]
    if missing:
        print(f"make_site: {', '.join(missing)} not found; tools/site/build and tools/test install them "
              "(tools/setup/requirements-site.txt)", file=sys.stderr)
        return 3
    begun = time.monotonic()
    sources, fresh = pathlib.Path(f"{args.out}.sources"), pathlib.Path(f"{args.out}.new")
    for folder in (sources, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    sources.mkdir(parents=True)
    try:
        reports = write_sources(args, sources)
    except (manual_pages.BrokenLink, python_reference.Undocumented, RuntimeError) as error:
        print(f"make_site: {error}", file=sys.stderr)
        return 1
    version = re.search(r"[\d.]+", man_pages.say(args.demi, "-V"))[0]
    if run_sphinx(sources, fresh, version, args.jobs):
        return 1
    shutil.rmtree(fresh / ".doctrees", ignore_errors=True)
    shutil.rmtree(args.out, ignore_errors=True)
    fresh.rename(args.out)
    size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"site: {len(list(args.out.rglob('*.html')))} pages, {reports} reports, {size / 1e6:.1f} MB, "
          f"{time.monotonic() - begun:.1f} s: {args.out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
