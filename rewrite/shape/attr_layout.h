// SPDX-License-Identifier: Apache-2.0
/* Attributes as plain data, and structs that are filled from them.
 *
 * Shape functions and kernels take their attributes as a struct. A layout says, as data, which
 * attribute fills which member and what holds where it is absent, so that one function fills every
 * struct, whether the attributes come from a graph's node or from a plan.
 */
#ifndef DEMI_ATTR_LAYOUT_H
#define DEMI_ATTR_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

/* List and text members; `present` is false where the attribute is absent and has no default.
 * Borrowed. */
typedef struct AttrInts {
    bool present;
    uint32_t count;
    const int64_t *items;
} AttrInts;

typedef struct AttrFloats {
    bool present;
    uint32_t count;
    const float *items;
} AttrFloats;

typedef struct AttrText {
    bool present;
    uint32_t size;
    const char *text; /* not NUL-terminated */
} AttrText;

typedef struct AttrTexts {
    bool present;
    uint32_t count;
    const AttrText *items;
} AttrTexts;

/* What an attribute's tensor is to a shape function, and to a kernel: both borrowed, either may be
 * NULL where its reader does not need it. */
typedef struct AttrTensor {
    const struct ShapeOperand *shape;
    const struct KernelTensor *data;
} AttrTensor;

typedef enum PlainAttrKind {
    PLAIN_INT,
    PLAIN_FLOAT,
    PLAIN_TEXT,
    PLAIN_INTS,
    PLAIN_FLOATS,
    PLAIN_TEXTS,
    PLAIN_TENSOR, /* dense, or a sparse one made dense */
    PLAIN_GRAPH,
    PLAIN_KIND_COUNT
} PlainAttrKind;

/* One attribute. Everything it points to is borrowed. */
typedef struct PlainAttr {
    AttrText name;
    PlainAttrKind kind;
    uint32_t count; /* of lists */
    union {
        int64_t i;
        float f;
        AttrText text;
        const int64_t *ints;
        const float *floats;
        const AttrText *texts; /* NULL where only how many there are matters */
        AttrTensor tensor;
        uint32_t graph; /* the caller's number for it */
    } v;
} PlainAttr;

typedef enum AttrFieldKind {
    ATTR_FIELD_INT,    /* int64_t, `otherwise` where absent */
    ATTR_FIELD_INTS,   /* AttrInts */
    ATTR_FIELD_REAL,   /* float, `real` where absent */
    ATTR_FIELD_FLOAT,  /* AttrFloats of one item */
    ATTR_FIELD_FLOATS, /* AttrFloats */
    ATTR_FIELD_TEXT,   /* AttrText, `text` where absent */
    ATTR_FIELD_TEXTS,  /* AttrTexts */
    ATTR_FIELD_CHOICE, /* int64_t: index into choices, `otherwise` where absent, -1 for others */
    ATTR_FIELD_TENSOR, /* AttrTensor */
    ATTR_FIELD_VALUES, /* none: the fields behind it matter to values alone, not to shapes */
} AttrFieldKind;

#define ATTR_ABSENT INT64_MIN /* `otherwise` of integers whose absence has a meaning */

/* One attribute of a struct: where its value goes. */
typedef struct AttrField {
    const char *name; /* of the attribute; empty where none fills the member */
    AttrFieldKind kind;
    size_t offset;
    int64_t otherwise;
    float real;
    const char *text;           /* NULL: the attribute has no default */
    const char *const *choices; /* CHOICE: NULL-terminated */
} AttrField;

typedef struct AttrLayout {
    size_t size;             /* of the struct */
    const AttrField *fields; /* ended by a row without name */
} AttrLayout;

/* The struct of a layout with every attribute absent. */
void *attr_layout_new(const AttrLayout *layout, Arena *arena);

/* The member an attribute of that name fills; NULL where the struct has none. */
const AttrField *attr_layout_find(const AttrLayout *layout, const char *name, size_t size);

/* True where shapes depend on the layout's field. */
bool attr_layout_is_shape(const AttrLayout *layout, const AttrField *field);

/* Puts one attribute into its member. One of another type than the member's leaves it absent. */
void attr_layout_fill(void *attrs, const AttrField *field, const PlainAttr *attr, Arena *arena);

#endif
