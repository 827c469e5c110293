// SPDX-License-Identifier: Apache-2.0
/* Models as text: ONNX's textual syntax, with demi's extensions where it has no word for something.
 *
 * text_print and text_parse are inverse: text -> model -> text is the identity for printed text,
 * and model -> text (TEXT_FULL) -> model keeps every field. See text_print.c for the grammar of the
 * extensions (@meta @doc @sparse @quant @training @raw @unknown …).
 */
#ifndef DEMI_TEXT_H
#define DEMI_TEXT_H

#include "graph.h"
#include "pass.h"

typedef enum TextDetail {
    TEXT_FULL,  /* everything */
    TEXT_SHORT, /* tensors of more than 16 elements are elided, and say so; can't be parsed */
} TextDetail;

/* Prints a model to the sink. Errors: reading of weights. */
bool text_print_model(const Model *model, TextDetail detail, const TextSink *sink, Err *err);

/* Parses a model. ERR_MODEL with "line L, column C" as operand. NULL on error. */
Model *text_parse_model(const char *text, size_t size, MemTrap *trap, Err *err);

/* True where the file's first bytes can't be a protobuf but may be text: used to tell .onnxtxt. */
bool text_is_likely(const unsigned char *bytes, size_t size);

#endif
