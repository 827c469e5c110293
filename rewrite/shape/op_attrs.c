// SPDX-License-Identifier: Apache-2.0
/* The layouts of attributes, ATTRS of operators/, as data. */
#include "op_attrs.h"

const char *const activation_names[] = {
#define ACTIVATION(enumerator, name) [ACTIVATION_##enumerator] = (name),
#include "activations.def"
#undef ACTIVATION
    [ACTIVATION_COUNT] = NULL,
};

/* Where a member is in the struct at hand; a member of another type does not compile. */
#define PLACE(member, type)                                                                        \
    .offset = offsetof(SELF, member) + 0 * sizeof(_Generic(((SELF *)NULL)->member, type : 0))

#define INT(member, text, absent)                                                                  \
    { .name = text, .kind = ATTR_FIELD_INT, PLACE(member, int64_t), .otherwise = absent }
#define REAL(member, text, absent)                                                                 \
    { .name = text, .kind = ATTR_FIELD_REAL, PLACE(member, float), .real = absent }
#define FIXED(member, value)      INT(member, "", value)
#define FIXED_REAL(member, value) REAL(member, "", value)
#define CHOICE_OF(member, text, absent, list)                                                      \
    {                                                                                              \
        .name = text, .kind = ATTR_FIELD_CHOICE, PLACE(member, int64_t), .otherwise = absent,      \
        .choices = list                                                                            \
    }
#define CHOICE(member, text, absent, ...)                                                          \
    CHOICE_OF(member, text, absent, ((const char *const[]){__VA_ARGS__, NULL}))
#define TEXT(member, text_, absent)                                                                \
    { .name = text_, .kind = ATTR_FIELD_TEXT, PLACE(member, AttrText), .text = absent }
#define FLOAT(member, text)                                                                        \
    { .name = text, .kind = ATTR_FIELD_FLOAT, PLACE(member, AttrFloats) }
#define INTS(member, text)                                                                         \
    { .name = text, .kind = ATTR_FIELD_INTS, PLACE(member, AttrInts) }
#define FLOATS(member, text)                                                                       \
    { .name = text, .kind = ATTR_FIELD_FLOATS, PLACE(member, AttrFloats) }
#define TEXTS(member, text)                                                                        \
    { .name = text, .kind = ATTR_FIELD_TEXTS, PLACE(member, AttrTexts) }
#define TENSOR(member, text)                                                                       \
    { .name = text, .kind = ATTR_FIELD_TENSOR, PLACE(member, AttrTensor) }

#define VALUES                                                                                     \
    { .name = "", .kind = ATTR_FIELD_VALUES }

#define ENUM(name, ...)
#define STRUCT(...)
#define ATTRS(id, ...)                                                                             \
    static const AttrField id##_fields[] = {__VA_ARGS__, {.name = NULL}};                          \
    const AttrLayout op_attrs_##id = {sizeof(SELF), id##_fields};
#include "operators.def"

static const AttrField no_fields[] = {{.name = NULL}};
const AttrLayout op_attrs_none = {1, no_fields};
