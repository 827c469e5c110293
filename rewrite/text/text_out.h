// SPDX-License-Identifier: Apache-2.0
/* What the printer's files share: buffered output, and printing of names, types and tensors.
 *
 * Output never fails by itself; reading of weights may: the first error stays in `err`, `failed`
 * is set, and printing goes on without that data.
 */
#ifndef DEMI_TEXT_OUT_H
#define DEMI_TEXT_OUT_H

#include "text.h"

typedef struct TextOut {
    const TextSink *sink;
    Err *err;
    TextDetail detail;
    bool failed;
    unsigned indent; /* depth of nested graphs */
    size_t used;
    char buffer[8192];
} TextOut;

void out_bytes(TextOut *out, const char *text, size_t length);
void out_text(TextOut *out, const char *text);
void out_int(TextOut *out, int64_t value);
void out_flush(TextOut *out);
/* A new line, indented; `extra` more spaces. */
void out_line(TextOut *out, unsigned extra);

/* Text in double quotes, with escapes where needed. */
void out_quoted(TextOut *out, const char *text, size_t length);
/* A quoted Sym, ? where absent. */
void out_string(TextOut *out, Sym sym);
/* An identifier, quoted where it is none or would be read as a type; ? where absent. */
void out_name(TextOut *out, Sym sym);

/* Bytes as a string of hexadecimal digits. */
void out_hex(TextOut *out, const unsigned char *bytes, size_t size);
/* @mark("hex") after a space; nothing where there are no bytes. */
void out_rest(TextOut *out, const char *mark, Bytes rest);
/* @mark("text") after a space; nothing where absent. */
void out_mark_string(TextOut *out, const char *mark, Sym text);
/* ["key": "value", …] */
void out_entries(TextOut *out, const KeyValue *entries);
/* @doc, @meta and @unknown, as far as they are there. */
void out_extras(TextOut *out, Sym doc, const KeyValue *metadata, Bytes rest);

void out_type(TextOut *out, const Type *type);
/* A tensor as it stands in a list of initializers (`name = …`) or an attribute. */
void out_tensor(TextOut *out, const Tensor *tensor, Sym name, bool initializer);
void out_sparse(TextOut *out, const SparseTensor *sparse, Sym name);

#endif
