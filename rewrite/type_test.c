// SPDX-License-Identifier: Apache-2.0
/* Value types: making, changing the element type through nesting, comparing. */
#include "test_model.h"

TEST(test_with_dtype) {
    const Dim dims[] = {{.kind = DIM_KNOWN, .size = 3}, {.kind = DIM_UNKNOWN}};
    const Type *tensor = type_new_shaped(&test_arena, DTYPE_FLOAT, dims, 2);
    assert_ptr_equal(type_with_dtype(&test_arena, tensor, DTYPE_FLOAT), tensor);
    const Type *low = type_with_dtype(&test_arena, tensor, DTYPE_FLOAT16);
    assert_int_equal(low->dtype, DTYPE_FLOAT16);
    assert_true(low->has_shape && low->has_dtype);
    assert_ptr_equal(low->dims, dims);
    assert_int_equal(tensor->dtype, DTYPE_FLOAT);
    assert_null(type_with_dtype(&test_arena, NULL, DTYPE_FLOAT));

    TypeExtra extra = {.rest = {(const unsigned char *)"r", 1}};
    Type sequence = {.kind = TYPE_SEQUENCE, .elem = tensor, .extra = &extra};
    const Type *nested = type_new_wrapped(&test_arena, TYPE_OPTIONAL, &sequence);
    const Type *changed = type_with_dtype(&test_arena, nested, DTYPE_BFLOAT16);
    assert_int_equal(changed->kind, TYPE_OPTIONAL);
    assert_ptr_equal(changed->elem->extra, &extra);
    assert_int_equal(type_dtype(changed), DTYPE_BFLOAT16);
    assert_int_equal(type_dtype(nested), DTYPE_FLOAT);
    assert_ptr_equal(type_with_dtype(&test_arena, nested, DTYPE_FLOAT), nested);
}

TEST(test_odd_types) {
    const Type none = {.kind = TYPE_NONE}, opaque = {.kind = TYPE_OPAQUE};
    const Type map = {.kind = TYPE_MAP,
                      .dtype = DTYPE_INT64,
                      .has_dtype = true,
                      .elem = type_plain_tensor(DTYPE_FLOAT)};
    const Type hollow = {.kind = TYPE_SEQUENCE}; /* no element type */
    const Type strange = {.kind = TYPE_TENSOR, .dtype = 4711, .has_dtype = true};
    const Type negative = {.kind = TYPE_TENSOR, .dtype = -1, .has_dtype = true};
    const Type *odd[] = {&none, &opaque, &map, &hollow};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_int_equal(type_dtype(odd[i]), DTYPE_UNDEFINED);
        assert_ptr_equal(type_with_dtype(&test_arena, odd[i], DTYPE_FLOAT16), odd[i]);
    }
    assert_int_equal(type_dtype(NULL), DTYPE_UNDEFINED);
    assert_int_equal(type_dtype(&strange), DTYPE_UNDEFINED);
    assert_int_equal(type_dtype(&negative), DTYPE_UNDEFINED);
    const Type sparse = {.kind = TYPE_SPARSE_TENSOR, .dtype = DTYPE_FLOAT, .has_dtype = true};
    assert_int_equal(type_dtype(&sparse), DTYPE_FLOAT);
    assert_int_equal(type_with_dtype(&test_arena, &sparse, DTYPE_DOUBLE)->kind, TYPE_SPARSE_TENSOR);
}

TEST(test_same_dtypes) {
    const Dim dims[] = {{.kind = DIM_KNOWN, .size = 3}};
    const Type *plain = type_plain_tensor(DTYPE_FLOAT);
    const Type *shaped = type_new_shaped(&test_arena, DTYPE_FLOAT, dims, 1);
    const Type *other = type_plain_tensor(DTYPE_INT64);
    assert_true(type_same_dtypes(plain, shaped));
    assert_true(type_same_dtypes(NULL, NULL));
    assert_false(type_same_dtypes(plain, NULL) || type_same_dtypes(NULL, plain));
    assert_false(type_same_dtypes(plain, other));
    const Type *a = type_new_wrapped(&test_arena, TYPE_SEQUENCE, plain);
    const Type *b = type_new_wrapped(&test_arena, TYPE_SEQUENCE, shaped);
    const Type *c = type_new_wrapped(&test_arena, TYPE_SEQUENCE, other);
    const Type *d = type_new_wrapped(&test_arena, TYPE_OPTIONAL, plain);
    const Type *e = type_new_wrapped(&test_arena, TYPE_SEQUENCE, NULL);
    assert_true(type_same_dtypes(a, b));
    assert_false(type_same_dtypes(a, c) || type_same_dtypes(a, d) || type_same_dtypes(a, e) ||
                 type_same_dtypes(e, a) || type_same_dtypes(a, plain));
}

TEST(test_plain_tensors) {
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        const Type *type = type_plain_tensor((Dtype)dtype);
        assert_int_equal(type->kind, TYPE_TENSOR);
        assert_int_equal(type->dtype, dtype);
        assert_true(type->has_dtype && !type->has_shape && type->rank == 0);
        assert_ptr_equal(type, type_plain_tensor((Dtype)dtype));
    }
}

/* More types than the memo has places, in both orders, each asked for in three dtypes. */
TEST(test_memo_gives_what_it_gave) {
    enum { TYPES = 500 };
    static TypeMemo memo;
    static const Type *types[TYPES];
    for (int i = 0; i < TYPES; i++) {
        Dim *dim = ARENA_NEW(&test_arena, Dim);
        *dim = (Dim){.kind = DIM_KNOWN, .size = i};
        types[i] = type_new_shaped(&test_arena, DTYPE_FLOAT, dim, 1);
    }
    static const Dtype dtypes[] = {DTYPE_FLOAT16, DTYPE_FLOAT, DTYPE_BFLOAT16};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TYPES; i++)
            for (int d = 0; d < 3; d++) {
                const Type *from = types[round ? TYPES - 1 - i : i];
                const Type *to = type_memo_with_dtype(&memo, &test_arena, from, dtypes[d]);
                assert_int_equal(to->dtype, dtypes[d]);
                assert_ptr_equal(to->dims, from->dims);
                assert_ptr_equal(type_memo_with_dtype(&memo, &test_arena, from, dtypes[d]), to);
            }
    assert_ptr_equal(type_memo_with_dtype(&memo, &test_arena, types[0], DTYPE_FLOAT), types[0]);
    assert_null(type_memo_with_dtype(&memo, &test_arena, NULL, DTYPE_FLOAT));
}
