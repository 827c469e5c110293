// SPDX-License-Identifier: Apache-2.0
/* The structs, choices and layouts of operators' attributes (ATTRS of operators/), for shape functions
 * and kernels. */
#ifndef DEMI_OP_ATTRS_H
#define DEMI_OP_ATTRS_H

#include "attr_layout.h"
#include "dtype.h"

typedef enum Activation {
#define ACTIVATION(enumerator, name) ACTIVATION_##enumerator,
#include "activations.def"
#undef ACTIVATION
    ACTIVATION_COUNT
} Activation;

/* The names by which the attribute `activation` calls them, NULL-terminated: "", "Relu", … */
extern const char *const activation_names[];

#define ENUM(name, ...) typedef enum name { __VA_ARGS__ } name;
#define STRUCT(...)                                                                                \
    typedef struct SELF {                                                                          \
        __VA_ARGS__                                                                                \
    } SELF;
#define ATTRS(id, ...) extern const AttrLayout op_attrs_##id;
#include "operators.def"
#undef ENUM
#undef STRUCT
#undef ATTRS

/* No attributes. */
extern const AttrLayout op_attrs_none;

#endif
