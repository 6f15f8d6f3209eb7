"""Import graph of a crate's source files, from modules and `use` paths, without a compiler."""

import re
from pathlib import Path

CFG_TEST = r"#\[cfg\((?:test|any\(test\b[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*"


class Crate:
    """Modules of `root/src` without tests, and the imports between their files."""

    def __init__(self, root):
        self.source = Path(root) / "src"
        self.files = {}  # module path, a tuple of names -> file
        self.code = {}  # file -> its text without comments, strings and tests
        self.exports = {}  # module path -> {name: path}, None for the name of a glob
        for start in ("lib.rs", "main.rs"):
            if (self.source / start).exists():
                self._read((), self.source / start)
                break

    def _read(self, module, file):
        code = without_tests(without_literals(file.read_text()))
        self.files[module], self.code[file] = file, code
        uses = re.findall(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", code)
        self.exports[module] = {name: path for use in uses for path, name in expand(use)}
        # Shared with another crate, where it is checked.
        code = re.sub(r"#\[path\s*=[^\]]*\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*;", "", code)
        folder = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
        for name in re.findall(r"\bmod\s+(\w+)\s*;", code):
            child = folder / f"{name}.rs"
            self._read((*module, name), child if child.exists() else folder / name / "mod.rs")

    def imports(self):
        """{file: imported files}, relative to `src`."""
        found = {}
        for module, file in self.files.items():
            targets = {self._resolve(module, path) for path in paths(self.code[file])}
            found[self._name(file)] = {self._name(target) for target in targets - {None, file}}
        return found

    def _name(self, file):
        return file.relative_to(self.source).as_posix()

    def _resolve(self, module, path, seen=()):
        """File that defines `path` as seen from `module`; None if another crate defines it."""
        names = list(path)
        first = names[0]
        if first == "crate":
            module, names = (), names[1:]
        elif first in ("self", "super"):
            while names and names[0] in ("self", "super"):
                module = module[:-1] if names.pop(0) == "super" else module
        elif (*module, first) not in self.files:
            return None
        while names and (*module, names[0]) in self.files:
            module = (*module, names.pop(0))
        if not names or (module, names[0]) in seen:
            return self.files[module] if not names else None
        exports = self.exports[module]
        if names[0] in exports:
            return self._resolve(module, [*exports[names[0]], *names[1:]], (*seen, (module, names[0])))
        return self.files[module]


def without_literals(text):
    """The text with comments, strings and characters blanked, and lines preserved."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|\bb?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\[^\n]|[^'\\\n])'", re.DOTALL)
    return pattern.sub(lambda found: "\n" * found.group().count("\n") + " ", text)


def without_tests(code):
    """The code without test-only items."""
    while found := re.search(CFG_TEST, code):
        end = found.end()
        depth = 0
        while end < len(code):
            character = code[end]
            depth += (character == "{") - (character == "}")
            end += 1
            if depth == 0 and character in ";}":
                break
        code = code[:found.start()] + code[end:]
    return code


def expand(tree):
    """(path, name) of each leaf of a `use` tree: `a::{b, c as d}` gives ((a, b), b) and ((a, c), d)."""
    tree = tree.strip()
    if "{" in tree:
        prefix, rest = tree.split("{", 1)
        prefix = [name for name in prefix.strip().strip(":").split("::") if name]
        parts, depth, part = [], 0, ""
        for character in rest.rsplit("}", 1)[0] + ",":
            depth += (character == "{") - (character == "}")
            if character == "," and depth == 0:
                parts.append(part)
                part = ""
            else:
                part += character
        return [((*prefix, *path), prefix[-1] if name == "self" else name) for part in parts if part.strip() for path, name in expand(part)]
    path, _, alias = (part.strip() for part in tree.partition(" as "))
    names = [name.strip() for name in path.split("::") if name.strip()]
    if names == ["self"]:
        names = []
    return [(tuple(names), alias or (names[-1] if names else "self"))]


def paths(code):
    """Every path that the code imports or names from the crate's root, `self` or `super`."""
    for tree in re.findall(r"\buse\s+([^;]+);", code):
        yield from (path for path, _ in expand(tree))
    # `pub(in path)` is a visibility.
    rest = re.sub(r"\buse\s+[^;]+;|\bpub\(in [^)]*\)", "", code)
    for path in re.findall(r"(?<![\w:$])(?:crate|self|super)(?:::\w+)+", rest):
        yield path.split("::")
    # A child module or an imported one, called by its name.
    for path in re.findall(r"(?<![\w:$.])[a-z_]\w*(?:::\w+)+", rest):
        if path.split("::")[0] not in ("crate", "self", "super", "std", "core"):
            yield path.split("::")


def between_folders(imports):
    """{folder or file: those beside it that it imports}. A file inside a folder counts as the folder, except for another file of that
    folder, and the module's own file (`a.rs` or `a/mod.rs` of `a/`) is `a/mod`."""
    found = {}
    for file, targets in imports.items():
        for target in targets:
            source, target = _place(file, imports), _place(target, imports)
            shared = next(depth for depth, (name, other) in enumerate(zip(source, target)) if name != other)
            found.setdefault("/".join(source[:shared + 1]), set()).add("/".join(target[:shared + 1]))
    return found


def _place(file, files):
    """The file as a list of folders and a name."""
    name = file.removesuffix(".rs")
    has_folder = any(other.startswith(f"{name}/") for other in files)
    return [*name.split("/"), "mod"] if has_folder else name.split("/")


def circles(imports):
    """Sets of files that import each other, directly or indirectly: strongly connected components of several files."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for target in sorted(imports.get(file, ())):
            if target not in index:
                visit(target)
                low[file] = min(low[file], low[target])
            elif target in stack:
                low[file] = min(low[file], index[target])
        if low[file] == index[file]:
            component = stack[stack.index(file):]
            del stack[stack.index(file):]
            if len(component) > 1:
                found.append(sorted(component))

    for file in sorted(imports):
        if file not in index:
            visit(file)
    return found
