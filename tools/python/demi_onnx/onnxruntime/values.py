# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's values and bindings: tensors in memory of the processor's, or of a CUDA device that the caller
has them on."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from .._device import DeviceArray, device_array
from .._session import IoBinding
from .._values import NAMES, dtype_of, number_of
from .errors import InvalidArgument, NotImplemented

if TYPE_CHECKING:
    from .session import InferenceSession


class OrtDevice:
    """Where a value lies."""

    def __init__(self, name: str, number: int = 0) -> None:
        if name not in ("cpu", "cuda"):
            raise NotImplemented(f"there are no values on {name!r}")
        self._name, self._number = name, int(number)

    @staticmethod
    def make(name: str, number: int = 0) -> "OrtDevice":
        return OrtDevice(name, number)

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def cuda() -> int:
        return 1

    def device_type(self) -> str:
        return self._name

    def device_id(self) -> int:
        return self._number


def _type_of(element: Any) -> np.dtype[Any]:
    """Of numpy's types, or a number of onnx.TensorProto's."""
    if isinstance(element, (int, np.integer)) and not isinstance(element, bool):
        return dtype_of(int(element))
    made: np.dtype[Any] = np.dtype(element)
    return made


class OrtValue:
    """A tensor, or what else a run gives."""

    def __init__(self, value: Any, device: str = "cpu", number: int = 0) -> None:
        self._value, self._device = value, OrtDevice(device, number)

    @staticmethod
    def ortvalue_from_numpy(array: Any, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        if device_type != "cpu":
            raise NotImplemented(f"a copy to {device_type!r}: give a tensor that lies there (DLPack)")
        return OrtValue(np.ascontiguousarray(array).reshape(np.shape(array)))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any = np.float32,
                                     device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        if device_type != "cpu":
            raise NotImplemented(f"memory on {device_type!r}: give a tensor that lies there (DLPack)")
        return OrtValue(np.zeros(tuple(shape), _type_of(element_type)))

    @staticmethod
    def from_dlpack(value: Any, is_bool_tensor: bool = False) -> "OrtValue":
        there = device_array(value, None)
        if there is not None:
            return OrtValue(there, "cuda")
        array = np.from_dlpack(value)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    def _array(self) -> Any:
        if not self.is_tensor():
            raise InvalidArgument("the value is not a tensor")
        return self._value

    def numpy(self) -> Any:
        if isinstance(self._value, DeviceArray):
            raise NotImplemented("a copy from a device: take the tensor by __cuda_array_interface__")
        return self._array()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = np.asarray(self.numpy(), dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **how: Any) -> Any:
        return self.numpy().__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.numpy().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        return self._value.__cuda_array_interface__

    def shape(self) -> list[int]:
        return list(self._array().shape)

    def element_type(self) -> int:
        return number_of(self._array().dtype, 1)

    def data_type(self) -> str:
        if not self.is_tensor():
            return "seq" if isinstance(self._value, list) else "optional"
        return f"tensor({NAMES[self.element_type()]})"

    def data_ptr(self) -> int:
        array = self._array()
        return int(array.pointer if isinstance(array, DeviceArray) else array.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self._array().nbytes)

    def device_name(self) -> str:
        return self._device.device_type()

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, (np.ndarray, np.generic, DeviceArray))

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        return False

    def update_inplace(self, array: Any) -> None:
        mine = self.numpy()
        if mine.shape != np.shape(array):
            raise InvalidArgument(f"the value has shape {mine.shape}, the array {np.shape(array)}")
        mine[...] = array


def of_value(value: Any) -> Any:
    """What a run takes in place of an OrtValue."""
    return value._value if isinstance(value, OrtValue) else value


def memory_at(pointer: int, shape: Sequence[int], element_type: Any, device: str) -> Any:
    """The caller's memory as a tensor; who gives an address keeps what is there."""
    dtype, shape = _type_of(element_type), tuple(int(size) for size in shape)
    if device != "cpu":
        return DeviceArray(pointer, shape, dtype)
    room = (ctypes.c_char * max(1, math.prod(shape) * dtype.itemsize)).from_address(pointer)
    array: np.ndarray[Any, Any] = np.frombuffer(memoryview(room), dtype, math.prod(shape))
    return array.reshape(shape)


class IOBinding:
    """Inputs and outputs of runs in memory that is given once."""

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._binding = IoBinding(session)

    def bind_cpu_input(self, name: str, array: Any) -> None:
        self._binding.bind_input(name, np.asarray(array))

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._binding.bind_input(name, of_value(value))

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        self._binding.bind_input(name, memory_at(buffer_ptr, shape, element_type, device_type))

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        if buffer_ptr is None or shape is None:
            if device_type != "cpu":
                raise NotImplemented("outputs in a device's memory that demi makes: give `buffer_ptr`")
            self._binding.bind_output(name)
        else:
            self._binding.bind_output(name, memory_at(buffer_ptr, shape, element_type, device_type))

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._binding.bind_output(name, of_value(value))

    def synchronize_inputs(self) -> None:
        """What is bound is read where it lies, in the session's stream."""

    def synchronize_outputs(self) -> None:
        self._binding.wait()

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(v, "cuda" if device_array(v, None) else "cpu") if not isinstance(v, (list, type(None)))
                else OrtValue(v) for v in self._binding.get_outputs()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """In memory of their own, whatever was bound."""
        return [value.numpy().copy() if value.is_tensor() else value._value for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        self._binding._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._binding._given.clear()
        self._binding._wanted.clear()
