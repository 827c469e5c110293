# SPDX-License-Identifier: Apache-2.0
"""Random calls of Attention and RotaryEmbedding, for suite/cuda_cases.py."""

import numpy as np

from .cuda_case import FLOATS, Case


def _laid(case: Case, shape: list[int], dtype: type, flat: bool) -> str:
    """(batch, heads, rows, size) as an input: so, or flat as (batch, rows, heads * size)."""
    batch, heads, rows, size = shape
    return case.operand(case.values([batch, rows, heads * size] if flat else shape, dtype))


def _mask(case: Case, whole: list[int], dtype: type) -> str:
    """Broadcast from the right, perhaps with fewer keys; of a row that sees nothing, too."""
    keys = max(whole[3] - int(case.pick((0, 0, 0, 1))), 1)
    shape = [int(case.pick((1, whole[0]))), int(case.pick((1, whole[1]))), whole[2], keys]
    shape = shape[int(case.rng.integers(3)):]
    if case.chance(2):
        return case.operand(case.rng.random(shape) < 0.7)
    mask = case.values(shape, dtype)
    return case.operand(np.where(case.rng.random(shape) < 0.2, -np.inf, mask).astype(dtype))


def heads(case: Case) -> None:
    """Attention with what of caches, masks, padding, windows and caps there may be, and what it shows of
    its scores."""
    dtype, flat = case.pick(FLOATS), case.chance(2)
    size = int(case.pick((8, 16, 24, 32, 33, 64, 96, 128, 12, 20, 36, 100)))
    value = size if case.chance(2) else int(case.pick((8, 32, 40, 64, 12, 20, 33)))
    batch, kv, group = int(case.pick((1, 2))), int(case.pick((1, 2))), int(case.pick((1, 1, 2, 3)))
    rows, new = int(case.pick((1, 1, 2, 8, 33, 70))), int(case.pick((1, 2, 7, 64, 65, 100)))
    past = int(case.pick((0, 3, 64))) if case.chance(3) else None
    total, shown = new + (past or 0), case.chance(3)
    attributes: dict[str, object] = {"is_causal": int(case.chance(2)), "qk_matmul_output_mode": int(case.rng.integers(4))}
    if flat:
        attributes |= {"q_num_heads": kv * group, "kv_num_heads": kv}
    if case.chance(4):
        attributes["softcap"] = 2.0
    if case.chance(4):
        attributes["scale"] = 0.2
    case.opset = 24
    if case.chance(4):  # 25 has windows
        case.opset = 25
        attributes |= {"left_window_size": int(case.pick((-1, 0, 3, 70))), "right_window_size": int(case.pick((-1, 0, 2)))}
    names = [_laid(case, [batch, kv * group, rows, size], dtype, flat), _laid(case, [batch, kv, new, size], dtype, flat),
             _laid(case, [batch, kv, new, value], dtype, flat)]
    names.append(_mask(case, [batch, kv * group, rows, total], dtype) if case.chance(2) else "")
    if past is not None:
        names += [case.operand(case.values([batch, kv, past, n], dtype)) for n in (size, value)]
    elif case.chance(3):
        lengths = case.operand(np.asarray(case.rng.integers(0, total + 1, [batch]), np.int64))
        case.kept.add(lengths)
        names += ["", "", lengths]
    case.loose, case.between = 64, 2
    caches = past is not None or case.chance(4)
    case.node("Attention", *names, outputs=4, wanted=[True, caches, caches, shown], **attributes)


def turned_heads(case: Case) -> None:
    """RotaryEmbedding of ONNX, and that of com.microsoft: positions, pairs side by side or apart, a part
    of a head; positions are indices, some of them beyond."""
    dtype, flat, own = case.pick(FLOATS), case.chance(2), case.chance(2)
    batch, count, rows = int(case.pick((1, 2))), int(case.pick((1, 2, 3))), case.size(33)
    size = 2 * int(case.pick((1, 4, 5, 16, 33)))
    turned = size if case.chance(2) else 2 * int(case.rng.integers(1, size // 2 + 1))
    x = _laid(case, [batch, count, rows, size], dtype, flat)
    attributes: dict[str, object] = {"interleaved": int(case.rng.integers(2))}
    if flat or case.chance(3):
        attributes["num_heads"] = count
    if turned != size:
        attributes["rotary_embedding_dim"] = turned
    placed, places = own or case.chance(2), rows + int(case.rng.integers(9))
    caches = [case.operand(case.values([places, turned // 2] if placed else [batch, rows, turned // 2], dtype))
              for _ in range(2)]
    positions: list[str] = []
    if placed:
        first = own and case.chance(2)
        at = case.rng.integers(0, places - rows + 1 if first else places, [1] if first else [batch, rows])
        positions = [case.operand(at)]
        case.kept.add(positions[0])
    case.loose = 4
    if own:
        case.node("RotaryEmbedding", x, *positions, *caches, domain="com.microsoft", **attributes)
    else:
        case.node("RotaryEmbedding", x, *caches, *positions, **attributes)
