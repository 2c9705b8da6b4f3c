"""Fuzzes the parsers, and sessions behind the pooler: `python fuzz/run.py [SECONDS] [TARGET ...]`, or
`make fuzz SECONDS=900 TARGETS="scram session"`.

Each target is built with coverage for libFuzzer and with AddressSanitizer, whose runtime comes with the stable
compiler, and run for so many seconds (60) from its seeds and from what earlier runs have found (`fuzz/corpus`). What
makes one fail is kept in `fuzz/artifacts`; `fuzz/target/TRIPLE/release/TARGET FILE` does it again.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from devkit import Problem, say  # noqa: E402
from devkit.setup import setup  # noqa: E402

COVERAGE = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    *(
        f"-Cllvm-args=-sanitizer-coverage-{what}"
        for what in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
    ),
    "-Ccodegen-units=1",
    # Not a stable option of the compiler, which RUSTC_BOOTSTRAP makes it take all the same.
    "-Zsanitizer=address",
]
# Folders with more seeds than those in `fuzz/seeds`: what the tests keep anyway.
MORE_SEEDS = {
    "model_json": "crates/forest/tests/models/[0-9]*",
    "model_ubj": "crates/forest/tests/models/[0-9]*",
    "model_state": "crates/forest/tests/models/[0-9]*",
    "model_binary": "crates/forest/tests/models/binary",
    "model_catboost": "tests/exchange",
    "image": "crates/forest/tests/images/*",
}


def build():
    """Builds all targets; gives the folder of the programs."""
    # libclang is among what it fetches.
    setup()
    found = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (.*)$", found, re.MULTILINE)[1]
    # With a target said, build scripts and macros are not instrumented.
    command = ["cargo", "build", "--release", "--manifest-path", HERE / "Cargo.toml", "--target", host]
    flags = {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(COVERAGE),
        "CARGO_TARGET_DIR": str(HERE / "target"),
        "RUSTC_BOOTSTRAP": "1",
    }
    subprocess.run(command, env=os.environ | flags, check=True)
    return HERE / "target" / host / "release"


def fuzz(program, seconds):
    """Runs one target; whether it stood."""
    name = program.name
    corpus, seeds, artifacts = HERE / "corpus" / name, HERE / "seeds" / name, HERE / "artifacts" / name
    for folder in (corpus, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/", "-timeout=10"]
    command += ["-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]
    dictionary = seeds.with_suffix(".dict")
    if dictionary.exists():
        command.append(f"-dict={dictionary}")
    more = sorted(HERE.parent.glob(MORE_SEEDS[name])) if name in MORE_SEEDS else []
    folders = [corpus, *([seeds] if seeds.exists() else []), *more]
    # What is in several crates at once, as generic code, is told as defined twice.
    environment = os.environ | {"ASAN_OPTIONS": "detect_odr_violation=0"}
    done = subprocess.run([*command, *folders], env=environment, capture_output=True, text=True, errors="replace")
    runs = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
    kept = len(list(corpus.iterdir()))
    print(f"{name}: {'stood' if done.returncode == 0 else 'FAILED'}, {runs[1] if runs else '?'} inputs, {kept} kept")
    if done.returncode != 0:
        print("\n".join(done.stderr.splitlines()[-40:]))
    return done.returncode == 0


def main(arguments):
    """Builds and runs; the exit code says whether all targets stood."""
    seconds = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 60
    targets = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))
    unknown = set(arguments) - set(targets)
    if unknown:
        return f"no such target: {' '.join(sorted(unknown))}; there are {' '.join(targets)}"
    programs = build()
    outcomes = [fuzz(programs / name, seconds) for name in arguments or targets]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        say.complain(problem)
        sys.exit(1)
