// SPDX-License-Identifier: Apache-2.0
/* The words and number formats of the text form, shared by its printer and its parser.
 *
 * Every table maps a word to the number that the model holds; both directions read the same rows,
 * so that what one prints the other reads. The formats of numbers obey the same rule: parsing what
 * a text_format_* wrote gives the same bits.
 */
#ifndef DEMI_TEXT_WORDS_H
#define DEMI_TEXT_WORDS_H

#include "graph.h"

typedef struct TextWord {
    const char *name; /* NULL ends a table */
    int value;
} TextWord;

/* AttrType by its name: "float" … "type_protos". */
extern const TextWord text_attr_types[];

/* TensorStorage of the typed fields by the field's name: "float_data" … "string_data". */
extern const TextWord text_storages[];

/* TypeKind of the words that begin a type that is not a plain tensor: "seq", "map", … */
extern const TextWord text_type_kinds[];

/* Fields in the headers of models and functions. */
typedef enum TextField {
    FIELD_IR_VERSION,
    FIELD_OPSET_IMPORT,
    FIELD_PRODUCER_NAME,
    FIELD_PRODUCER_VERSION,
    FIELD_DOMAIN,
    FIELD_MODEL_VERSION,
    FIELD_DOC,
    FIELD_METADATA,
    FIELD_OVERLOAD,
    FIELD_UNKNOWN,
    FIELD_INITIALIZATION,
    FIELD_ALGORITHM,
    FIELD_INITIALIZATION_BINDING,
    FIELD_UPDATE_BINDING
} TextField;
extern const TextWord text_fields[];

/* Extensions, written @word. */
typedef enum TextMark {
    MARK_DOC,
    MARK_META,
    MARK_UNKNOWN,
    MARK_QUANT,
    MARK_DEVICE,
    MARK_TRAINING,
    MARK_RAW,
    MARK_STORE,
    MARK_EXTERNAL,
    MARK_DENOTATION,
    MARK_DIM_UNKNOWN,
    MARK_TYPE_UNKNOWN,
    MARK_INNER_UNKNOWN,
    MARK_SHAPE_UNKNOWN,
    MARK_UNTYPED,
    MARK_ATTR_DOC,
    MARK_ATTR_UNKNOWN
} TextMark;
extern const TextWord text_marks[];

/* The value of a word, -1 where the table lacks it. */
int text_word_value(const TextWord *words, const char *text, size_t length);
/* The word of a value, NULL where the table lacks it. */
const char *text_word_name(const TextWord *words, int value);

/* [A-Za-z_][A-Za-z0-9_]* */
bool text_is_identifier(const char *text, size_t length);
/* Identifiers with dots between. */
bool text_is_dotted(const char *text, size_t length);
/* A dtype's name or a word of text_type_kinds: read as the beginning of a type. */
bool text_is_type_word(const char *text, size_t length);
/* inf, infinity or nan in any case: read as a number. */
bool text_is_float_word(const char *text, size_t length);

/* The dtype of exactly ONNX's name; DTYPE_UNDEFINED where none. */
Dtype text_dtype(const char *text, size_t length);

/* True where one entry of the typed field holds one element that is written as a value with suffix
 * v: floats of 16, 8 and 6 bits. */
bool text_is_small_float(Dtype dtype);
/* True for dtypes that share bytes in typed fields: 4 and 2 bits. */
bool text_is_packed(Dtype dtype);

enum { TEXT_NUMBER = 40 }; /* bytes that any text_format_* needs, with its NUL */

/* The shortest decimals that read back as the same bits; a NaN other than the usual quiet one as
 * nan(0x…) with all its bits. Returns the length. */
size_t text_format_float(char buffer[TEXT_NUMBER], float value);
size_t text_format_double(char buffer[TEXT_NUMBER], double value);

/* One element of a dtype that is written with suffix v (small floats, 2- and 4-bit types): a short
 * decimal that is read as this element and no other, or the bits as an integer where it is a NaN.
 */
size_t text_format_element(char buffer[TEXT_NUMBER], Dtype dtype, uint64_t bits);

/* Read a decimal number, inf, nan or infinity with optional sign, independent of the locale. False
 * where it is none, or a finite one past the type's range. */
bool text_read_float(const char *text, size_t length, float *value);
bool text_read_double(const char *text, size_t length, double *value);

/* The bits of a value of such a dtype, its text given without the v. False where it is not a number
 * or past the dtype's range. */
bool text_read_element(Dtype dtype, const char *text, size_t length, uint64_t *bits);

/* The wire bytes of a TypeProto's opaque_type with these fields; NULL Syms are absent ones. */
Bytes text_opaque_encode(Arena *arena, Sym domain, Sym name);
/* The inverse: false where these are not the bytes that text_opaque_encode makes. Absent fields get
 * NULL data. */
bool text_opaque_decode(Bytes rest, Bytes *domain, Bytes *name);

#endif
