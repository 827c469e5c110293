# SPDX-License-Identifier: Apache-2.0
"""Judges `demi` on models of the kinds that are known to break converters.

The cases are testdata/golden/peers.txt's, run end to end here, and those of suite/peer_models.py,
where the wire counts. Of every one, as of the backend models: conversion to float16 and bfloat16
with graph inputs and outputs kept and low is valid by ONNX's full check and strict inference, keeps
the input/output contract, explains what it leaves alone, and computes what the source computes;
everything excluded gives the source's own bytes; doc strings, metadata and unknown fields stay.
Cases with external data have checks of their own, at the end.

Class -> case; a failure of this test where a class has none, or a case no class. Cases with blanks
in their names are in peers.txt, `_` ones in suite/peer_models.py, the test's own methods begin with
external_.
"""

import argparse
import collections
import pathlib
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper

from judges import Finding, conversion, first, numbers, round_trip
from suite import engines, exceptions, metric, peer_models, validity, walk
from suite.command import Demi, work_folder
from suite.package import demi
from suite.subject import Made, Subject, frozen
from suite.variants import VARIANTS, Variant

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "testdata/golden/peers.txt"

CLASSES = {
    "inner Cast(to=float)": [
        "inner Cast to float", "inner Cast to float of integers",
        "a Cast to integer reads the unrounded value"],
    "Resize in both layouts and by sizes": [
        "Resize of opset 10: X, scales", "Resize of opset 13: X, roi, scales", "Resize by sizes",
        "Upsample keeps its scales"],
    "unnamed nodes, duplicate names": [
        "unnamed nodes", "an unnamed node is excluded by its output", "no_names_at_all",
        "nodes_with_one_name"],
    "outputs consumed inside": ["an output is read inside"],
    "one initializer read in both precisions": ["one initializer in both precisions"],
    "ConstantOfShape's default": [
        "ConstantOfShape without a value",
        "ConstantOfShape without a value, bfloat16 from opset 20"],
    "Constant value_float, weights in Constant nodes": [
        "Constant value_float and value_floats",
        "weights in Constant nodes, also in branches and functions",
        "constants and types that a function gets as attributes", "typed_and_raw_weights"],
    "Random* and EyeLike": [
        "random streams stay, EyeLike and Bernoulli", "EyeLike with and without dtype",
        "Multinomial's dtype is an integer"],
    "If branches that read outer values and graph inputs": [
        "If branches read outer values and inputs", "names_of_casts_in_sibling_branches"],
    "nested If, Loop and Scan with float state": [
        "nested If, Loop and Scan with float state", "nested Loop in If in a function, called twice",
        "Scan with several states and scans",
        "a branch output is a captured value, another a constant",
        "If without outputs used; Loop with scan outputs alone", "a state swaps places in a Loop",
        "initializers in branches and shadow-free names"],
    "an excluded operator inside a branch": ["an excluded operator inside a branch"],
    "model-local functions": [
        "model-local functions", "a function is called with two types", "function_value_info",
        "a function shared at float, float16 and double",
        "a function with an attribute for a type, called alike and not",
        "nested_functions"],
    "sparse initializers": [
        "sparse initializers", "a Constant with sparse_value keeps its data", "sparse_initializer",
        "sparse_constant"],
    "QuantizeLinear and DequantizeLinear before 19": [
        "quantization before opset 19", "quantization at opset 21", "quantization_annotation",
        "quantized network with a Conv between"],
    "operators without a 16-bit form": [
        "operators without a 16-bit form", "what bfloat16 has no form of before opset 22",
        "a custom operator keeps its types", "a custom operator between, without value_info"],
    "LayerNormalization's further outputs": [
        "LayerNormalization's further outputs, float16",
        "LayerNormalization's further outputs, bfloat16",
        "LayerNormalization's further outputs, fast policy"],
    "sequences, in and out": [
        "sequences in and out", "sequences in and out, low", "sequences have no bfloat16 form",
        "SequenceEmpty and Optional say their type in an attribute",
        "sequences of captured values", "SequenceMap over sequences and a tensor", "sequence_map"],
    "If and Loop over sequences and optionals": [
        "control flow over sequences", "control flow over optionals", "Optional of a sequence"],
    "initializers that are inputs (IR 3)": [
        "initializers that are inputs, IR 3", "initializers_as_inputs_ir3",
        "initializers_as_inputs_ir8"],
    "existing float16 islands": [
        "an existing float16 island and its rounding",
        "existing float16 island, bfloat16 target", "bfloat16 islands"],
    "an excluded operator feeds an output": ["an excluded operator feeds an output"],
    "masks of -inf, -3.4e38, -1e9": [
        "a mask of -inf runs low", "a mask of -3.4e38 keeps its reader",
        "a mask of -1e9, behind Where and Expand", "a mask of -1e9 in bfloat16, which holds it",
        "Attention whose mask hides a whole row"],
    "epsilons of 1e-12": ["an epsilon of 1e-12 keeps its reader"],
    "a variance that float16 can't hold": [
        "a BatchNormalization variance beyond float16",
        "a BatchNormalization variance beyond float16, one type for all", "rapidocr_variance"],
    "doubles": [
        "doubles stay double", "doubles in the middle",
        "CastLike of constants, of counts and of doubles"],
    "name collisions": [
        "names that casts would take are taken", "names_of_casts_in_sibling_branches"],
    "opset < 6": [
        "opset 5: Cast names its type, Add has axes", "opset 1 with consumed_inputs and a Cast"],
    "operators with function bodies": [
        "operators defined by a body", "operators defined by a body, bfloat16",
        "RMSNormalization's X and scale have one type",
        "LinearAttention's state follows where none is given",
        "FlexAttention, whose subgraphs have a type of their own"],
    "external data in and out, > 2 GB": [
        "external_in_and_out", "external_in_place", "external_excluded", "external_beyond_4_gb"],
    "shared constants that feed Resize and others": ["one constant feeds Resize and others"],
    "stale value_info, type mismatches": [
        "stale value_info", "value_info of values elsewhere", "stale_value_info",
        "wrong_value_info", "function_value_info"],
    "rank-0 and empty tensors": ["rank-0 and empty tensors"],
    "direct input -> output": [
        "input is output", "input is output, both low", "nothing_but_weights"],
    "the same tensor twice into a node": ["the same tensor twice into a node"],
    "a parameter that is a graph output": [
        "a parameter is an output", "a parameter is an output, both low"],
    "training info": ["training graphs keep their masters", "training_info"],
    "outputs silently float16": ["outputs keep float although what makes them is low"],
    "no import of the default domain": [
        "a model that imports no default domain",
        "FlexAttention in a model without the default domain", "imports_twice"],
    "windows, TfIdfVectorizer, BitCast": [
        "windows and MelWeightMatrix", "TfIdfVectorizer and ai.onnx.ml",
        "BitCast sees the bits of a float"],
    "dtype attributes that are never rewritten": [
        "compute precisions are never rewritten", "DequantizeLinear with an output_dtype"],
    "metadata, doc strings and unknown fields": [
        "metadata, doc strings and unknown fields", "metadata_everywhere", "unordered_fields"],
    "own shapes": ["own shapes stay", "more_precise_shapes", "output_without_shape"],
    "device configurations": [
        "device configurations name what a node reads", "a sharded weight is stored low",
        "sharded"],
    "types that nothing computes with": ["types that nothing computes with", "unused_parts"],
}

# Sources that ONNX refuses, and those that its inference does not understand: of these, a rewritten
# form of the result must be valid.
INVALID = {"wrong_value_info", "output_without_shape"}
NOT_UNDERSTOOD = {"sparse_initializers", "sparse_initializer",
                  "opset_5_Cast_names_its_type_Add_has_axes"}


def golden_cases() -> dict[str, str]:
    """Title -> model text."""
    cases = {}
    for part in re.split(r"^=== ", GOLDEN.read_text(), flags=re.M)[1:]:
        title, _, rest = part.partition("\n")
        cases[title] = rest.partition("\n")[2].partition("\n---")[0]
    return cases


def header_lines() -> list[str]:
    """The checklist as peers.txt's own comment has it."""
    lines, titles = [], set(golden_cases())
    for name, cases in CLASSES.items():
        lines.append(f"#   {name}")
        lines += [f"#     - {c}" for c in cases if c in titles]
        lines += ["#     - tools/suites/peer_cases_test.py"] * any(c not in titles for c in cases)
    return lines


def checklist(titles: set[str]) -> list[str]:
    """Where classes and cases do not match."""
    listed = {name for names in CLASSES.values() for name in names}
    have = titles | set(peer_models.BUILDERS) | set(EXTERNAL)
    comment = [line for line in GOLDEN.read_text().splitlines() if line.startswith("#   ")]
    stale = "\n".join(["peers.txt's checklist should be", *header_lines()])
    return ([stale] * (comment != header_lines()) +
            [f"class '{c}' has no case" for c, names in CLASSES.items() if not names] +
            [f"no case '{name}'" for name in sorted(listed - have)] +
            [f"case '{name}' is of no class" for name in sorted(have - listed)])


def folder_name(title: str) -> str:
    return re.sub(r"\W+", "_", title)


def sharding_problems(model: onnx.ModelProto) -> list[str]:
    """A sharding specification names an input or output of its node."""
    return [f"node {n.name or n.op_type}: shards '{spec.tensor_name}', which it does not have"
            for n in walk.model_nodes(model) for d in n.device_configurations
            for spec in d.sharding_spec if spec.tensor_name not in [*n.input, *n.output]]


def name_problems(model: onnx.ModelProto, source: onnx.ModelProto) -> list[str]:
    """Node names that the source has not, or not as often: those must be unique."""
    before = collections.Counter(n.name for n in walk.model_nodes(source))
    after = collections.Counter(n.name for n in walk.model_nodes(model))
    return [f"{number} nodes are called '{name}'" for name, number in after.items()
            if number > 1 and number > before[name]]


def value_info_problems(model: onnx.ModelProto) -> list[str]:
    """Function value_info against the casts around: ONNX's inference does not look there."""
    found = []
    for function in model.functions:
        types: dict[str, int] = {}
        for node in function.node:
            kinds = {types[i] for i in node.input if i in types}
            if node.op_type == "Cast":
                kinds = {node.attribute[0].i}
            if len(kinds) == 1 and node.op_type in ("Cast", "MatMul", "Mul", "Relu", "Exp"):
                types[node.output[0]] = kinds.pop()
        said = {v.name: v.type.tensor_type.elem_type for v in function.value_info}
        found += [f"function {function.name}: value_info of '{name}' has type {kind}, "
                  f"it is {types[name]}" for name, kind in said.items()
                  if types.get(name, kind) != kind]
    return found


def master_problems(model: onnx.ModelProto, source: onnx.ModelProto) -> list[str]:
    """What a training step updates keeps its type; so do the training graphs."""
    keys = {b.key for t in source.training_info for b in t.update_binding}
    types = {t.name: t.data_type for t in source.graph.initializer}
    found = [f"'{t.name}' is updated by training and changed type" for t in model.graph.initializer
             if t.name in keys and t.data_type != types[t.name]]
    for a, b in zip(source.training_info, model.training_info):
        if list(a.update_binding) != list(b.update_binding):
            found.append("another update_binding")
        made = {i.name for i in model.graph.initializer}
        made |= {i.name for i in model.graph.input}
        made |= {o for n in model.graph.node for o in n.output}
        made |= {o for n in b.algorithm.node for o in n.output}
        found += [f"training reads '{i}', which is gone" for n in b.algorithm.node for i in n.input
                  if i not in made]
    return found


# ---- a last engine


def dense_of(sparse: onnx.SparseTensorProto, name: str) -> TensorProto:
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    array = np.zeros(list(sparse.dims), values.dtype)
    array.ravel()[indices] = values
    return numpy_helper.from_array(array, name)


def plain_node(node: onnx.NodeProto) -> None:
    """Old spellings of Cast and of broadcasting over the last axes, and sparse constants."""
    for attribute in list(node.attribute):
        if node.op_type == "Cast" and attribute.type == onnx.AttributeProto.STRING:
            number = TensorProto.DataType.Value(attribute.s.decode())
            attribute.CopyFrom(helper.make_attribute("to", number))
        elif attribute.name in ("broadcast", "axis") and node.op_type == "Add":
            node.attribute.remove(attribute)
        elif attribute.name == "sparse_value":
            tensor = dense_of(attribute.sparse_tensor, "")
            attribute.CopyFrom(helper.make_attribute("value", tensor))


def give_defaults(model: onnx.ModelProto) -> None:
    """Calls say the attributes that their function has a default for: inlining asks for them."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    for node in walk.model_nodes(model):
        function = functions.get((node.domain, node.op_type, node.overload))
        for default in function.attribute_proto if function else []:
            if default.name not in [a.name for a in node.attribute]:
                node.attribute.append(default)


def plain_model(source: onnx.ModelProto) -> onnx.ModelProto:
    """The same computation without functions, sparse constants and old operators' spellings."""
    plain = onnx.ModelProto()
    plain.CopyFrom(source)
    if plain.functions:
        give_defaults(plain)
        plain = onnx.inliner.inline_local_functions(plain)
    for sparse in plain.graph.sparse_initializer:
        plain.graph.initializer.append(dense_of(sparse, sparse.values.name))
    plain.graph.ClearField("sparse_initializer")
    for node in walk.model_nodes(plain):
        plain_node(node)
    quantized = any(n.op_type == "DequantizeLinear" for n in walk.model_nodes(plain))
    for opset in plain.opset_import:
        if opset.domain == "" and (opset.version < 7 or (quantized and opset.version < 21)):
            opset.version = 21  # what these cases use means the same there
    return plain


class PlainReference(engines.ReferenceEngine):
    """ONNX's evaluator, on a model that is rewritten for it. Pairs are rewritten alike."""

    name = "plain reference"

    def __init__(self, data: bytes, model: onnx.ModelProto) -> None:
        try:
            plain = plain_model(model)
        except Exception as error:
            raise engines.CannotRun(f"rewriting: {engines.first_line(error)}") from error
        super().__init__(data, plain)


def source_problem(subject: Subject) -> str:
    """ONNX's word against a source would excuse the result: a source must be valid, too."""
    text = subject.source.fault
    return f"the source: {text or 'is valid'}" if bool(text) != (
        subject.name in INVALID | NOT_UNDERSTOOD) else ""


def more_problems(subject: Subject, made: Made) -> list[str]:
    """What neither ONNX nor numbers show."""
    source, model, text = subject.proto, made.model.proto, ""
    if subject.name in NOT_UNDERSTOOD:
        text, _ = validity.strict_inference(plain_model(model))
    return [*([text] if text else []), *sharding_problems(model), *name_problems(model, source),
            *value_info_problems(model), *master_problems(model, source)]


def judge(subject: Subject) -> Iterator[Finding]:
    yield Finding("source", source_problem(subject))
    yield from round_trip.judge(subject)
    for variant in VARIANTS:
        made = subject.convert(variant)
        found = conversion.problems(subject, made, variant) + more_problems(subject, made)
        yield Finding(str(variant), first(found))
        comparison = numbers.Comparison(subject, made.model, variant, "peers")
        plain = comparison.judge()
        yield plain
        if plain.engine != "identical" and not plain.problem:
            yield comparison.optimized(plain)


# ---- external data

COUNT = 64  # columns of the external weights


def put_external(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def external_model() -> tuple[onnx.ModelProto, dict[str, bytes]]:
    """Weights in two files, at odd places, one in a subfolder, one in a Constant node."""
    first, second, third = (peer_models.values(4, COUNT), peer_models.values(COUNT, 4),
                            peer_models.values(4))
    files = {"a.bin": b"\xff" * 24 + first.tobytes() + b"\xff" * 8 + third.tobytes(),
             "sub/b.bin": second.tobytes()}
    made = peer_models.model(
        [peer_models.node("MatMul", "x w", "h"), peer_models.node("MatMul", "h v", "m"),
         peer_models.node("Constant", "", "k", value=numpy_helper.from_array(third, "k")),
         peer_models.node("Add", "m k", "y")],
        [peer_models.info("x", "N", 4)], [peer_models.info("y", "N", 4)],
        [numpy_helper.from_array(first, "w"), numpy_helper.from_array(second, "v")])
    put_external(made.graph.initializer[0], "a.bin", 24, first.nbytes)
    put_external(made.graph.initializer[1], "sub/b.bin", 0, second.nbytes)
    put_external(made.graph.node[2].attribute[0].t, "a.bin", 32 + first.nbytes, third.nbytes)
    return made, files


def write_external(folder: pathlib.Path) -> pathlib.Path:
    made, files = external_model()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    path = folder / "in.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def data_files(folder: pathlib.Path, name: str) -> list[pathlib.Path]:
    return sorted(folder.glob(f"{name}.*.data"))


def result_problems(path: pathlib.Path, source: pathlib.Path, variant: Variant) -> list[str]:
    """A result with external data against its source: validity, contract, numbers."""
    found = []
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        found.append(f"full check: {validity.one_line(error)}")
    want, got = onnx.load(source), onnx.load(path)  # with their data
    found += validity.contract(got, want, variant)
    before, after = want.SerializeToString(), got.SerializeToString()
    feeds = {"x": np.random.default_rng(5).standard_normal((2, 4)).astype(np.float32)}
    fed = feeds
    if variant.io == "low":
        fed = {k: metric.to_low(v, variant.to) for k, v in feeds.items()}
    for engine in engines.ENGINES:
        try:
            expected, actual = engine(before, want).run(feeds), engine(after, got).run(fed)
        except engines.CannotRun:
            continue
        text = metric.compare(actual[0], expected[0], metric.TOLERANCE[variant.to], "y")[1]
        return found + ([text] if text else [])
    return [*found, "no engine runs it"]


def external_in_and_out(demi: Demi, folder: pathlib.Path) -> list[str]:
    """In: three tensors in two files. Out: one file, named by its content, half as large."""
    path, out, found = write_external(folder), folder / "out.onnx", []
    for variant in VARIANTS:
        run = demi.run("convert", str(path), "-o", str(out), "--to", variant.to, "--io", variant.io,
                       "--quiet")
        if run.code:
            found.append(f"{variant}: {run.problem()}")
            continue
        files = data_files(folder, "out.onnx")
        if len(files) != 1:
            found.append(f"{variant}: data files {[f.name for f in files]}")
        elif files[0].stat().st_size > 0.55 * sum(len(d) for d in external_model()[1].values()):
            found.append(f"{variant}: data of {files[0].stat().st_size} bytes")
        kept = sum(t.data_location == TensorProto.EXTERNAL for t in walk.messages(
            onnx.load(out, load_external_data=False)) if isinstance(t, TensorProto))
        if kept != 3:
            found.append(f"{variant}: {kept} of 3 tensors are external")
        found += [f"{variant}: {p}" for p in result_problems(out, path, variant)]
    return found


def external_in_place(demi: Demi, folder: pathlib.Path) -> list[str]:
    """IN = OUT: the model is replaced, its old data files, which it does not own, stay."""
    path = write_external(folder)
    before = shutil.copytree(folder, folder / "copy") / "in.onnx"
    run = demi.run("convert", str(path), "-o", str(path), "--quiet")
    if run.code:
        return [run.problem()]
    found = result_problems(path, before, Variant("float16", "keep"))
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()
             if "copy" not in p.parts}
    names -= {f.name for f in data_files(folder, "in.onnx")}
    return found + ([f"the folder holds {sorted(names)}"]
                    if names != {"in.onnx", "a.bin", "sub/b.bin"} else [])


def external_excluded(demi: Demi, folder: pathlib.Path) -> list[str]:
    """Nothing is converted: every tensor has its own bytes, and only locations may differ."""
    path, out = write_external(folder), folder / "out.onnx"
    run = demi.run("convert", str(path), "-o", str(out), "--keep", "*", "--quiet")
    if run.code:
        return [run.problem()]
    want, got = onnx.load(path), onnx.load(out)
    return [] if want.SerializeToString() == got.SerializeToString() else ["another model"]


def external_beyond_4_gb(demi: Demi, folder: pathlib.Path) -> list[str]:
    """2.2 GB of weights in a sparse file of 4.8 GB: sizes beyond 2^31, offsets beyond 2^32, and no
    copy of the weights in memory. On disk, since work_folder() and TMPDIR may be in memory."""
    del folder
    where = ROOT / "build"
    if shutil.disk_usage(where).free < 8 << 30:
        return [f"less than 8 GB free in {where}"]
    home = pathlib.Path(tempfile.mkdtemp(prefix="demi-peers-", dir=where))
    try:
        return big_problems(demi, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


BIG_ROWS, BIG_COLUMNS = 4, 137_500_000
BIG_BEGIN, SMALL_BEGIN = 5 << 29, 9 << 29  # in the file: 2.7 GB, 4.8 GB
MOST_MEMORY_KB = 400 << 10


def big_model(last: np.ndarray, tail: np.ndarray, folder: pathlib.Path) -> None:
    """`last` is what the big tensor ends with; the rest of it is a hole."""
    length = BIG_ROWS * BIG_COLUMNS * 4
    with (folder / "w.bin").open("wb") as file:
        file.seek(BIG_BEGIN + length - last.nbytes)
        file.write(last.tobytes())
        file.seek(SMALL_BEGIN)
        file.write(tail.tobytes())
    big = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[BIG_ROWS, BIG_COLUMNS])
    small = TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[BIG_ROWS])
    put_external(big, "w.bin", BIG_BEGIN, length)
    put_external(small, "w.bin", SMALL_BEGIN, tail.nbytes)
    made = peer_models.model(
        [peer_models.node("Add", "x b", "a"), peer_models.node("MatMul", "a w", "y")],
        [peer_models.info("x", "N", BIG_ROWS)], [peer_models.info("y", "N", BIG_COLUMNS)],
        [big, small])
    (folder / "in.onnx").write_bytes(made.SerializeToString())


def big_problems(demi: Demi, folder: pathlib.Path) -> list[str]:
    last, tail = peer_models.values(1001), peer_models.values(BIG_ROWS)
    big_model(last, tail, folder)
    out = folder / "out.onnx"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    run = demi.run("convert", str(folder / "in.onnx"), "-o", str(out), "--quiet")
    if run.code:
        return [run.problem()]
    found = []
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if peak > before and peak > MOST_MEMORY_KB:
        found.append(f"{peak >> 10} MB of memory")
    got = onnx.load(out, load_external_data=False)
    for tensor, numbers in ((got.graph.initializer[0], last), (got.graph.initializer[1], tail)):
        entry = {e.key: e.value for e in tensor.external_data}
        kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        size = int(np.prod(tensor.dims)) * kind.itemsize
        if int(entry.get("length", -1)) != size:
            found.append(f"'{tensor.name}' has {entry.get('length')} bytes, expected {size}")
            continue
        with (folder / entry["location"]).open("rb") as file:
            file.seek(int(entry["offset"]) + size - numbers.size * kind.itemsize)
            data = np.frombuffer(file.read(numbers.size * kind.itemsize), kind)
        if not np.array_equal(data, numbers.astype(kind)):
            found.append(f"'{tensor.name}' ends with other numbers")
    if got.graph.initializer[0].data_type != TensorProto.FLOAT16:
        found.append("the weights are not float16")
    return found


EXTERNAL = {f.__name__: f for f in (external_in_and_out, external_in_place, external_excluded,
                                    external_beyond_4_gb)}


# ---- the test


class Test:
    def __init__(self, demi: Demi, folder: pathlib.Path, verbose: bool) -> None:
        self.demi, self.folder, self.verbose = demi, folder, verbose
        self.used: set[str] = set()
        self.cases = self.failures = 0
        self.engines: collections.Counter = collections.Counter()

    def failed(self, what: str, problem: str) -> None:
        self.failures += 1
        print(f"FAIL {what}: {problem}")

    def judged(self, title: str, home: pathlib.Path, data: bytes) -> None:
        self.cases += 1
        subject = Subject("backend", home.name, frozen(data), folder=home)
        for found in judge(subject):
            self.used.add(found.used)
            self.engines[found.engine] += found.engine != "-"
            if found.problem:
                self.failed(f"{title} {found.what}", found.problem[:500])
            elif self.verbose:
                print(f"{found.status()} {title} {found.what} {found.engine} {found.error:.2g} {found.skip}")

    def golden(self, title: str, text: str) -> None:
        try:
            self.judged(title, self.folder / "golden" / folder_name(title),
                        demi.run_passes(text.encode(), "")[0])
        except demi.DemiError as error:
            self.failed(title, str(error))

    def built(self, name: str) -> None:
        self.judged(name, self.folder / name, peer_models.build(name))

    def external(self, name: str) -> None:
        self.cases += 1
        home = self.folder / name
        home.mkdir()
        for problem in EXTERNAL[name](self.demi, home):
            self.failed(name, problem)


def main() -> None:
    parser = argparse.ArgumentParser(description="Judges demi on models that break converters.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--only", default="", help="judge only cases whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="print what passes, too")
    args = parser.parse_args()
    folder, titles = work_folder(), golden_cases()
    engines.ENGINES.append(PlainReference)
    test = Test(Demi(args.demi, folder), folder, args.verbose)
    for problem in checklist(set(titles)):
        test.failed("checklist", problem)
    try:
        for title, text in titles.items():
            if args.only in title:
                test.golden(title, text)
        for name in peer_models.BUILDERS:
            if args.only in name:
                test.built(name)
        for name in EXTERNAL:
            if args.only in name:
                test.external(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not args.only:
        for text in exceptions.stale(test.used, {"peers"}):
            test.failed("exceptions", text)
    print(f"peer_cases: {len(CLASSES)} classes, {test.cases} cases, {test.failures} failures "
          f"({dict(test.engines)})")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
