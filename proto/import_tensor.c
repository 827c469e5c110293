// SPDX-License-Identifier: Apache-2.0
/* TensorProto and SparseTensorProto. Large raw data is a range of the model's file; small data and
 * typed fields are copied. */
#include "import.h"

static uint64_t read_u64(const unsigned char *from) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* raw_data as the guard left it: a form byte, then data or a reference. */
static void import_raw(Import *import, ProtobufCBinaryData raw, Tensor *tensor) {
    tensor->storage = TENSOR_RAW;
    if (raw.data[0] == SHADOW_REFERENCE) {
        tensor->source = import->model->source;
        tensor->offset = read_u64(raw.data + 1);
        tensor->size = read_u64(raw.data + 9);
        return;
    }
    tensor->size = raw.len - 1;
    tensor->bytes = arena_copy(import->arena, raw.data + 1, raw.len - 1);
}

/* Puts back the data itself, for a raw_data that goes to `rest` beside the data that counts. */
static bool restore_raw(Import *import, Onnx__TensorProto *proto) {
    ProtobufCBinaryData *raw = &proto->raw_data;
    if (raw->data[0] == SHADOW_INLINE) {
        raw->data++;
        raw->len--;
        return true;
    }
    uint64_t offset = read_u64(raw->data + 1), size = read_u64(raw->data + 9);
    raw->data = unpacker_alloc(&import->unpacker, size);
    raw->len = size;
    return source_read(import->model->source, offset, raw->data, size, import->err);
}

/* The items of a typed field, `bytes` bytes in all. */
static void import_list(Import *import, Tensor *tensor, const void *items, size_t bytes) {
    tensor->bytes = arena_copy(import->arena, items, bytes);
    tensor->size = bytes;
}

static void import_strings(Import *import, Onnx__TensorProto *proto, Tensor *tensor) {
    Bytes *strings = ARENA_ARRAY(import->arena, Bytes, proto->n_string_data);
    for (size_t i = 0; i < proto->n_string_data; i++)
        strings[i] = import_bytes(import, proto->string_data[i]);
    tensor->strings = strings;
    tensor->string_count = proto->n_string_data;
}

/* The typed field where data of this dtype belongs. */
static TensorStorage dtype_storage(int32_t dtype) {
    if (dtype == DTYPE_FLOAT || dtype == DTYPE_COMPLEX64) return TENSOR_FLOATS;
    if (dtype == DTYPE_DOUBLE || dtype == DTYPE_COMPLEX128) return TENSOR_DOUBLES;
    if (dtype == DTYPE_UINT32 || dtype == DTYPE_UINT64) return TENSOR_UINT64S;
    if (dtype == DTYPE_INT64) return TENSOR_INT64S;
    return dtype == DTYPE_STRING ? TENSOR_STRINGS : TENSOR_INT32S;
}

/* The typed field with data: that of the dtype where it has some, else the first that has. */
static TensorStorage typed_storage(const Onnx__TensorProto *proto) {
    const size_t counts[] = {
        [TENSOR_FLOATS] = proto->n_float_data,   [TENSOR_INT32S] = proto->n_int32_data,
        [TENSOR_INT64S] = proto->n_int64_data,   [TENSOR_DOUBLES] = proto->n_double_data,
        [TENSOR_UINT64S] = proto->n_uint64_data, [TENSOR_STRINGS] = proto->n_string_data,
    };
    TensorStorage own = dtype_storage(proto->data_type);
    if (counts[own]) return own;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i]) return (TensorStorage)i;
    return TENSOR_NO_DATA;
}

/* Takes over the field of a storage and clears it. */
static void import_stored(Import *import, Onnx__TensorProto *proto, Tensor *tensor) {
    switch (tensor->storage) {
    case TENSOR_RAW:
        import_raw(import, proto->raw_data, tensor);
        proto->has_raw_data = 0;
        return;
    case TENSOR_FLOATS:
        import_list(import, tensor, proto->float_data, proto->n_float_data * sizeof(float));
        proto->n_float_data = 0;
        return;
    case TENSOR_INT32S:
        import_list(import, tensor, proto->int32_data, proto->n_int32_data * sizeof(int32_t));
        proto->n_int32_data = 0;
        return;
    case TENSOR_INT64S:
        import_list(import, tensor, proto->int64_data, proto->n_int64_data * sizeof(int64_t));
        proto->n_int64_data = 0;
        return;
    case TENSOR_DOUBLES:
        import_list(import, tensor, proto->double_data, proto->n_double_data * sizeof(double));
        proto->n_double_data = 0;
        return;
    case TENSOR_UINT64S:
        import_list(import, tensor, proto->uint64_data, proto->n_uint64_data * sizeof(uint64_t));
        proto->n_uint64_data = 0;
        return;
    case TENSOR_STRINGS:
        import_strings(import, proto, tensor);
        proto->n_string_data = 0;
        return;
    case TENSOR_NO_DATA:
    case TENSOR_EXTERNAL: return;
    }
}

static bool import_external(Import *import, Onnx__TensorProto *proto, Tensor *tensor) {
    ExternalRange range;
    tensor->storage = TENSOR_EXTERNAL;
    tensor->external = import_key_values(import, proto->n_external_data, proto->external_data);
    proto->n_external_data = 0;
    proto->has_data_location = 0;
    if (!external_data_find(import->external, tensor, &range, import->err)) return false;
    tensor->source = range.source;
    tensor->offset = range.offset;
    tensor->size = range.size;
    return !proto->has_raw_data || restore_raw(import, proto);
}

Tensor *import_tensor(Import *import, Onnx__TensorProto *proto) {
    Tensor *tensor = ARENA_NEW(import->arena, Tensor);
    tensor->name = import_sym(import, proto->has_name, proto->name);
    tensor->dtype = proto->data_type;
    tensor->has_dtype = proto->has_data_type;
    tensor->rank = (uint32_t)proto->n_dims;
    tensor->dims = arena_copy(import->arena, proto->dims, proto->n_dims * sizeof(int64_t));
    if (proto->has_data_location &&
        proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        if (!import_external(import, proto, tensor)) return NULL;
    } else {
        tensor->storage = proto->has_raw_data ? TENSOR_RAW : typed_storage(proto);
        import_stored(import, proto, tensor);
    }
    TensorExtra extra = {
        .doc = import_sym(import, proto->has_doc_string, proto->doc_string),
        .metadata = import_key_values(import, proto->n_metadata_props, proto->metadata_props),
    };
    proto->has_name = proto->has_data_type = proto->has_doc_string = 0;
    proto->n_dims = proto->n_metadata_props = 0;
    extra.rest = import_rest(import, &proto->base);
    tensor_set_extra(tensor, import->arena, extra);
    return tensor;
}

SparseTensor *import_sparse(Import *import, Onnx__SparseTensorProto *proto) {
    SparseTensor *sparse = ARENA_NEW(import->arena, SparseTensor);
    if (proto->values && !(sparse->values = import_tensor(import, proto->values))) return NULL;
    if (proto->indices && !(sparse->indices = import_tensor(import, proto->indices))) return NULL;
    sparse->rank = (uint32_t)proto->n_dims;
    sparse->dims = arena_copy(import->arena, proto->dims, proto->n_dims * sizeof(int64_t));
    proto->values = proto->indices = NULL;
    proto->n_dims = 0;
    sparse->rest = import_rest(import, &proto->base);
    return sparse;
}
