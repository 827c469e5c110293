# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's options of sessions and runs. Options that only affect speed are accepted and stored. What
demi cannot do is refused by name when a session is made."""

from __future__ import annotations

import enum
from typing import Any, Mapping

from .errors import InvalidArgument, NotImplemented, checked


class GraphOptimizationLevel(enum.IntEnum):
    """Any level is accepted: plans are always fully optimized."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class _Entries:
    """Settings by name, which demi stores but does not use."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def _add(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise InvalidArgument(f"key: there is no entry {key!r}")
        return self._entries[key]


class SessionOptions(_Entries):
    """Of these, `intra_op_num_threads` and dynamic sizes set by name have an effect."""

    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.optimized_model_filepath = ""
        self.logid = ""
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self._sizes: dict[str, int] = {}
        self._providers: list[tuple[str, dict[str, str]]] = []

    @checked
    def add_session_config_entry(self, key: str, value: str) -> None:
        self._add(key, value)

    @checked
    def get_session_config_entry(self, key: str) -> str:
        return self._get(key)

    @checked
    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._sizes[name] = size

    @checked
    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        self._providers.append((name, dict(options)))

    def has_providers(self) -> bool:
        return bool(self._providers)

    def _refuse(self, what: str) -> Any:
        raise NotImplemented(f"SessionOptions.{what}: demi does not support it")

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        self._refuse("add_free_dimension_override_by_denotation")

    def add_initializer(self, name: str, value: Any) -> None:
        self._refuse("add_initializer")

    def add_external_initializers(self, names: Any, values: Any) -> None:
        self._refuse("add_external_initializers")

    def register_custom_ops_library(self, path: str) -> None:
        self._refuse("register_custom_ops_library")

    def check(self) -> None:
        """Refuses, for a new session, what was set but would have no effect."""
        if self.enable_profiling:
            self._refuse("enable_profiling")
        if self.optimized_model_filepath:
            self._refuse("optimized_model_filepath")


class RunOptions(_Entries):
    """Of these, `terminate` has an effect."""

    def __init__(self) -> None:
        super().__init__()
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False
        self.training_mode = False

    @checked
    def add_run_config_entry(self, key: str, value: str) -> None:
        self._add(key, value)

    @checked
    def get_run_config_entry(self, key: str) -> str:
        return self._get(key)


# Options of CUDA's provider: those that say how a session is made here, and those that onnxruntime has for what
# demi decides itself.
_CUDA_TAKEN = {"device_id", "gpu_mem_limit", "use_tf32", "user_compute_stream", "enable_cuda_graph"}
_CUDA_KNOWN = {"arena_extend_strategy", "cudnn_conv_algo_search", "do_copy_in_default_stream",
               "cudnn_conv_use_max_workspace", "cudnn_conv1d_pad_to_nc1d", "has_user_compute_stream",
               "prefer_nhwc", "tunable_op_enable", "tunable_op_tuning_enable", "sdpa_kernel", "fuse_conv_bias",
               "enable_skip_layer_norm_strict_mode", "use_ep_level_unified_stream", "gpu_external_alloc",
               "gpu_external_free", "gpu_external_empty_cache", "tunable_op_max_tuning_duration_ms"}
_CPU_KNOWN = {"use_arena", "arena_extend_strategy"}


def _is_on(value: Any) -> bool:
    return str(value).lower() in ("1", "true")


def how_of(provider: str, options: dict[str, Any]) -> dict[str, Any]:
    """Returns a provider's options as arguments of demi's Session. Refuses unknown options."""
    cuda = provider == "CUDAExecutionProvider"
    for name in options:
        if name not in (_CUDA_TAKEN | _CUDA_KNOWN if cuda else _CPU_KNOWN):
            raise InvalidArgument(f"{provider} has no option {name!r}")
    if not cuda:
        return {"device": "cpu"}
    how: dict[str, Any] = {"device": f"cuda:{int(options.get('device_id', 0))}"}
    if int(options.get("gpu_mem_limit", 0)) in range(1, 1 << 62):
        how["device_memory"] = int(options["gpu_mem_limit"])
    if "use_tf32" in options:
        how["tf32"] = _is_on(options["use_tf32"])
    if "enable_cuda_graph" in options:
        how["device_graph"] = _is_on(options["enable_cuda_graph"])
    if int(options.get("user_compute_stream", 0)):
        how["device_stream"] = int(options["user_compute_stream"])
    return how
