# SPDX-License-Identifier: Apache-2.0
"""Pages of the Python reference, made of the package's source: it is read, never run, so no library is needed.

Public is what `__all__` of a module of MODULES names, or where it has none what has no underscore and is
defined there; of classes, methods, properties and annotated attributes without an underscore. Names that
are taken from other modules are followed there. What `demi_onnx` itself offers has to have a docstring.
"""

import ast
import copy
import pathlib
import re

import plain

MODULES = ["demi_onnx", "demi_onnx.onnxruntime", "demi_onnx.backend", "demi_onnx.compat.float16"]
DOCUMENTED = {"demi_onnx"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SHORT_VALUE = 60
INNER = "   :no-contents-entry:"  # a page's table of contents has classes, not their members


class Undocumented(Exception):
    """A public name that nothing is said of."""


class Module:
    """A source file: its definitions, and where its other names come from."""

    def __init__(self, name: str, root: pathlib.Path) -> None:
        path = root.joinpath(*name.split("."))
        self.is_package = path.is_dir()
        self.name = name
        text = (path / "__init__.py" if self.is_package else path.with_suffix(".py")).read_text()
        self.tree, self.lines = ast.parse(text), text.splitlines()
        self.defined: dict[str, list[ast.stmt]] = {}
        self.taken: dict[str, tuple[str, str]] = {}
        self.doc = docstring(self.tree) or ""
        for node in self.tree.body:
            self._note(node)

    def _note(self, node: ast.stmt) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self.defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                self.taken[alias.asname or alias.name] = (self._from(node), alias.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    self.defined.setdefault(target.id, []).append(node)

    def _from(self, node: ast.ImportFrom) -> str:
        parts = self.name.split(".")
        parts = parts[:len(parts) - node.level + self.is_package]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def beside(self, node: ast.stmt) -> str:
        """The comment on the line on which a statement ends."""
        rest = self.lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset or 0:].decode()
        return rest.partition("#")[2].strip()

    def public(self) -> list[str]:
        for node in self.defined.get("__all__", []):
            if isinstance(node, ast.Assign):
                return sorted(ast.literal_eval(node.value))
        return [name for name in self.defined if not name.startswith("_")]


class Package:
    """All modules, each read when it is first asked for."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.modules = root, {}

    def module(self, name: str) -> Module:
        if name not in self.modules:
            self.modules[name] = Module(name, self.root)
        return self.modules[name]

    def is_module(self, name: str) -> bool:
        path = self.root.joinpath(*name.split("."))
        return path.with_suffix(".py").exists() or (path / "__init__.py").exists()

    def find(self, module: str, name: str) -> tuple[Module, list[ast.stmt]]:
        """The definition of a name, wherever it is; [] where it is no definition of this package."""
        here = self.module(module)
        if name in here.defined:
            return here, here.defined[name]
        if name in here.taken:
            there, as_name = here.taken[name]
            if self.is_module(there) and not self.is_module(f"{there}.{as_name}"):
                return self.find(there, as_name)
        return here, []

    def bases(self, module: Module, node: ast.ClassDef) -> list[tuple[Module, ast.ClassDef]]:
        """The class, and those of this package that it is made of."""
        found = [(module, node)]
        for base in node.bases:
            if isinstance(base, ast.Name):
                where, nodes = self.find(module.name, base.id)
                if nodes and isinstance(nodes[0], ast.ClassDef):
                    found += self.bases(where, nodes[0])
        return found


class _Unquoted(ast.NodeTransformer):
    """Annotations as types: 'Node | None' is a name that is not known yet where it stands."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if ast.unparse(node.value).endswith("Literal") else self.generic_visit(node)


def annotation(node: ast.expr) -> str:
    return ast.unparse(_Unquoted().visit(copy.deepcopy(node)))


def decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(d).partition("(")[0] for d in node.decorator_list}


def arguments(node: ast.FunctionDef, method: bool) -> str:
    """The parameters as a signature has them, and what is returned."""
    args = copy.deepcopy(node.args)
    for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
        if arg is not None and arg.annotation is not None:
            arg.annotation = _Unquoted().visit(arg.annotation)
    if method and "staticmethod" not in decorators(node):
        if args.posonlyargs:
            args.posonlyargs = args.posonlyargs[1:]
        else:
            args.args = args.args[1:]
    gives = f" -> {annotation(node.returns)}" if node.returns else ""
    return f"({ast.unparse(args)}){gives}"


def docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str | None:
    """It as it is written, without the indentation that it has as a part of the file."""
    text = ast.get_docstring(node, clean=False)
    margin = node.body[0].col_offset if text is not None else 0
    return text and "\n".join(line[margin if line[:margin].isspace() else 0:] for line in text.splitlines())


def said(text: str | None) -> str:
    return plain.paragraphs(text or "", "python")


class Page:
    """What is written of one module."""

    def __init__(self, package: Package, module: Module) -> None:
        self.package, self.module = package, module
        self.missing: list[str] = []

    def text(self) -> str:
        name = self.module.name
        groups: dict[str, list[str]] = {"Classes": [], "Functions": [], "Other names": []}
        for public in self.module.public():
            kind, text = self._one(public)
            groups[kind].append(text)
        if self.missing and name in DOCUMENTED:
            raise Undocumented(f"{name} has no docstring for: {', '.join(self.missing)}")
        parts = [plain.title(name, "="), f".. py:module:: {name}\n", said(self.module.doc)]
        for heading, texts in groups.items():
            if texts:
                parts += [plain.title(heading, "-"), *texts]
        return "\n".join(parts)

    def _one(self, name: str) -> tuple[str, str]:
        where, nodes = self.package.find(self.module.name, name)
        last = nodes[-1] if nodes else None
        if isinstance(last, FUNCTIONS):
            return "Functions", self._function(nodes, "function", name)
        if isinstance(last, ast.ClassDef):
            return "Classes", self._class(where, last, name)
        return "Other names", self._other(where, last, name)

    def _other(self, where: Module, node: ast.stmt | None, name: str) -> str:
        """A module, or a second name of something."""
        value = getattr(node, "value", None)
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):  # prepare = Backend.prepare
            _, nodes = self.package.find(where.name, value.value.id)
            for part in nodes[-1].body if nodes and isinstance(nodes[-1], ast.ClassDef) else []:
                if isinstance(part, FUNCTIONS) and part.name == value.attr:
                    return self._function([part], "function", name, method=True)
        text = f"Is `{ast.unparse(value)}`." if value is not None else "A module."
        return f".. py:data:: {name}\n\n{plain.indented(said(text))}\n"

    def _function(self, nodes: list[ast.stmt], kind: str, name: str, method: bool = False) -> str:
        """A function, with a signature for each of its overloads."""
        functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
        overloads = [node for node in functions if "overload" in decorators(node)]
        doc = next((docstring(node) for node in reversed(functions) if docstring(node)), None)
        if doc is None:
            self.missing.append(name)
        head = f".. py:{kind}:: "
        lines = [name + arguments(node, method) for node in overloads or functions[-1:]]
        options = [f"   :{word}:" for word in ("classmethod", "staticmethod")
                   if word in decorators(functions[-1]) and kind == "method"]
        options += ["   :async:"] if isinstance(functions[-1], ast.AsyncFunctionDef) else []
        options += [INNER] if kind == "method" else []
        rest = "\n".join([head + lines[0], *(" " * len(head) + line for line in lines[1:]), *options])
        return f"{rest}\n\n{plain.indented(said(doc))}\n"

    def _class(self, where: Module, node: ast.ClassDef, name: str) -> str:
        if docstring(node) is None:
            self.missing.append(name)
        chain = self.package.bases(where, node)
        members: dict[str, str] = {}
        init = ""
        for place, part in chain:
            is_data = any("dataclass" in ast.unparse(d) for d in part.decorator_list)
            for found, text in self._members(place, part):
                members.setdefault(found, text)
            own = next((n for n in part.body if isinstance(n, FUNCTIONS) and n.name == "__init__"), None)
            if own and not init:
                init = arguments(own, True).partition(" -> ")[0]
                members = {**members, **{n: t for n, t in self._set_by(place, own) if n not in members}}
            elif is_data and not init:
                init = " "
        bases = [ast.unparse(base) for base in node.bases if not ast.unparse(base).startswith("_")]
        if re.search(r"\b_[A-Z]", init):  # made of what programs do not have: by the library alone
            init = ""
        body = [said(docstring(node))]
        if bases:
            body.append(f"{said('Bases: ' + ', '.join(f'`{base}`' for base in bases))}")
        body += members.values()
        return f".. py:class:: {name}{init.rstrip()}\n\n{plain.indented(chr(10).join(body))}\n"

    def _members(self, where: Module, node: ast.ClassDef) -> list[tuple[str, str]]:
        out = []
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                out.append((part.target.id, self._attribute(where, part.target.id, part)))
            elif isinstance(part, ast.Assign):
                out += [(t.id, self._attribute(where, t.id, part)) for t in part.targets if isinstance(t, ast.Name)]
            elif isinstance(part, FUNCTIONS):
                out += self._method(part)
        return [(name, text) for name, text in out if not name.startswith("_")]

    def _method(self, node: ast.FunctionDef) -> list[tuple[str, str]]:
        marks = decorators(node)
        if any(mark.endswith(".setter") for mark in marks):
            return []
        if "property" in marks:
            kind = f"   :type: {annotation(node.returns)}\n" if node.returns else ""
            text = plain.indented(said(docstring(node)))
            return [(node.name, f".. py:property:: {node.name}\n{INNER}\n{kind}\n{text}\n")]
        kept = len(self.missing)
        text = self._function([node], "method", node.name, method=True)
        del self.missing[kept:]  # a name that says it all needs no docstring within a class
        return [(node.name, text)]

    def _set_by(self, where: Module, init: ast.FunctionDef) -> list[tuple[str, str]]:
        """Attributes that the constructor annotates: self.name: str = …"""
        return [(part.target.attr, self._attribute(where, part.target.attr, part)) for part in ast.walk(init)
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Attribute)
                and not part.target.attr.startswith("_")]

    @staticmethod
    def _attribute(where: Module, name: str, node: ast.Assign | ast.AnnAssign) -> str:
        """Its type, or what it is; and the comment beside it."""
        option = ""
        if isinstance(node, ast.AnnAssign):
            option = f"   :type: {annotation(node.annotation)}\n"
        elif len(ast.unparse(node.value)) < SHORT_VALUE:
            value = re.sub(r"\b_\w+\.", "", ast.unparse(node.value))  # of a private module
            option = f"   :value: {value}\n"
        return f".. py:attribute:: {name}\n{INNER}\n{option}\n{plain.indented(said(where.beside(node)))}\n"


def write_pages(root: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """A page for each module; gives the pages' names. Undocumented where something public is not explained."""
    folder.mkdir(parents=True, exist_ok=True)
    package = Package(root)
    for name in MODULES:
        (folder / f"{name}.rst").write_text(Page(package, package.module(name)).text())
    return MODULES
