# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's values and bindings: tensors in host memory, or in the caller's memory on a CUDA device."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from .._arguments import refuse
from .._device import ANY_DEVICE, DeviceArray, device_array, sizes_of
from .._session import IoBinding
from .._values import NAMES, dtype_of, number_of
from .errors import InvalidArgument, NotImplemented, checked

if TYPE_CHECKING:
    from .session import InferenceSession


class OrtDevice:
    """The device of a value."""

    @checked
    def __init__(self, name: str, number: int = 0) -> None:
        if name not in ("cpu", "cuda"):
            raise NotImplemented(f"name: values on {name!r} are not supported")
        self._name, self._number = name, number

    @staticmethod
    @checked
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
    """Returns the type of a numpy type, or of a number of onnx.TensorProto."""
    try:
        if isinstance(element, (int, np.integer)) and not isinstance(element, bool):
            return dtype_of(int(element))
        made: np.dtype[Any] = np.dtype(element)
        number_of(made, 0)
        return made
    except Exception:
        raise refuse("element_type", "a numpy type, or a number of onnx.TensorProto", element,
                     kind=InvalidArgument) from None


def _array_of(name: str, array: Any) -> Any:
    try:
        return np.ascontiguousarray(array).reshape(np.shape(array))
    except Exception:
        raise refuse(name, "an array", array, kind=InvalidArgument) from None


class OrtValue:
    """A tensor, or another result of a run."""

    @checked
    def __init__(self, value: Any, device: str = "cpu", number: int = 0) -> None:
        self._value, self._device = value, OrtDevice(device, number)

    @staticmethod
    @checked
    def ortvalue_from_numpy(array: Any, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        if device_type != "cpu":
            raise NotImplemented(f"device_type: a copy to {device_type!r}: pass a tensor in its memory (DLPack)")
        return OrtValue(_array_of("array", array))

    @staticmethod
    @checked
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any = np.float32,
                                     device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        if device_type != "cpu":
            raise NotImplemented(f"device_type: memory on {device_type!r}: pass a tensor in its memory (DLPack)")
        return OrtValue(np.zeros(sizes_of(shape), _type_of(element_type)))

    @staticmethod
    @checked
    def from_dlpack(value: Any, is_bool_tensor: bool = False) -> "OrtValue":
        there = device_array(value, None, ANY_DEVICE)
        if there is not None:
            return OrtValue(there, "cuda", there.device or 0)
        try:
            array = np.from_dlpack(value)
        except Exception as error:
            raise refuse("value", "a tensor with __dlpack__", value, kind=InvalidArgument) from error
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    def _array(self) -> Any:
        if not self.is_tensor():
            raise InvalidArgument("the value is not a tensor")
        return self._value

    def numpy(self) -> Any:
        if isinstance(self._value, DeviceArray):
            raise NotImplemented("a copy from a device: use __cuda_array_interface__")
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
        mine, given = self.numpy(), _array_of("array", array)
        if mine.shape != given.shape or mine.dtype != given.dtype:
            raise refuse("array", f"an array of {mine.dtype} and shape {mine.shape}", given, kind=InvalidArgument)
        mine[...] = given


def of_value(value: Any) -> Any:
    """Returns what a run accepts in place of an OrtValue."""
    return value._value if isinstance(value, OrtValue) else value


_LEAST_ADDRESS = 4096  # the first page is nobody's


def memory_at(pointer: int, shape: Sequence[int], element_type: Any, device: str) -> Any:
    """Returns the caller's memory as a tensor. The caller must keep the memory."""
    dtype, shape = _type_of(element_type), sizes_of(shape)
    if device not in ("cpu", "cuda"):
        raise refuse("device_type", "cpu or cuda", device, kind=InvalidArgument)
    if device != "cpu":
        return DeviceArray(pointer, shape, dtype)
    if math.prod(shape) and not _LEAST_ADDRESS <= pointer < 1 << 63:
        raise refuse("buffer_ptr", "an address", pointer, kind=InvalidArgument)
    room = (ctypes.c_char * max(1, math.prod(shape) * dtype.itemsize)).from_address(pointer)
    array: np.ndarray[Any, Any] = np.frombuffer(memoryview(room), dtype, math.prod(shape))
    return array.reshape(shape)


class IOBinding:
    """Inputs and outputs of runs in memory that is bound once."""

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._binding = IoBinding(session)

    @checked
    def bind_cpu_input(self, name: str, array: Any) -> None:
        self._binding.bind_input(name, _array_of("array", array))

    @checked
    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._binding.bind_input(name, of_value(value))

    @checked
    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        self._binding.bind_input(name, memory_at(buffer_ptr, shape, element_type, device_type))

    @checked
    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        if buffer_ptr is None or shape is None:
            if device_type != "cpu":
                raise NotImplemented("device_type: outputs in device memory that demi allocates: pass `buffer_ptr`")
            self._binding.bind_output(name)
        else:
            self._binding.bind_output(name, memory_at(buffer_ptr, shape, element_type, device_type))

    @checked
    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._binding.bind_output(name, of_value(value))

    def synchronize_inputs(self) -> None:
        """Does nothing: bound inputs are read in place, in the session's stream."""

    def synchronize_outputs(self) -> None:
        self._binding.wait()

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(v, "cuda" if device_array(v, None, ANY_DEVICE) else "cpu") if not isinstance(v, (list, type(None)))
                else OrtValue(v) for v in self._binding.get_outputs()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Returns copies, whatever was bound."""
        return [value.numpy().copy() if value.is_tensor() else value._value for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        self._binding._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._binding._given.clear()
        self._binding._wanted.clear()
