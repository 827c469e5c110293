# SPDX-License-Identifier: Apache-2.0
"""What a statically linked demi must do: with each model in the folders the same as another build, to the bit:
the file converted to float16, bfloat16 and weights of 8 bit, and simplified, and the outputs of a run with
random inputs by demi's own kernels. And what it can't do, loading libraries, it says in one line.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

CONVERSIONS = [["convert"], ["convert", "--to", "bfloat16"], ["convert", "--to", "int8-weights"], ["simplify"]]
NOT_THERE = ("linked statically", "built without CUDA")


def call(demi: pathlib.Path, *words: str) -> tuple[int, bytes]:
    done = subprocess.run([demi, *words], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout


class Trial:
    def __init__(self, static: pathlib.Path, other: pathlib.Path) -> None:
        self.demis, self.problems = (static, other), []
        self.converted, self.ran = 0, 0

    def convert(self, model: pathlib.Path, folder: pathlib.Path) -> None:
        for number, words in enumerate(CONVERSIONS):
            made = []
            for demi, name in zip(self.demis, ("static", "other")):
                out = folder / f"{name}{number}.onnx"
                said = call(demi, *words, str(model), "-q", "-o", str(out))
                made.append((*said, out.read_bytes() if out.exists() else b""))
            self.converted += bool(made[0][2])
            if made[0] != made[1]:
                self.problems.append(f"{model}: {' '.join(words)} gives something else")

    def run(self, model: pathlib.Path, folder: pathlib.Path) -> None:
        said = [call(demi, "run", str(model), "--random", "1", "--kernels", "own", "-q", "-o",
                     str(folder / name)) for demi, name in zip(self.demis, ("static", "other"))]
        if said[0] != said[1]:
            self.problems.append(f"{model}: run says {said[0]} for {said[1]}")
            return
        self.ran += said[0][0] == 0
        made = [{path.name: path.read_bytes() for path in (folder / name).glob("*")}
                for name in ("static", "other")]
        if made[0] != made[1]:
            self.problems.append(f"{model}: run gives other bits")

    def model(self, model: pathlib.Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.convert(model, pathlib.Path(folder))
            self.run(model, pathlib.Path(folder))

    def refusals(self, model: pathlib.Path) -> None:
        with tempfile.NamedTemporaryFile(suffix=".so") as plugin:
            asked = (["opt", "--load-pass", plugin.name, "--passes", "infer-dtypes"],
                     ["run", "--random", "1", "--device", "cuda"])
            for words in asked:
                code, text = call(self.demis[0], words[0], str(model), *words[1:])
                if code == 0 or not any(there in text.decode() for there in NOT_THERE) or text.count(b"\n") != 1:
                    self.problems.append(f"{' '.join(words)}: {code}, {text.decode()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("static", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    trial = Trial(args.static.resolve(), args.other.resolve())
    models = sorted(path for folder in args.folders for end in ("onnx", "onnxtxt")
                    for path in folder.rglob(f"*.{end}"))
    for model in models:
        trial.model(model)
    trial.refusals(models[0])
    print(*trial.problems, sep="\n", end="\n" if trial.problems else "")
    print(f"{len(models)} models: {trial.converted} of {len(CONVERSIONS) * len(models)} files made, {trial.ran} "
          f"run, {len(trial.problems)} problems")
    return 1 if trial.problems or not trial.converted or not trial.ran else 0


if __name__ == "__main__":
    sys.exit(main())
