// SPDX-License-Identifier: Apache-2.0
/* Fills attribute structs by their layouts; see attr_layout.h. */
#include "attr_layout.h"

#include <string.h>

void *attr_layout_new(const AttrLayout *layout, Arena *arena) {
    char *attrs = arena_alloc(arena, layout->size);
    for (const AttrField *field = layout->fields; field->name; field++) {
        void *place = attrs + field->offset;
        switch (field->kind) {
        case ATTR_FIELD_INT:
        case ATTR_FIELD_CHOICE: *(int64_t *)place = field->otherwise; break;
        case ATTR_FIELD_REAL: *(float *)place = field->real; break;
        case ATTR_FIELD_TEXT:
            if (field->text)
                *(AttrText *)place = (AttrText){true, (uint32_t)strlen(field->text), field->text};
            break;
        case ATTR_FIELD_INTS:
        case ATTR_FIELD_FLOAT:
        case ATTR_FIELD_FLOATS:
        case ATTR_FIELD_TEXTS:
        case ATTR_FIELD_VALUES:
        case ATTR_FIELD_TENSOR: break; /* zeroed: absent */
        }
    }
    return attrs;
}

const AttrField *attr_layout_find(const AttrLayout *layout, const char *name, size_t size) {
    for (const AttrField *field = layout->fields; field->name; field++)
        if (*field->name && strlen(field->name) == size && memcmp(field->name, name, size) == 0)
            return field;
    return NULL;
}

bool attr_layout_is_shape(const AttrLayout *layout, const AttrField *field) {
    for (const AttrField *f = layout->fields; f != field; f++)
        if (f->kind == ATTR_FIELD_VALUES) return false;
    return true;
}

static int64_t choice_of(const AttrField *field, AttrText text) {
    for (int64_t i = 0; field->choices[i]; i++)
        if (strlen(field->choices[i]) == text.size &&
            memcmp(field->choices[i], text.text, text.size) == 0)
            return i;
    return -1;
}

void attr_layout_fill(void *attrs, const AttrField *field, const PlainAttr *attr, Arena *arena) {
    void *place = (char *)attrs + field->offset;
    switch (field->kind) {
    case ATTR_FIELD_INT:
        if (attr->kind == PLAIN_INT) *(int64_t *)place = attr->v.i;
        break;
    case ATTR_FIELD_VALUES: break;
    case ATTR_FIELD_INTS:
        if (attr->kind == PLAIN_INTS)
            *(AttrInts *)place = (AttrInts){true, attr->count, attr->v.ints};
        break;
    case ATTR_FIELD_REAL:
        if (attr->kind == PLAIN_FLOAT) *(float *)place = attr->v.f;
        break;
    case ATTR_FIELD_FLOAT:
        if (attr->kind == PLAIN_FLOAT)
            *(AttrFloats *)place =
                (AttrFloats){true, 1, arena_copy(arena, &attr->v.f, sizeof attr->v.f)};
        break;
    case ATTR_FIELD_FLOATS:
        if (attr->kind == PLAIN_FLOATS)
            *(AttrFloats *)place = (AttrFloats){true, attr->count, attr->v.floats};
        break;
    case ATTR_FIELD_TEXT:
        if (attr->kind == PLAIN_TEXT) *(AttrText *)place = attr->v.text;
        break;
    case ATTR_FIELD_TEXTS:
        if (attr->kind == PLAIN_TEXTS)
            *(AttrTexts *)place = (AttrTexts){true, attr->count, attr->v.texts};
        break;
    case ATTR_FIELD_CHOICE:
        if (attr->kind == PLAIN_TEXT) *(int64_t *)place = choice_of(field, attr->v.text);
        break;
    case ATTR_FIELD_TENSOR:
        if (attr->kind == PLAIN_TENSOR) *(AttrTensor *)place = attr->v.tensor;
        break;
    }
}
