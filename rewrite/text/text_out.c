// SPDX-License-Identifier: Apache-2.0
/* Output primitives of the text printer, names, strings and types. */
#include "text_out.h"

#include <stdio.h>
#include <string.h>

#include "escaped.h"
#include "text_words.h"

void out_flush(TextOut *out) {
    if (out->used) out->sink->write(out->sink->data, out->buffer, out->used);
    out->used = 0;
}

void out_bytes(TextOut *out, const char *text, size_t length) {
    if (length > sizeof out->buffer - out->used) out_flush(out);
    if (length > sizeof out->buffer) {
        out->sink->write(out->sink->data, text, length);
        return;
    }
    if (length) memcpy(out->buffer + out->used, text, length);
    out->used += length;
}

void out_text(TextOut *out, const char *text) {
    out_bytes(out, text, strlen(text));
}

void out_int(TextOut *out, int64_t value) {
    char digits[24];
    out_bytes(out, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value));
}

void out_line(TextOut *out, unsigned extra) {
    out_text(out, "\n");
    for (unsigned i = 0; i < out->indent * 2 + extra; i++) out_text(out, " ");
}

void out_quoted(TextOut *out, const char *text, size_t length) {
    out_text(out, "\"");
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        size_t size;
        if (escaped_plain(text + i, length - i, &size) && c != '"' && c != '\\') {
            out_bytes(out, text + i, size);
            i += size;
            continue;
        }
        char escape[8];
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", c);
        else if (c == '\n')
            snprintf(escape, sizeof escape, "\\n");
        else if (c == '\t')
            snprintf(escape, sizeof escape, "\\t");
        else
            snprintf(escape, sizeof escape, "\\x%02x", c);
        out_text(out, escape);
        i++;
    }
    out_text(out, "\"");
}

void out_string(TextOut *out, Sym sym) {
    if (sym)
        out_quoted(out, sym->text, sym->length);
    else
        out_text(out, "?");
}

void out_name(TextOut *out, Sym sym) {
    bool plain = sym && text_is_identifier(sym->text, sym->length) &&
                 !text_is_type_word(sym->text, sym->length) &&
                 !text_is_float_word(sym->text, sym->length);
    if (plain)
        out_bytes(out, sym->text, sym->length);
    else
        out_string(out, sym);
}

void out_hex(TextOut *out, const unsigned char *bytes, size_t size) {
    out_text(out, "\"");
    for (size_t i = 0; i < size; i++) {
        char hex[3];
        snprintf(hex, sizeof hex, "%02x", bytes[i]);
        out_bytes(out, hex, 2);
    }
    out_text(out, "\"");
}

void out_rest(TextOut *out, const char *mark, Bytes rest) {
    if (rest.size == 0) return;
    out_text(out, " @");
    out_text(out, mark);
    out_text(out, "(");
    out_hex(out, rest.data, rest.size);
    out_text(out, ")");
}

void out_mark_string(TextOut *out, const char *mark, Sym text) {
    if (!text) return;
    out_text(out, " @");
    out_text(out, mark);
    out_text(out, "(");
    out_string(out, text);
    out_text(out, ")");
}

void out_entries(TextOut *out, const KeyValue *entries) {
    out_text(out, "[");
    for (const KeyValue *entry = entries; entry; entry = entry->next) {
        if (entry != entries) out_text(out, ", ");
        out_string(out, entry->key);
        out_text(out, ": ");
        out_string(out, entry->value);
        out_rest(out, "unknown", entry->rest);
    }
    out_text(out, "]");
}

void out_extras(TextOut *out, Sym doc, const KeyValue *metadata, Bytes rest) {
    out_mark_string(out, "doc", doc);
    if (metadata) {
        out_text(out, " @meta");
        out_entries(out, metadata);
    }
    out_rest(out, "unknown", rest);
}

/* ---- types ----------------------------------------------------------------------------------- */

static void out_dtype(TextOut *out, int32_t dtype, bool present) {
    if (present && dtype > 0 && dtype < DTYPE_COUNT) {
        out_text(out, dtype_name((Dtype)dtype));
        return;
    }
    out_text(out, "?");
    if (present) out_int(out, dtype);
}

static void out_dims(TextOut *out, const Type *type) {
    if (!type->has_shape) {
        out_text(out, "[]");
        return;
    }
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        out_text(out, i ? "," : "[");
        switch (dim->kind) {
        case DIM_UNKNOWN: out_text(out, "?"); break;
        case DIM_KNOWN: out_int(out, dim->size); break;
        case DIM_SYMBOL:
            if (text_is_identifier(sym_text(dim->symbol), dim->symbol ? dim->symbol->length : 0))
                out_bytes(out, dim->symbol->text, dim->symbol->length);
            else
                out_quoted(out, sym_text(dim->symbol), dim->symbol ? dim->symbol->length : 0);
            break;
        }
        if (!dim->extra) continue;
        out_mark_string(out, "denotation", dim->extra->denotation);
        out_rest(out, "dim_unknown", dim->extra->rest);
    }
    if (type->rank) out_text(out, "]");
}

/* The first part may be dotted. */
static void out_opaque_part(TextOut *out, Bytes part, bool first) {
    const char *text = (const char *)part.data;
    if (first ? text_is_dotted(text, part.size) : text_is_identifier(text, part.size))
        out_bytes(out, text, part.size);
    else
        out_quoted(out, text, part.size);
}

/* Prints what stands between the parentheses; false where all of it is left to @type_unknown. */
static bool out_opaque(TextOut *out, const Type *type) {
    Bytes domain, name;
    bool plain = type->extra && text_opaque_decode(type->extra->rest, &domain, &name) &&
                 (name.data || !domain.data);
    if (!plain) {
        out_text(out, "?");
        return false;
    }
    if (domain.data) {
        out_opaque_part(out, domain, true);
        out_text(out, ", ");
    }
    if (name.data) out_opaque_part(out, name, !domain.data);
    return true;
}

/* True where the type's rest is told. */
static bool out_wrapped(TextOut *out, const Type *type) {
    out_text(out, text_word_name(text_type_kinds, (int)type->kind));
    out_text(out, "(");
    if (type->kind == TYPE_MAP) {
        out_dtype(out, type->dtype, type->has_dtype);
        if (type->elem) out_text(out, ", ");
    }
    if (type->kind == TYPE_SPARSE_TENSOR) {
        out_dtype(out, type->dtype, type->has_dtype);
        out_dims(out, type);
    }
    if (type->elem) out_type(out, type->elem);
    bool told = type->kind == TYPE_OPAQUE && out_opaque(out, type);
    out_text(out, ")");
    return told;
}

void out_type(TextOut *out, const Type *type) {
    bool told = false;
    switch (type->kind) {
    case TYPE_NONE: out_text(out, "??"); break;
    case TYPE_TENSOR:
        out_dtype(out, type->dtype, type->has_dtype);
        out_dims(out, type);
        break;
    case TYPE_SPARSE_TENSOR:
    case TYPE_SEQUENCE:
    case TYPE_OPTIONAL:
    case TYPE_MAP:
    case TYPE_OPAQUE: told = out_wrapped(out, type); break;
    }
    if (!type->extra) return;
    out_mark_string(out, "denotation", type->extra->denotation);
    if (!told) out_rest(out, "type_unknown", type->extra->rest);
    out_rest(out, "inner_unknown", type->extra->inner_rest);
    out_rest(out, "shape_unknown", type->extra->shape_rest);
}
