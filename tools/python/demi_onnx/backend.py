# SPDX-License-Identifier: Apache-2.0
"""demi as a backend for ONNX (onnx.backend.base), so that ONNX's own tests can run on it. Requires onnx.

    import onnx.backend.test, demi_onnx.backend
    tests = onnx.backend.test.BackendTest(demi_onnx.backend, __name__)
"""

from __future__ import annotations

from typing import Any, Sequence

import onnx
from onnx.backend.base import Backend, BackendRep

from ._arguments import checked, refuse
from ._errors import UsageError
from ._session import Session


class DemiBackendRep(BackendRep):  # type: ignore[misc, unused-ignore]
    """A prepared model."""

    @checked
    def __init__(self, model: onnx.ModelProto, **how: Any) -> None:
        self._all = [value.name for value in model.graph.input]
        constants = {value.name for value in model.graph.initializer}
        self._names = [name for name in self._all if name not in constants]
        self._session = Session(model, **how)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Returns the outputs for inputs in the order of the model, with or without those that have default
        values. The last ones may be omitted."""
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        names = self._names if len(inputs) <= len(self._names) else self._all
        if len(inputs) > len(names):
            raise UsageError(f"{len(inputs)} inputs for a model that has {len(names)}")
        return tuple(self._session.run(None, dict(zip(names, inputs))))


class DemiBackend(Backend):  # type: ignore[misc, unused-ignore]
    """Runs models with `Session`."""

    @classmethod
    @checked
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    @checked
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **how: Any) -> DemiBackendRep:
        if not cls.supports_device(device):
            raise refuse("device", "CPU", device)
        return DemiBackendRep(model, **how)

    @classmethod
    @checked
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU",
                  **how: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **how).run(inputs)

    @classmethod
    @checked
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[tuple[Any, Sequence[int]]] | None = None,
                 **how: Any) -> tuple[Any, ...]:
        """Runs one node. `outputs_info` declares the outputs, with a (numpy type, shape) per output. Without it,
        they have the type of the first input."""
        import numpy as np
        from onnx import helper
        given_inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        number = helper.np_dtype_to_tensor_dtype
        try:
            arrays = [np.asarray(value) for value in given_inputs]
            given = [helper.make_tensor_value_info(name, number(array.dtype), array.shape)
                     for name, array in zip((name for name in node.input if name), arrays)]
        except (TypeError, ValueError, KeyError) as error:
            raise refuse("inputs", "arrays of types that ONNX has", inputs) from error
        try:
            made = [helper.make_tensor_value_info(
                name, number(np.dtype(outputs_info[i][0]) if outputs_info else arrays[0].dtype),
                list(outputs_info[i][1]) if outputs_info else None)
                for i, name in enumerate(node.output) if name]
        except (TypeError, ValueError, KeyError, IndexError):
            raise refuse("outputs_info" if outputs_info else "inputs",
                         "a type that ONNX has, and a shape, for each output", outputs_info or inputs) from None
        model = helper.make_model(helper.make_graph([node], "node", given, made))
        return cls.run_model(model, arrays, device, **how)


is_compatible = DemiBackend.is_compatible
prepare = DemiBackend.prepare
run_model = DemiBackend.run_model
run_node = DemiBackend.run_node
supports_device = DemiBackend.supports_device
