# SPDX-License-Identifier: Apache-2.0
"""What PyTorch takes for models on an NVIDIA GPU: float16, channels-last, three ways: eager, a CUDA
graph of that, and torch.compile; beside `demi bench --device cuda`.

    python3 tools/bench/bench_torch_gpu.py --models resnet50,mobilenetv2,bert,gpt2 --batches 1,32 --json out.json

Models have the architectures of tools/suites/suite/made_models.py, with random weights; times are
medians of whole runs, inputs and outputs on the device, with a wait after each.
"""

import argparse
import json
import statistics
import sys
import time

import torch

WARMUP, RUNS = 10, 50
PAST = 255  # tokens that gpt2 has seen


def image_model(name: str):
    import torchvision
    model = getattr(torchvision.models, {"mobilenetv2": "mobilenet_v2"}.get(name, name))(weights=None)
    return model.eval().cuda()


def bert_model():
    import transformers
    config = transformers.BertConfig()
    return transformers.BertModel(config).eval().cuda()


def text_model():
    import transformers
    config = transformers.GPT2Config()
    return transformers.GPT2LMHeadModel(config).eval().cuda()


def after(model, past: int):
    """One token behind `past`, by a cache that is made anew for each call."""
    import transformers
    config, dtype = model.config, next(model.parameters()).dtype
    shape = (1, config.n_head, past, config.n_embd // config.n_head)
    kept = [[torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2)] for _ in range(config.n_layer)]
    ids = torch.randint(0, 30000, (1, 1), device="cuda")

    def call(m):
        cache = transformers.DynamicCache()
        for i, (keys, values) in enumerate(kept):
            cache.update(keys, values, i)
        return m(input_ids=ids, past_key_values=cache, use_cache=True)
    return call


def inputs_of(name: str, batch: int, dtype: torch.dtype) -> dict:
    if name == "bert":
        ids = torch.randint(0, 30000, (batch, 128), device="cuda")
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids),
                "token_type_ids": torch.zeros_like(ids)}
    x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=dtype)
    return {"x": x.to(memory_format=torch.channels_last)}


def median_ms(call) -> float:
    for _ in range(WARMUP):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def graph_of(call):
    """A CUDA graph of one call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def given_to(name: str, model, batch: int, dtype: torch.dtype):
    """A call of a model with random inputs."""
    if name == "gpt2":
        return after(model, PAST)
    inputs = inputs_of(name, batch, dtype)
    return (lambda m: m(**inputs)) if name == "bert" else (lambda m: m(inputs["x"]))


def compiled_of(given, model):
    """A call of the compiled model, which has run and recorded its CUDA graphs."""
    torch._dynamo.reset()  # else a second batch is compiled for batches of any size, which is slower
    fast = torch.compile(model, mode="reduce-overhead", dynamic=False)
    for _ in range(3):
        given(fast)
    torch.cuda.synchronize()
    return lambda: given(fast)


def ways(given, model, asked: list) -> dict:
    found = {}
    if "eager" in asked:
        found["eager"] = median_ms(lambda: given(model))
    if "graph" in asked:
        found["graph"] = median_ms(graph_of(lambda: given(model)))
    if "compiled" in asked:
        found["compiled"] = median_ms(compiled_of(given, model))
    return found


def ready(name: str, dtype: torch.dtype):
    if name in ("bert", "gpt2"):
        return (bert_model() if name == "bert" else text_model()).to(dtype)
    return image_model(name).to(dtype).to(memory_format=torch.channels_last)


def serve() -> None:
    """Answers lines {"model", "batch", "ways"} with times, so that others can measure between them. The way
    "ready" compiles; the times of "kept" are of what was compiled last."""
    print(json.dumps({"torch": torch.__version__}), flush=True)
    models: dict = {}
    kept = None
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["model"]
        try:
            with torch.inference_mode():
                if name not in models:
                    models[name] = ready(name, torch.float16)
                model = models[name]
                if asked["ways"] == ["kept"]:
                    answer = {"compiled": median_ms(kept)}
                else:
                    given = given_to(name, model, asked["batch"], torch.float16)
                    if "ready" in asked["ways"]:
                        kept = compiled_of(given, model)
                    answer = ways(given, model, asked["ways"])
        except Exception as error:  # noqa: BLE001: a model's package may be missing, or memory
            answer = {"error": str(error).splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default="resnet50,mobilenetv2,bert")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16", "float32"])
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--serve", action="store_true", help="answer questions on standard input")
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    dtype = getattr(torch, args.dtype)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows, asked = [], ["eager", "graph"] + ["compiled"] * (not args.no_compile)
    with torch.inference_mode():
        for name in args.models.split(","):
            model = ready(name, dtype)
            for batch in map(int, args.batches.split(",")):
                row = {"model": name, "batch": batch, "dtype": args.dtype,
                       **ways(given_to(name, model, batch, dtype), model, asked)}
                rows.append(row)
                print(json.dumps(row), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                       "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
