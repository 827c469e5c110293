# SPDX-License-Identifier: Apache-2.0
"""Reading and writing ONNX files: the wire guard, import, export, external data, saving."""

from mutants import Mutant

WIRE, READ, WRITE = "wire_guard_test onnx_corrupt_test", "onnx_import_test", "onnx_export_test"
DATA = "external_data_test bad_input"

MUTANTS = (
    Mutant("a packed list's last number may reach beyond it", "proto/wire_guard.c",
           'if (reader_position(&guard->reader) != end) return refuse(guard, "bad packed list");',
           'if (reader_position(&guard->reader) < end) return refuse(guard, "bad packed list");', WIRE),
    Mutant("groups inside messages do not count the messages' depth", "proto/wire_guard.c",
           "if (guard->depth + count >= WIRE_DEPTH_MAX)", "if (count >= WIRE_DEPTH_MAX)", WIRE),
    Mutant("parts of a message inside a message in parts are not joined", "proto/wire_merge.c",
           "content = wire_merge(element.field->descriptor, content, arena);",
           "content = (Bytes){content.data, content.size};", "wire_guard_test"),
    Mutant("the second part of a graph is another graph", "proto/wire_guard.c",
           "        if (!repeated) parent->graphs[0].record = frame->record;\n", "", "onnx_import_test"),
    Mutant("an output's type is given to a value of the graph around it", "proto/import_graph.c",
           "if (!value->type && value->graph == scope->graph) value->type = decl->type;",
           "if (!value->type) value->type = decl->type;", READ),
    Mutant("negative entries of int32_data are written as positive ones", "proto/export_tensor.c",
           "writer_raw_varint(w, (uint64_t)(int64_t)entry);",
           "writer_raw_varint(w, (uint64_t)(uint32_t)entry);", WRITE),
    Mutant("a checksum of the old data file stays", "proto/export_tensor.c",
           'sym_equals(entry->key, "length") || sym_equals(entry->key, "checksum");',
           'sym_equals(entry->key, "length");', "onnx_export_test"),
    Mutant("a cast of external data is no external data", "proto/export_tensor.c",
           "    while (tensor->cast_of) tensor = tensor->cast_of;\n    return tensor->storage == TENSOR_EXTERNAL;",
           "    return tensor->storage == TENSOR_EXTERNAL;", WRITE),
    Mutant("without a length, a tensor has the rest of the file", "proto/external_data.c",
           "return sized && size < left ? size : left;", "return sized && size == left ? size : left;", DATA),
    Mutant("a number of 20 digits wraps", "proto/external_data.c",
           "text->length > 19", "text->length > 20", DATA),
    Mutant("'..' is refused at the beginning alone", "proto/external_data.c",
           "if (length == 2 && at[0] == '.' && at[1] == '.') return false;",
           "if (at == text && length == 2 && at[0] == '.' && at[1] == '.') return false;", DATA),
    Mutant("data stay where the model that has them is replaced", "proto/model_save.c",
           "if (strcmp(file, out) == 0 || fstatat(", "if (fstatat(", "model_save_test"),
    Mutant("data of a copy go with the model that it was copied from", "proto/model_save.c",
           "        used = may_be_other(", "        used = false && may_be_other(", "model_save_test"),
    Mutant("a model has its name before its data have theirs", "proto/model_save.c",
           "data->first = true; /* a model on the device never names data that are not */",
           "data->first = false; /* a model on the device never names data that are not */", "outputs"),
)
