// SPDX-License-Identifier: Apache-2.0
/* Parses types, tensors and sparse tensors. Elements go as they are read into the bytes of the
 * field that will hold them; a number that the field or the dtype can't hold is an error where it
 * stands. */
#include <string.h>

#include "text_parser.h"

/* ---- types ----------------------------------------------------------------------------------- */

bool parser_at_type(const Parser *p) {
    if (p->token.kind == '?') return true;
    return p->token.kind == TOKEN_NAME && text_is_type_word(p->token.text, p->token.length);
}

static bool parse_dim(Parser *p, Dim *dim) {
    Token token = p->token;
    if (parser_accept(p, '?')) {
        dim->kind = DIM_UNKNOWN;
    } else if (parser_at_name(p)) {
        dim->kind = DIM_SYMBOL;
        if (!parser_name(p, &dim->symbol)) return false;
    } else {
        dim->kind = DIM_KNOWN;
        if (token.kind != TOKEN_INT)
            return parser_fail(p, &token, "expected a dimension: an integer, a name or ?");
        if (!parser_int(p, &dim->size)) return false;
    }
    DimExtra extra = {0};
    if (parser_at_mark(p, MARK_DENOTATION) && !parser_mark_string(p, &extra.denotation))
        return false;
    if (parser_at_mark(p, MARK_DIM_UNKNOWN) && !parser_mark_hex(p, &extra.rest)) return false;
    if (extra.denotation || extra.rest.size)
        dim->extra = arena_copy(p->arena, &extra, sizeof extra);
    return true;
}

static bool parse_dims(Parser *p, Type *type) {
    VEC(Dim) dims = {0};
    type->has_shape = true;
    if (!parser_accept(p, '[')) return true;
    if (parser_accept(p, ']')) {
        type->has_shape = false;
        return true;
    }
    do {
        Dim dim = {0};
        if (!parse_dim(p, &dim)) return false;
        VEC_PUSH(p->scratch, &dims, dim);
    } while (parser_accept(p, ','));
    if (dims.count > UINT32_MAX) return parser_fail(p, &p->token, "too many dimensions");
    type->rank = (uint32_t)dims.count;
    type->dims = arena_copy(p->arena, dims.items, dims.count * sizeof *dims.items);
    return parser_expect(p, ']');
}

/* A dtype's name, ?, or ?N. */
static bool parse_dtype(Parser *p, Type *type) {
    Token token = p->token;
    if (parser_accept(p, '?')) {
        if (!parser_at(p, TOKEN_INT)) return true;
        int64_t number;
        token = p->token;
        if (!parser_int(p, &number)) return false;
        if (number < INT32_MIN || number > INT32_MAX)
            return parser_fail(p, &token, "not the number of a dtype");
        type->dtype = (int32_t)number;
        type->has_dtype = true;
        return true;
    }
    Dtype dtype = token.kind == TOKEN_NAME ? text_dtype(token.text, token.length) : DTYPE_UNDEFINED;
    if (dtype == DTYPE_UNDEFINED) return parser_fail(p, &token, "expected a dtype");
    parser_advance(p);
    type->dtype = (int32_t)dtype;
    type->has_dtype = true;
    return true;
}

/* What may stand between the parentheses of opaque(…): nothing, name, or domain, name, the first of
 * which may be dotted; or ?. */
static bool parse_opaque(Parser *p, TypeExtra *extra) {
    Sym first = NULL, second = NULL;
    if (parser_accept(p, '?')) return true; /* all is in @type_unknown */
    const char *text = p->token.text, *end = text;
    if (p->token.kind == TOKEN_NAME) {
        do {
            end = p->token.text + p->token.length;
            if (!parser_expect(p, TOKEN_NAME)) return false;
        } while (parser_accept(p, '.'));
        first = sym_intern(&p->model->syms, text, (size_t)(end - text));
    } else if (!parser_at(p, ')') && !parser_string(p, &first)) {
        return false;
    }
    bool both = parser_accept(p, ',');
    if (both && !parser_name(p, &second)) return false;
    extra->rest = text_opaque_encode(p->arena, both ? first : NULL, both ? second : first);
    return true;
}

static bool parse_wrapped(Parser *p, Type *type, TypeExtra *extra) {
    type->kind = (TypeKind)text_word_value(text_type_kinds, p->token.text, p->token.length);
    parser_advance(p);
    if (!parser_expect(p, '(')) return false;
    bool inner = !parser_at(p, ')');
    if (type->kind == TYPE_MAP) {
        if (!parse_dtype(p, type)) return false;
        inner = parser_accept(p, ',');
    }
    if (type->kind == TYPE_OPAQUE) {
        if (!parse_opaque(p, extra)) return false;
    } else if (type->kind == TYPE_SPARSE_TENSOR) {
        if (!parse_dtype(p, type) || !parse_dims(p, type)) return false;
    } else if (inner && !parser_type(p, &type->elem)) {
        return false;
    }
    return parser_expect(p, ')');
}

static bool parse_type_extra(Parser *p, TypeExtra *extra) {
    for (;;) {
        bool ok = true;
        if (parser_at_mark(p, MARK_DENOTATION))
            ok = parser_mark_string(p, &extra->denotation);
        else if (parser_at_mark(p, MARK_TYPE_UNKNOWN))
            ok = parser_mark_hex(p, &extra->rest);
        else if (parser_at_mark(p, MARK_INNER_UNKNOWN))
            ok = parser_mark_hex(p, &extra->inner_rest);
        else if (parser_at_mark(p, MARK_SHAPE_UNKNOWN))
            ok = parser_mark_hex(p, &extra->shape_rest);
        else
            return true;
        if (!ok) return false;
    }
}

/* Everything of a type but its extra fields. */
static bool parse_type_body(Parser *p, Type *type, TypeExtra *extra) {
    if (!parser_at_type(p)) return parser_fail(p, &p->token, "expected a type");
    if (p->token.kind == TOKEN_NAME &&
        text_word_value(text_type_kinds, p->token.text, p->token.length) >= 0)
        return parse_wrapped(p, type, extra);
    type->kind = TYPE_TENSOR;
    if (!parse_dtype(p, type)) return false;
    if (!type->has_dtype && parser_accept(p, '?')) {
        type->kind = TYPE_NONE;
        return true;
    }
    return parse_dims(p, type);
}

bool parser_type(Parser *p, const Type **result) {
    Type *type = ARENA_NEW(p->arena, Type);
    TypeExtra extra = {0};
    if (!parser_enter(p) || !parse_type_body(p, type, &extra) || !parse_type_extra(p, &extra))
        return false;
    parser_leave(p);
    if (extra.denotation || extra.rest.size || extra.inner_rest.size || extra.shape_rest.size)
        type->extra = arena_copy(p->arena, &extra, sizeof extra);
    *result = type;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool parser_number(Parser *p, Number *number) {
    Token *token = &number->token;
    *number = (Number){.token = p->token};
    if (token->kind == TOKEN_NAME) {
        if (token->length > 1 && token->text[token->length - 1] == 'v') {
            token->value = true;
            token->length--;
        }
        if (text_is_float_word(token->text, token->length)) token->kind = TOKEN_FLOAT;
    }
    if (token->kind != TOKEN_INT && token->kind != TOKEN_FLOAT)
        return parser_fail(p, &p->token, "expected a number");
    parser_advance(p);
    if (token->text[0] != 'n' || !parser_accept(p, '(')) return true;
    Token bits = p->token;
    bool negative;
    if (!parser_expect(p, TOKEN_INT)) return false;
    if (!token_integer(&bits, &negative, &number->bits) || negative)
        return parser_fail(p, &bits, "expected the bits of a NaN");
    number->has_bits = true;
    return parser_expect(p, ')');
}

bool parser_float(Parser *p, const Number *number, float *value) {
    const Token *token = &number->token;
    if (number->has_bits) {
        uint32_t bits = (uint32_t)number->bits;
        if (number->bits > UINT32_MAX) return parser_fail(p, token, "more than 32 bits");
        memcpy(value, &bits, sizeof bits);
        return true;
    }
    return (!token->value && text_read_float(token->text, token->length, value)) ||
           parser_fail(p, token, "not a number of type float");
}

static bool parse_double(Parser *p, const Number *number, double *value) {
    const Token *token = &number->token;
    if (number->has_bits) {
        memcpy(value, &number->bits, sizeof number->bits);
        return true;
    }
    return (!token->value && text_read_double(token->text, token->length, value)) ||
           parser_fail(p, token, "not a number of type double");
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Where a list of elements goes. */
typedef struct Elements {
    Dtype dtype;
    TensorStorage storage; /* RAW or a typed field */
    bool usual;            /* values with v are the dtype's */
    unsigned char *bytes;
    size_t size, capacity;
    VEC(Bytes) strings;
    size_t count, value_count; /* numbers read, and those with v */
    VEC(unsigned char) packed; /* elements of less than a byte, one a byte */
} Elements;

static void put_bytes(Parser *p, Elements *to, const void *bytes, size_t size) {
    if (to->capacity - to->size < size) {
        size_t capacity = to->capacity ? to->capacity * 2 : 64;
        unsigned char *grown = arena_alloc(p->scratch, capacity);
        if (to->size) memcpy(grown, to->bytes, to->size);
        to->bytes = grown;
        to->capacity = capacity;
    }
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

/* An integer of `bits` bits, as they are stored: two's complement, little-endian. */
typedef struct IntFormat {
    unsigned bits;
    bool is_signed;
} IntFormat;

static bool put_int(Parser *p, Elements *to, const Token *token, IntFormat format) {
    bool negative = false;
    uint64_t size = 0, most = format.bits == 64 ? UINT64_MAX : (UINT64_C(1) << format.bits) - 1;
    if (format.is_signed) most >>= 1;
    bool ok = token_integer(token, &negative, &size) && !token->value &&
              size <= most + (negative && format.is_signed) &&
              !(negative && !format.is_signed && size);
    if (!ok)
        return parser_fail(p, token, "not an integer of %u bits%s", format.bits,
                           format.is_signed ? "" : " without sign");
    if (negative) size = 0 - size;
    put_bytes(p, to, &size, format.bits / 8);
    return true;
}

static bool put_float(Parser *p, Elements *to, const Number *number) {
    float value;
    if (!parser_float(p, number, &value)) return false;
    put_bytes(p, to, &value, sizeof value);
    return true;
}

static bool put_double(Parser *p, Elements *to, const Number *number) {
    double value;
    if (!parse_double(p, number, &value)) return false;
    put_bytes(p, to, &value, sizeof value);
    return true;
}

/* The bits of 1.5v. */
static bool element_bits(Parser *p, const Elements *to, const Token *token, uint64_t *bits) {
    return text_read_element(to->dtype, token->text, token->length, bits) ||
           parser_fail(p, token, "not a value of type %s", dtype_name(to->dtype));
}

/* One entry of a typed field. */
static bool put_entry(Parser *p, Elements *to, const Number *number) {
    const Token *token = &number->token;
    switch (to->storage) {
    case TENSOR_FLOATS: return put_float(p, to, number);
    case TENSOR_DOUBLES: return put_double(p, to, number);
    case TENSOR_INT64S: return put_int(p, to, token, (IntFormat){64, true});
    case TENSOR_UINT64S: return put_int(p, to, token, (IntFormat){64, false});
    case TENSOR_NO_DATA:
    case TENSOR_RAW:
    case TENSOR_INT32S:
    case TENSOR_STRINGS:
    case TENSOR_EXTERNAL: break;
    }
    bool small = to->usual && text_is_small_float(to->dtype);
    bool packed = to->usual && text_is_packed(to->dtype);
    if (!token->value || (!small && !packed)) return put_int(p, to, token, (IntFormat){32, true});
    uint64_t bits;
    if (!element_bits(p, to, token, &bits)) return false;
    if (packed)
        VEC_PUSH(p->scratch, &to->packed, (unsigned char)bits);
    else
        put_bytes(p, to, &bits, 4);
    return true;
}

static bool dtype_is_signed(Dtype dtype) {
    return dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 ||
           dtype == DTYPE_INT64;
}

/* One element of raw data of less than a byte. Floats without v are bits. */
static bool put_narrow(Parser *p, Elements *to, const Token *token) {
    uint64_t bits;
    bool negative;
    if (token->value || !dtype_is_float(to->dtype)) {
        if (!element_bits(p, to, token, &bits)) return false;
    } else if (!token_integer(token, &negative, &bits) || bits >> dtype_bits(to->dtype)) {
        return parser_fail(p, token, "not the bits of a %s", dtype_name(to->dtype));
    }
    VEC_PUSH(p->scratch, &to->packed, (unsigned char)bits);
    return true;
}

static bool put_raw(Parser *p, Elements *to, const Number *number) {
    const Token *token = &number->token;
    Dtype dtype = to->dtype;
    unsigned width = dtype_bits(dtype);
    if (dtype == DTYPE_FLOAT || dtype == DTYPE_COMPLEX64) return put_float(p, to, number);
    if (dtype == DTYPE_DOUBLE || dtype == DTYPE_COMPLEX128) return put_double(p, to, number);
    if (width == 0) return parser_fail(p, token, "raw data of this type has no elements");
    if (width < 8) return put_narrow(p, to, token);
    if (!token->value || !text_is_small_float(dtype))
        return put_int(p, to, token, (IntFormat){width, dtype_is_signed(dtype)});
    uint64_t bits;
    if (!element_bits(p, to, token, &bits)) return false;
    put_bytes(p, to, &bits, width / 8);
    return true;
}

static bool parse_element(Parser *p, Elements *to) {
    if (to->storage == TENSOR_STRINGS) {
        Token token = p->token;
        if (!parser_expect(p, TOKEN_STRING)) return false;
        Bytes string = {arena_copy(p->arena, token.text, token.length), token.length};
        VEC_PUSH(p->scratch, &to->strings, string);
        return true;
    }
    Number number;
    if (!parser_number(p, &number)) return false;
    to->count++;
    to->value_count += number.token.value;
    return to->storage == TENSOR_RAW ? put_raw(p, to, &number) : put_entry(p, to, &number);
}

/* Joins elements of less than a byte; in int32_data each byte is an entry. */
static void pack_elements(Parser *p, Elements *to) {
    unsigned width = dtype_bits(to->dtype), held = 0, bits = 0;
    for (size_t i = 0; i < to->packed.count; i++) {
        bits |= (unsigned)to->packed.items[i] << held;
        held += width;
        bool last = i + 1 == to->packed.count;
        while (held >= 8 || (last && held > 0)) {
            uint32_t byte = bits & 0xff;
            put_bytes(p, to, &byte, to->storage == TENSOR_RAW ? 1 : 4);
            bits >>= 8;
            held = held > 8 ? held - 8 : 0;
        }
    }
}

static bool parse_elements(Parser *p, Elements *to) {
    Token open = p->token;
    if (!parser_expect(p, '{')) return false;
    if (parser_accept(p, '}')) return true;
    do {
        if (!parse_element(p, to)) return false;
    } while (parser_accept(p, ','));
    if (!parser_expect(p, '}')) return false;
    if (to->packed.count != 0 && to->packed.count != to->count)
        return parser_fail(p, &open, "values with and without v are mixed in packed data");
    pack_elements(p, to);
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

bool parser_at_data(const Parser *p) {
    return p->token.kind == '{' || p->token.kind == '=' || parser_at_name(p) ||
           parser_at_mark(p, MARK_RAW) || parser_at_mark(p, MARK_STORE);
}

static bool tensor_dims(Parser *p, const Token *at, const Type *type, Tensor *tensor) {
    if (type->kind != TYPE_TENSOR) return parser_fail(p, at, "data of a type that is not a tensor");
    if (!type->has_shape) return parser_fail(p, at, "a tensor's dimensions must be given");
    int64_t *dims = ARENA_ARRAY(p->arena, int64_t, type->rank);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[i].kind != DIM_KNOWN)
            return parser_fail(p, at, "a tensor's dimensions must be numbers");
        dims[i] = type->dims[i].size;
    }
    tensor->dims = dims;
    tensor->rank = type->rank;
    tensor->dtype = type->dtype;
    tensor->has_dtype = type->has_dtype;
    return true;
}

static void take_elements(Parser *p, const Elements *from, Tensor *tensor) {
    tensor->storage = from->storage;
    if (from->storage == TENSOR_STRINGS) {
        tensor->string_count = from->strings.count;
        tensor->strings = arena_copy(p->arena, from->strings.items,
                                     from->strings.count * sizeof *from->strings.items);
        return;
    }
    tensor->bytes = arena_copy(p->arena, from->bytes, from->size);
    tensor->size = from->size;
}

/* @raw(hex) or @raw {…} */
static bool parse_raw(Parser *p, Tensor *tensor) {
    parser_advance(p);
    tensor->storage = TENSOR_RAW;
    if (parser_accept(p, '(')) {
        Bytes bytes = {0};
        if (!parser_hex(p, &bytes)) return false;
        tensor->bytes = bytes.data;
        tensor->size = bytes.size;
        return parser_expect(p, ')');
    }
    Elements elements = {.dtype = (Dtype)tensor->dtype, .storage = TENSOR_RAW, .usual = true};
    if (!parse_elements(p, &elements)) return false;
    take_elements(p, &elements, tensor);
    return true;
}

static bool parse_store(Parser *p, Tensor *tensor) {
    parser_advance(p);
    if (!parser_expect(p, '(')) return false;
    Token field = p->token;
    if (!parser_expect(p, TOKEN_NAME) || !parser_expect(p, ')')) return false;
    int storage = text_word_value(text_storages, field.text, field.length);
    if (storage < 0) return parser_fail(p, &field, "not a data field of a tensor");
    Elements elements = {.dtype = (Dtype)tensor->dtype, .storage = (TensorStorage)storage};
    elements.usual = tensor_field_of(elements.dtype) == elements.storage;
    if (!parse_elements(p, &elements)) return false;
    take_elements(p, &elements, tensor);
    return true;
}

static bool parse_usual(Parser *p, Tensor *tensor) {
    Elements elements = {.dtype = (Dtype)tensor->dtype, .usual = true};
    elements.storage = tensor_field_of(elements.dtype);
    Token open = p->token;
    if (!parse_elements(p, &elements)) return false;
    if (elements.count == 0 && elements.strings.count == 0) return true; /* no data field */
    if (elements.storage == TENSOR_NO_DATA)
        return parser_fail(p, &open, "data of an unknown dtype needs @store or @raw");
    take_elements(p, &elements, tensor);
    return true;
}

bool parser_tensor(Parser *p, const Type *type, Sym name, Tensor **result) {
    Tensor *tensor = ARENA_NEW(p->arena, Tensor);
    tensor->name = name;
    if (!tensor_dims(p, &p->token, type, tensor)) return false;
    parser_accept(p, '=');
    KeyValue *external = NULL;
    bool ok = true;
    if (parser_at(p, '[')) {
        tensor->storage = TENSOR_EXTERNAL;
        ok = parser_entries(p, &external);
    } else if (parser_at_mark(p, MARK_RAW)) {
        ok = parse_raw(p, tensor);
    } else if (parser_at_mark(p, MARK_STORE)) {
        ok = parse_store(p, tensor);
    } else {
        ok = parse_usual(p, tensor);
    }
    if (ok && parser_at_mark(p, MARK_EXTERNAL)) {
        parser_advance(p);
        ok = parser_entries(p, &external);
    }
    Extras extras = {0};
    if (!ok || !parser_extras(p, &extras)) return false;
    tensor->external = external;
    tensor_set_extra(
        tensor, p->arena,
        (TensorExtra){.doc = extras.doc, .metadata = extras.metadata, .rest = extras.rest});
    *result = tensor;
    return true;
}

/* ---- sparse tensors -------------------------------------------------------------------------- */

bool parser_accept_sparse(Parser *p) {
    if (p->token.kind != TOKEN_NAME ||
        text_word_value(text_type_kinds, p->token.text, p->token.length) != TYPE_SPARSE_TENSOR)
        return false;
    Lexer ahead = p->lexer; /* "(" makes it a type */
    Token next = lexer_next(&ahead);
    if (next.kind == '(') return false;
    parser_advance(p);
    return true;
}

static bool parse_part(Parser *p, Tensor **tensor) {
    if (parser_accept(p, '!')) return true;
    const Type *type;
    Sym name = NULL;
    if (!parser_type(p, &type)) return false;
    if (parser_at_name(p) && !parser_name(p, &name)) return false;
    return parser_tensor(p, type, name, tensor);
}

bool parser_sparse(Parser *p, Sym *name, SparseTensor **result) {
    SparseTensor *sparse = ARENA_NEW(p->arena, SparseTensor);
    VEC(int64_t) dims = {0};
    if (parser_accept(p, '[')) {
        do {
            int64_t dim;
            if (!parser_int(p, &dim)) return false;
            VEC_PUSH(p->scratch, &dims, dim);
        } while (parser_accept(p, ','));
        if (!parser_expect(p, ']')) return false;
    }
    if (dims.count > UINT32_MAX) return parser_fail(p, &p->token, "too many dimensions");
    sparse->rank = (uint32_t)dims.count;
    sparse->dims = arena_copy(p->arena, dims.items, dims.count * sizeof *dims.items);
    if (name && (!parser_name(p, name) || !parser_expect(p, '='))) return false;
    bool ok = parser_expect(p, '{') && parse_part(p, &sparse->values) && parser_expect(p, ',') &&
              parse_part(p, &sparse->indices) && parser_expect(p, '}');
    if (ok && parser_at_mark(p, MARK_UNKNOWN)) ok = parser_mark_hex(p, &sparse->rest);
    if (ok && name && sparse->values) sparse->values->name = *name;
    *result = sparse;
    return ok;
}
