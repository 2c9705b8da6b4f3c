"""What holds for the files of the pooler: they and their folders use each other in one direction, the core asks nothing of
a system, and records stay small enough to be read. The packages of Python use each other in one direction, too.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IMPORT = re.compile(r"\buse ((?:crate|super)::[^;]+);|\b((?:crate|super)(?:::\w+)+)")


def flat(tree: str) -> list[str]:
    """The paths of a `use` tree."""
    tree = tree.strip()
    if not (group := re.fullmatch(r"(.*?)\{(.*)\}", tree, re.S)):
        return [re.sub(r" as \w+", "", tree)]
    paths, depth, part = [], 0, ""
    for letter in group[2] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            paths += flat(group[1] + part.strip()) if part.strip() else []
            part = ""
        else:
            part += letter
    return paths


def imports(folder: Path) -> dict[str, set[str]]:
    """The modules that each module of a crate names. A module that only declares and re-exports is none."""
    files = {path.relative_to(folder) for path in folder.rglob("*.rs")}
    names = {"::".join(f.parts[:-1] if f.stem == "mod" else (*f.parts[:-1], f.stem)): f for f in files}
    graph: dict[str, set[str]] = {}
    for name, file in names.items():
        text = re.sub(r"#\[cfg\(test\)\]\s*mod tests \{.*", "", (folder / file).read_text(), flags=re.S)
        text = re.sub(r"//.*", "", text)
        found = [path for use, path in IMPORT.findall(text) for path in (flat(use) if use else [path])]
        graph[name] = set()
        for path in found:
            parts = path.split("::")
            parts = [*name.split("::")[:-1], *parts[1:]] if parts[0] == "super" else parts[1:]
            known = ["::".join(parts[:end]) for end in range(len(parts), 0, -1)]
            graph[name] |= {next((module for module in known if module in names), name)} - {name}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """Modules that use each other in a circle, if there are any."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str] | None:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return None
        for used in sorted(graph[name]):
            if found := walk(used, [*way, name]):
                return found
        done.add(name)
        return None

    return next((found for name in sorted(graph) if (found := walk(name, []))), None)


@pytest.mark.parametrize("crate", ["pooler", "crates/pooling"])
def test_files_use_each_other_in_one_direction(crate: str) -> None:
    graph = imports(ROOT / crate / "src")
    assert len(graph) > 20 and sum(map(len, graph.values())) > 20, "the imports were read"
    assert not (found := circle(graph)), f"a circle of files: {' -> '.join(found)}"


# The product first, then what builds, shows, measures and tests it: each imports only those before it.
PACKAGES = [
    "driver/python/howdah",
    "console/howdah_console",
    "server/howdah_server",
    "tools/devkit",
    "demo",
    "bench",
    "tests",
]


def test_packages_of_python_use_each_other_in_one_direction() -> None:
    names = [Path(folder).name for folder in PACKAGES]
    used = {name: set() for name in names}
    for folder in PACKAGES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                found += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                used[Path(folder).name] |= {name.split(".")[0] for name in found} & set(names)
    assert "devkit" in used["demo"] and "demo" in used["tests"], "the imports were read"
    upward = {
        f"{name} imports {other}" for name in names for other in used[name] if names.index(other) > names.index(name)
    }
    assert not upward


# The folders of the pooler's core, from bottom to top: each uses those before it.
FOLDERS = [
    "error",
    "config",
    "model",
    "monitor",
    "catalog",
    "metrics",
    "state",
    "router",
    "pools",
    "takeover",
    "frontend",
    "pipeline",
    "backend",
    "admin",
    "reactor",
]

# The uses of a file by one of a lower folder that remain. This number only ever falls.
UPWARD = 1


def upward(graph: dict[str, set[str]], folders: list[str]) -> list[str]:
    """The uses of a file by one of a lower folder."""
    place = {folder: number for number, folder in enumerate(folders)}

    def goes_up(user: str, used: str) -> bool:
        below, above = (place.get(module.split("::")[0]) for module in (user, used))
        return below is not None and above is not None and below < above

    uses = ((user, used) for user, all_used in sorted(graph.items()) for used in sorted(all_used))
    return [f"{user} -> {used}" for user, used in uses if goes_up(user, used)]


def test_folders_of_the_core_use_those_below_them() -> None:
    folder = ROOT / "crates/pooling/src"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set(FOLDERS), "each folder has its place"
    found = upward(imports(folder), FOLDERS)
    assert len(found) <= UPWARD, "the uses against the order of the folders:\n" + "\n".join(found)


SYSTEM = re.compile(
    r"\b(?:std::net::(?:Tcp|Udp|ToSocketAddrs)|std::os::unix::net|std::fs\b|std::thread|thread::|std::env|std::process"
    r"|Instant::now|SystemTime::now|mio::|nix::|rustix::|rustls|socket2)"
)


def test_the_core_of_the_pooler_has_no_sockets_threads_files_or_clock() -> None:
    """What it asks of a system are the traits of io.rs and shared.rs; simulations give it a time of their own."""
    folder = ROOT / "crates/pooling"
    assert not re.search(
        r"^(?:mio|nix|rustix|rustls|socket2|tokio|signal-hook)\b", (folder / "Cargo.toml").read_text(), re.M
    )
    found = []
    for path in folder.rglob("*.rs"):
        if path.name in ("tests.rs", "by_hand.rs"):
            continue
        text = re.sub(r"#\[cfg\(test\)\]\s*mod tests \{.*", "", path.read_text(), flags=re.S)
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
        found += [f"{path.relative_to(ROOT)}: {line.strip()}" for line in lines if SYSTEM.search(line)]
    assert not found, "\n".join(found)


STRUCT = re.compile(
    r"^(?P<indent> *)(?:pub(?:\([a-z]+\))? )?struct (?P<name>\w+)[^;({]*\{\n(?P<body>.*?)^(?P=indent)\}", re.M | re.S
)
FIELD = re.compile(r"^ *(?:pub(?:\([a-z]+\))? )?(?:r#)?[a-z_]\w*: ", re.M)


def records(text: str) -> dict[str, int]:
    """The structs of a file, and how many fields each has."""
    text = re.sub(r"^\s*//.*\n", "", text, flags=re.M)
    return {found["name"]: len(FIELD.findall(found["body"])) for found in STRUCT.finditer(text)}


def test_no_record_of_the_pooler_has_more_than_fifteen_fields() -> None:
    """Fields are grouped by what they are for. Settings are a table, whose struct a macro makes."""
    found = {
        f"{path.relative_to(ROOT)}: {name}": fields
        for crate in ("crates/pooling/src", "pooler/src")
        for path in (ROOT / crate).rglob("*.rs")
        for name, fields in records(path.read_text()).items()
    }
    assert len(found) > 100 and max(found.values()) > 10, "the structs were read"
    assert not [f"{name} has {fields}" for name, fields in found.items() if fields > 15]


def test_fields_are_counted() -> None:
    text = (
        "pub struct A<'a> {\n    /// One: it.\n    pub one: u8,\n    two: Vec<&'a u8>,\n}\nstruct B(u8);\nstruct C;\n"
    )
    assert records(text) == {"A": 2}


def test_a_use_against_the_order_is_found() -> None:
    assert upward({"low::a": {"low::b", "top::c", "beside"}, "top::c": {"low::a"}}, ["low", "top"]) == [
        "low::a -> top::c"
    ]


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
