// SPDX-License-Identifier: Apache-2.0
/* Declares every function and layout that kernels.def names. */
#ifndef DEMI_KERNEL_FUNCTIONS_H
#define DEMI_KERNEL_FUNCTIONS_H

#include "kernel.h"

#define KERNEL(domain, op, since, function, layout, types, flags)                                  \
    bool kernel_##function(KernelCall *call);                                                      \
    extern const AttrLayout kernel_layout_##layout;
#define KERNEL_PREPARED(domain, op, since, function, layout, types, flags, prepare)                \
    KERNEL(domain, op, since, function, layout, types, flags)                                      \
    extern const KernelPrepare kernel_prepare_##prepare;
#include "kernels.def"
#undef KERNEL
#undef KERNEL_PREPARED

/* No attributes. */
extern const AttrLayout kernel_layout_none;

/* Rows of a family's layouts: LAYOUT(name, Struct, INT(Struct, member, "attribute", otherwise), …).
 */
#define KERNEL_INT(Struct, member, text, absent)                                                   \
    {                                                                                              \
        .name = text, .kind = ATTR_FIELD_INT, .offset = offsetof(Struct, member),                  \
        .otherwise = absent                                                                        \
    }
#define KERNEL_REAL(Struct, member, text, absent)                                                  \
    { .name = text, .kind = ATTR_FIELD_REAL, .offset = offsetof(Struct, member), .real = absent }
#define KERNEL_CHOICE(Struct, member, text, list, absent)                                          \
    {                                                                                              \
        .name = text, .kind = ATTR_FIELD_CHOICE, .offset = offsetof(Struct, member),               \
        .otherwise = absent, .choices = list                                                       \
    }
/* what: INTS, FLOATS, FLOAT, TEXT, TEXTS, TENSOR */
#define KERNEL_FIELD(Struct, member, text, what)                                                   \
    { .name = text, .kind = ATTR_FIELD_##what, .offset = offsetof(Struct, member) }
#define KERNEL_LAYOUT(id, Struct, ...)                                                             \
    static const AttrField id##_fields[] = {__VA_ARGS__, {.name = NULL}};                          \
    const AttrLayout kernel_layout_##id = {sizeof(Struct), id##_fields}

#endif
