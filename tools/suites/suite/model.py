# SPDX-License-Identifier: Apache-2.0
"""A model as bytes, and what other programs say of it and compute: each is asked once."""

import functools

import onnx

from suite import engines, validity


class Model:
    """The bytes of a model, and what other programs say of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._runners: dict[type, object] = {}

    @functools.cached_property
    def proto(self) -> onnx.ModelProto:
        """Not to be changed."""
        return onnx.load_from_string(self.data)

    @functools.cached_property
    def check(self) -> str:
        """What ONNX's full check says against it, or ""."""
        return validity.full_check(self.data)

    @functools.cached_property
    def _inference(self) -> tuple[str, onnx.ModelProto | None]:
        return validity.strict_inference(self.proto)

    @property
    def inference(self) -> str:
        """What strict inference says against it, or ""."""
        return self._inference[0]

    @property
    def inferred(self) -> onnx.ModelProto | None:
        """The model with inferred types; None where inference fails."""
        return self._inference[1]

    @property
    def fault(self) -> str:
        return self.check or self.inference

    def runner(self, engine: type) -> engines.OrtEngine:
        """The model loaded by an engine. CannotRun where it can't be."""
        if engine not in self._runners:
            try:
                self._runners[engine] = engine(self.data, self.proto)
            except engines.CannotRun as error:
                self._runners[engine] = error
        found = self._runners[engine]
        if isinstance(found, engines.CannotRun):
            raise found
        return found

    def run(self, engine: type, feeds: list[dict[str, object]]) -> list[list[object]]:
        """The outputs for each set of inputs."""
        return [self.runner(engine).run(each) for each in feeds]
