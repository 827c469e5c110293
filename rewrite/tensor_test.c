// SPDX-License-Identifier: Apache-2.0
/* Tensors: every storage and dtype, one entry too few and too many, sizes meant to overflow,
 * reading in pieces, lazy casts, and that what a typed field gives is what raw_data of the same
 * values holds. */
#include "checked.h"
#include "half.h"
#include "test_model.h"

enum { COUNT = 5 };
static const int64_t dims[] = {COUNT};

/* Entries that a typed field needs for COUNT elements, from the IR's text: two a complex number; of
 * 2- and 4-bit types one a byte. */
static size_t entries_of(Dtype dtype) {
    if (dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128) return 2 * COUNT;
    if (dtype_bits(dtype) == 2) return (COUNT + 3) / 4;
    if (dtype_bits(dtype) == 4) return (COUNT + 1) / 2;
    return COUNT;
}

static Tensor typed(Dtype dtype, TensorStorage storage, const void *bytes, uint64_t size) {
    return (Tensor){.dtype = (int32_t)dtype,
                    .has_dtype = true,
                    .storage = storage,
                    .rank = 1,
                    .dims = dims,
                    .bytes = bytes,
                    .size = size};
}

static bool checks(const Tensor *tensor, const char *expected) {
    Err err = {0};
    bool ok = tensor_check(tensor, &err);
    if (ok)
        assert_int_equal(err.code, ERR_NONE);
    else
        assert_int_equal(err.code, ERR_MODEL);
    if (expected) assert_string_equal(err.expected, expected);
    return ok;
}

TEST(test_raw_of_every_dtype) {
    static const unsigned char bytes[COUNT * 16 + 1];
    for (int dtype = 1; dtype < DTYPE_COUNT; dtype++) {
        uint64_t size = 0;
        bool raw = dtype_bytes((Dtype)dtype, COUNT, &size);
        assert_int_equal(raw, dtype != DTYPE_STRING);
        Tensor tensor = typed((Dtype)dtype, TENSOR_RAW, bytes, size);
        assert_int_equal(checks(&tensor, NULL), raw);
        if (!raw) continue;
        assert_int_equal(tensor_raw_size(&tensor), size);
        tensor.size = size + 1;
        assert_false(checks(&tensor, NULL));
        tensor.size = size - 1;
        assert_false(checks(&tensor, NULL));
        tensor.size = 0;
        assert_false(checks(&tensor, NULL));
    }
}

TEST(test_typed_field_of_every_dtype) {
    static const uint64_t bytes[2 * COUNT + 2];
    static const TensorStorage fields[] = {TENSOR_FLOATS, TENSOR_INT32S, TENSOR_INT64S,
                                           TENSOR_DOUBLES, TENSOR_UINT64S};
    for (int dtype = 1; dtype < DTYPE_COUNT; dtype++) {
        unsigned accepted = 0;
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            uint64_t entry = tensor_field_width(fields[f]);
            Tensor tensor = typed((Dtype)dtype, fields[f], (const unsigned char *)bytes,
                                  entries_of((Dtype)dtype) * entry);
            bool own = fields[f] == tensor_field_of((Dtype)dtype);
            assert_int_equal(checks(&tensor, NULL), own);
            accepted += own;
            tensor.size += entry;
            assert_false(checks(&tensor, NULL));
            tensor.size -= 2 * entry;
            assert_false(checks(&tensor, NULL));
        }
        assert_int_equal(accepted, dtype != DTYPE_STRING);
    }
}

TEST(test_strings) {
    const Bytes strings[COUNT] = {{NULL, 0}};
    Tensor tensor = typed(DTYPE_STRING, TENSOR_STRINGS, NULL, 0);
    tensor.strings = strings;
    tensor.string_count = COUNT;
    assert_true(checks(&tensor, NULL));
    assert_int_equal(tensor_raw_size(&tensor), 0);
    tensor.string_count = COUNT - 1;
    assert_false(checks(&tensor, "5 strings"));
    tensor.dtype = DTYPE_FLOAT;
    assert_false(checks(&tensor, NULL));
}

TEST(test_empty) {
    const int64_t none[] = {3, 0, 2};
    Tensor tensor = typed(DTYPE_FLOAT, TENSOR_NO_DATA, NULL, 0);
    assert_false(checks(&tensor, "5 elements"));
    tensor.dims = none;
    tensor.rank = 3;
    assert_true(checks(&tensor, NULL));
    assert_int_equal(tensor_count(&tensor), 0);
    tensor.storage = TENSOR_RAW;
    assert_true(checks(&tensor, NULL));
    tensor.rank = 0; /* a scalar needs its element */
    assert_false(checks(&tensor, "4 bytes"));
    assert_int_equal(tensor_count(&tensor), 1);
}

TEST(test_hostile_sizes) {
    static const int64_t shapes[][3] = {
        {-1, 1, 1},
        {1, INT64_MIN, 1},
        {INT64_MAX, 2, 1},
        {INT64_C(1) << 32, INT64_C(1) << 32, 1}, /* 2^64: wraps to 0 */
        {INT64_C(1) << 32, INT64_C(1) << 31, 2}, /* 2^64 */
        {0, INT64_MAX, INT64_MAX},               /* zero times huge */
        {INT64_C(1) << 62, 4, 0},
        {INT64_C(3037000500), INT64_C(3037000500), 1}, /* just past 2^63 */
    };
    static const TensorStorage storages[] = {TENSOR_NO_DATA, TENSOR_RAW, TENSOR_FLOATS,
                                             TENSOR_EXTERNAL};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t s = 0; s < sizeof storages / sizeof *storages; s++) {
            Tensor tensor = typed(DTYPE_FLOAT, storages[s], NULL, 0);
            tensor.dims = shapes[i];
            tensor.rank = 3;
            assert_false(checks(&tensor, NULL));
        }
    /* The number of elements fits, that of bytes or entries does not. */
    const int64_t huge[] = {INT64_MAX};
    static const Dtype wide[] = {DTYPE_FLOAT, DTYPE_COMPLEX128, DTYPE_FLOAT16, DTYPE_COMPLEX64};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        Tensor tensor = typed(wide[i], TENSOR_RAW, NULL, 0);
        tensor.dims = huge;
        assert_false(checks(&tensor, NULL));
        tensor.storage = tensor_field_of(wide[i]);
        assert_false(checks(&tensor, NULL));
    }
}

TEST(test_unknown_dtypes) {
    static const int32_t unknown[] = {0, -1, DTYPE_COUNT, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        Tensor tensor = typed(DTYPE_FLOAT, TENSOR_RAW, NULL, 0);
        tensor.dtype = unknown[i];
        assert_false(checks(&tensor, NULL));
        assert_int_equal(tensor_raw_size(&tensor), 0);
    }
}

/* The same values in int32_data or uint64_data and in raw_data read alike, whole and in pieces. */
TEST(test_narrowed_fields) {
    enum { MANY = 5000 }; /* more than the reader's window */
    static int32_t wide[MANY];
    static uint64_t wider[MANY];
    static unsigned char whole[MANY * 8], pieces[MANY * 8];
    const int64_t many[] = {MANY};
    for (int i = 0; i < MANY; i++) {
        wide[i] = (int32_t)((unsigned)i * 2654435761u);
        wider[i] = (uint64_t)(unsigned)wide[i] | UINT64_C(0xabcd) << 48;
    }
    static const Dtype dtypes[] = {DTYPE_INT8,  DTYPE_BOOL,   DTYPE_FLOAT16,   DTYPE_BFLOAT16,
                                   DTYPE_INT32, DTYPE_UINT32, DTYPE_UINT64,    DTYPE_UINT16,
                                   DTYPE_UINT8, DTYPE_INT16,  DTYPE_FLOAT8E5M2};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        TensorStorage field = tensor_field_of(dtypes[d]);
        unsigned width = dtype_bits(dtypes[d]) / 8;
        const void *from = field == TENSOR_INT32S ? (const void *)wide : wider;
        Tensor tensor = typed(dtypes[d], field, from, MANY * (uint64_t)tensor_field_width(field));
        tensor.dims = many;
        assert_true(checks(&tensor, NULL));
        assert_true(tensor_read_raw(&tensor, 0, whole, MANY * width, NULL));
        for (size_t i = 0; i < MANY; i++)
            assert_memory_equal(whole + i * width,
                                field == TENSOR_INT32S ? (void *)&wide[i] : (void *)&wider[i],
                                width);
        for (uint64_t at = 0, step = 1; at < MANY; at += step, step = step * 3 % 1031 + 1) {
            if (at + step > MANY) step = MANY - at;
            assert_true(
                tensor_read_raw(&tensor, at * width, pieces + at * width, step * width, NULL));
        }
        assert_memory_equal(whole, pieces, MANY * width);
    }
}

TEST(test_packed_fields) {
    static const int32_t packed[] = {0x21, 0x43, 0x05};
    unsigned char raw[3];
    Tensor tensor = typed(DTYPE_INT4, TENSOR_INT32S, (const unsigned char *)packed, sizeof packed);
    assert_true(checks(&tensor, NULL));
    assert_int_equal(tensor_raw_size(&tensor), 3);
    assert_true(tensor_read_raw(&tensor, 0, raw, 3, NULL));
    assert_memory_equal(raw, "\x21\x43\x05", 3);
    assert_true(tensor_read_raw(&tensor, 1, raw, 1, NULL));
    assert_int_equal(raw[0], 0x43);
    static const int32_t six[COUNT];
    Tensor odd = typed(DTYPE_FLOAT6E2M3, TENSOR_INT32S, (const unsigned char *)six, sizeof six);
    Err err = {0};
    assert_true(checks(&odd, NULL));
    assert_false(tensor_read_raw(&odd, 0, raw, 3, &err));
    assert_int_equal(err.code, ERR_MODEL);
}

/* More elements than one window of the converters; every piece equals the whole. */
TEST(test_lazy_casts) {
    enum { MANY = 9001 };
    static float floats[MANY], back[MANY];
    static uint16_t low[MANY], direct[MANY], piece[MANY];
    const int64_t many[] = {MANY};
    for (int i = 0; i < MANY; i++) floats[i] = (float)(i - 4500) * 1.00037f;
    const Tensor *of = tensor_new_raw(&test_arena, DTYPE_FLOAT, many, 1, floats, sizeof floats);
    static const Dtype targets[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16};
    for (size_t t = 0; t < 2; t++) {
        const Tensor *cast = tensor_new_cast(&test_arena, of, targets[t]);
        assert_true(checks(cast, NULL));
        assert_int_equal(tensor_raw_size(cast), sizeof low);
        assert_true(tensor_read_raw(cast, 0, low, sizeof low, NULL));
        if (t == 0)
            half_convert_from_float(direct, floats, MANY);
        else
            bfloat_convert_from_float(direct, floats, MANY);
        assert_memory_equal(low, direct, sizeof low);
        for (uint64_t at = 0, step = 17; at < MANY; at += step) {
            uint64_t now = MANY - at < step ? MANY - at : step;
            assert_true(tensor_read_raw(cast, at * 2, piece + at, now * 2, NULL));
        }
        assert_memory_equal(low, piece, sizeof low);
        /* Back again: two roundings, not none. */
        const Tensor *twice = tensor_new_cast(&test_arena, cast, DTYPE_FLOAT);
        assert_true(tensor_read_raw(twice, 0, back, sizeof back, NULL));
        if (t == 0)
            half_convert_to_float(floats, direct, MANY);
        else
            bfloat_convert_to_float(floats, direct, MANY);
        assert_memory_equal(back, floats, sizeof back);
        assert_true(tensor_read_raw(twice, 8000 * 4, back, 4, NULL));
        assert_memory_equal(back, &floats[8000], 4);
        memset(back, 0, sizeof back);
        assert_true(tensor_read_floats(cast, 8999, 2, back, NULL));
        assert_memory_equal(back, &floats[8999], 8);
        for (int i = 0; i < MANY; i++) floats[i] = (float)(i - 4500) * 1.00037f;
    }
}

/* Of one factor after the other, in pieces that begin and end anywhere. */
TEST(test_lazy_products) {
    enum { ROWS = 9, EACH = 7, AGAIN = 2, ALL = AGAIN * ROWS * EACH };
    static const int64_t sizes[] = {AGAIN, ROWS, EACH};
    float floats[ALL], factors[ROWS], expected[ALL], piece[ALL];
    for (int i = 0; i < ROWS; i++) factors[i] = (float)(i - 4) * 0.3f;
    for (int i = 0; i < ALL; i++) {
        floats[i] = (float)i + 0.1f;
        expected[i] = floats[i] * factors[i / EACH % ROWS];
    }
    const Tensor *of = tensor_new_raw(&test_arena, DTYPE_FLOAT, sizes, 3, floats, sizeof floats);
    const Tensor *scaled = tensor_new_scaled(&test_arena, of, (TensorFactors){factors, EACH, ROWS});
    assert_true(checks(scaled, NULL));
    for (uint64_t first = 0; first < ALL; first++)
        for (uint64_t count = 1; first + count <= ALL; count++) {
            assert_true(tensor_read_floats(scaled, first, count, piece, NULL));
            assert_memory_equal(piece, expected + first, count * sizeof *piece);
        }
    uint16_t low[ALL], direct[ALL]; /* and narrowed, once */
    const Tensor *cast = tensor_new_cast(&test_arena, scaled, DTYPE_FLOAT16);
    assert_true(tensor_read_raw(cast, 0, low, sizeof low, NULL));
    half_convert_from_float(direct, expected, ALL);
    assert_memory_equal(low, direct, sizeof low);
}

TEST(test_cast_keeps) {
    KeyValue metadata = {0};
    Model *model = model_new(&test_trap);
    Tensor *of = tensor_new_raw(&test_arena, DTYPE_FLOAT, dims, 1, "01234567890123456789", 20);
    of->name = test_name(model, "w");
    tensor_set_extra(of, &model->arena,
                     (TensorExtra){.doc = test_name(model, "doc"), .metadata = &metadata});
    const Tensor *cast = tensor_new_cast(&test_arena, of, DTYPE_FLOAT16);
    assert_ptr_equal(cast->name, of->name);
    assert_ptr_equal(tensor_extra(cast)->doc, tensor_extra(of)->doc);
    assert_ptr_equal(tensor_extra(cast)->metadata, &metadata);
    assert_int_equal(cast->storage, TENSOR_RAW);
    assert_int_equal(of->dtype, DTYPE_FLOAT);
    of->size = 19; /* a cast of a broken tensor is broken */
    assert_false(checks(cast, "20 bytes"));
    model_free(model);
}

TEST(test_sources) {
    static const unsigned char file[] = "..\0\0\x80\x3f\0\0\0\x40";
    const int64_t two[] = {2};
    Tensor tensor = typed(DTYPE_FLOAT, TENSOR_EXTERNAL, NULL, 8);
    tensor.dims = two;
    tensor.source = source_from_memory(&test_arena, file, 10, "file");
    tensor.offset = 2;
    float values[2];
    Err err = {0};
    assert_true(checks(&tensor, NULL));
    assert_true(tensor_read_floats(&tensor, 0, 2, values, &err));
    assert_true(values[0] == 1.0f && values[1] == 2.0f);
    tensor.offset = 3; /* reaches past the end */
    assert_false(tensor_read_floats(&tensor, 0, 2, values, &err));
    assert_int_equal(err.code, ERR_MODEL);
    tensor.offset = UINT64_MAX - 3; /* wraps */
    assert_false(tensor_read_floats(&tensor, 0, 2, values, NULL));
}

TEST(test_read_ints) {
    int64_t *values = NULL;
    uint64_t count = 0;
    static const int32_t stored[] = {-1, 0, 127, -128, 0x1ff};
    static const struct {
        Dtype dtype;
        int64_t first, fourth, fifth;
    } rows[] = {{DTYPE_INT8, -1, -128, -1},
                {DTYPE_UINT8, 255, 128, 255},
                {DTYPE_INT16, -1, -128, 511},
                {DTYPE_UINT16, 65535, 65408, 511},
                {DTYPE_INT32, -1, -128, 511}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tensor tensor = typed(rows[i].dtype, TENSOR_INT32S, (const unsigned char *)stored, 20);
        assert_true(tensor_read_ints(&tensor, &test_arena, COUNT, &values, &count));
        assert_int_equal(count, COUNT);
        assert_int_equal(values[0], rows[i].first);
        assert_int_equal(values[3], rows[i].fourth);
        assert_int_equal(values[4], rows[i].fifth);
        assert_false(tensor_read_ints(&tensor, &test_arena, COUNT - 1, &values, &count));
        tensor.size -= 4;
        assert_false(tensor_read_ints(&tensor, &test_arena, COUNT, &values, &count));
    }
    static const int64_t longs[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    Tensor tensor = typed(DTYPE_INT64, TENSOR_INT64S, (const unsigned char *)longs, sizeof longs);
    assert_true(tensor_read_ints(&tensor, &test_arena, COUNT, &values, &count));
    assert_memory_equal(values, longs, sizeof longs);
    tensor.dtype = DTYPE_FLOAT;
    tensor.storage = TENSOR_RAW;
    tensor.size = 20;
    assert_false(tensor_read_ints(&tensor, &test_arena, COUNT, &values, &count));
    tensor.dtype = DTYPE_INT4;
    tensor.size = 3;
    assert_false(tensor_read_ints(&tensor, &test_arena, COUNT, &values, &count));
}
