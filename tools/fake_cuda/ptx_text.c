// SPDX-License-Identifier: Apache-2.0
/* Reading PTX as text; see ptx_text.h. What is read is nvcc's, so that layout may be trusted: a comment
 * ends with its line, and names have no braces. */
#include "ptx_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

bool ptx_same(PtxSlice a, PtxSlice b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

const char *ptx_search(PtxSlice s, const char *text) {
    for (; s.length; s.at++, s.length--)
        if (ptx_starts(s, text)) return s.at;
    return NULL;
}

PtxSlice ptx_trim(PtxSlice s) {
    while (s.length && isspace((unsigned char)s.at[0])) s.at++, s.length--;
    while (s.length && isspace((unsigned char)s.at[s.length - 1])) s.length--;
    return s;
}
PtxSlice ptx_inside(PtxSlice s) {
    s = ptx_trim(s);
    if (s.length < 2 || !strchr("{[(", s.at[0])) return s;
    return ptx_trim((PtxSlice){s.at + 1, s.length - 2});
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}
PtxSlice ptx_word(PtxSlice s) {
    uint32_t length = 0;
    s = ptx_trim(s);
    while (length < s.length && is_word(s.at[length])) length++;
    return (PtxSlice){s.at, length};
}

void *ptx_grow(void *items, uint32_t count, uint32_t *room, uint32_t size) {
    if (count < *room) return items;
    *room = *room ? 2 * *room : 64;
    items = realloc(items, (size_t)*room * size);
    if (!items) abort();
    return items;
}

/* Behind spaces and comments. */
static const char *skip(const char *at, const char *end) {
    while (at < end) {
        if (isspace((unsigned char)*at))
            at++;
        else if (end - at > 1 && at[0] == '/' && at[1] == '/')
            while (at < end && *at != '\n') at++;
        else
            break;
    }
    return at;
}

static const char *find(const char *at, const char *end, const char *marks) {
    while (at < end && !strchr(marks, *at)) at++;
    return at;
}

/* ---- statements ------------------------------------------------------------------------------ */

bool ptx_next(const char **from, const char *end, PtxStatement *s) {
    const char *at = skip(*from, end);
    *s = (PtxStatement){0};
    while (at < end && (*at == '{' || *at == '}')) at = skip(at + 1, end);
    if (at >= end) return false;
    if (*at == '@') {
        s->guard.at = at + 1;
        at = find(at, end, " \t");
        s->guard.length = (uint32_t)(at - s->guard.at);
        at = skip(at, end);
    }
    s->name = ptx_word((PtxSlice){at, (uint32_t)(end - at)});
    at = s->name.at + s->name.length;
    while (end - at > 2 && at[0] == ':' && at[1] == ':') { /* ld.shared::cluster.f32 */
        const PtxSlice more = ptx_word((PtxSlice){at + 2, (uint32_t)(end - at - 2)});
        at = more.at + more.length;
        s->name.length = (uint32_t)(at - s->name.at);
    }
    if (at < end && *at == ':') {
        s->label = true;
        *from = at + 1;
        return true;
    }
    s->rest.at = at;
    at = find(at, end, ";");
    s->rest.length = (uint32_t)(at - s->rest.at);
    s->rest = ptx_trim(s->rest);
    *from = at < end ? at + 1 : end;
    return true;
}

bool ptx_next_operand(PtxSlice *rest, PtxSlice *operand) {
    uint32_t length = 0, depth = 0;
    *rest = ptx_trim(*rest);
    if (!rest->length) return false;
    for (; length < rest->length && (depth || rest->at[length] != ','); length++) {
        if (strchr("{[(", rest->at[length])) depth++;
        if (strchr("}])", rest->at[length])) depth--;
    }
    *operand = ptx_trim((PtxSlice){rest->at, length});
    if (length < rest->length) length++;
    rest->at += length;
    rest->length -= length;
    return true;
}

/* ---- modules --------------------------------------------------------------------------------- */

/* The name of an object of `.align 4 .b8 name[24]`. */
static PtxSlice object_name(PtxSlice header) {
    const char *end = find(header.at, header.at + header.length, "[=");
    PtxSlice left = ptx_trim((PtxSlice){header.at, (uint32_t)(end - header.at)});
    uint32_t length = 0;
    while (length < left.length && is_word(left.at[left.length - 1 - length])) length++;
    return (PtxSlice){left.at + left.length - length, length};
}

/* Bytes; what has no initial values is not known. */
static bool add_data(PtxModule *m, PtxSlice header, char *why) {
    m->data = ptx_grow(m->data, m->data_count, &m->data_room, sizeof *m->data);
    PtxData *d = &m->data[m->data_count++];
    *d = (PtxData){.name = object_name(header), .shared = ptx_starts(header, ".extern .shared")};
    if (d->shared) return true;
    const char *end = header.at + header.length, *bracket = find(header.at, end, "[");
    const uint64_t size = bracket < end ? strtoull(bracket + 1, NULL, 10) : 0;
    const char *at = find(header.at, end, "{");
    if (!size || at == end || !ptx_search(header, ".b8 ")) {
        snprintf(why, PTX_WHY, "PTX: data that is not bytes with values: %.*s", (int)d->name.length,
                 d->name.at);
        return false;
    }
    d->region = (PtxRegion){(UINT64_C(1) << 56) + ((uint64_t)m->data_count << 32), size,
                            calloc(1, size), NULL};
    if (!d->region.bytes) abort();
    for (uint64_t i = 0; i < size && at < end; i++) {
        d->region.bytes[i] = (uint8_t)strtoul(at + 1, NULL, 10);
        at = find(at + 1, end, ",}");
    }
    return true;
}

/* A function's body, or nothing where it is only declared. */
static const char *add_function(PtxModule *m, PtxSlice header, const char *at, const char *end) {
    const PtxFunction f = {.header = header, .entry = ptx_search(header, ".entry")};
    uint32_t depth = 1;
    const char *body = at + 1;
    for (at = body; at < end && depth; at++) {
        if (*at == '{') depth++;
        if (*at == '}') depth--;
    }
    m->functions = ptx_grow(m->functions, m->function_count, &m->function_room, sizeof f);
    PtxFunction *to = &m->functions[m->function_count++];
    *to = f;
    to->body = (PtxSlice){body, (uint32_t)(at - 1 - body)};
    const char *name = ptx_search(header, f.entry ? ".entry" : ".func");
    name += f.entry ? 6 : 5;
    PtxSlice rest = ptx_trim((PtxSlice){name, (uint32_t)(header.at + header.length - name)});
    if (rest.length && rest.at[0] == '(') { /* where the result goes */
        const char *close = find(rest.at, header.at + header.length, ")") + 1;
        rest = (PtxSlice){close, (uint32_t)(header.at + header.length - close)};
    }
    to->name = ptx_word(rest);
    return at;
}

bool ptx_scan(PtxModule *m, const char *text, char *why) {
    const char *at = text, *end = text + strlen(text);
    for (at = skip(at, end); at < end; at = skip(at, end)) {
        PtxSlice word = ptx_word((PtxSlice){at, (uint32_t)(end - at)});
        if (ptx_is(word, ".version") || ptx_is(word, ".target") || ptx_is(word, ".address_size")) {
            at = find(at, end, "\n");
            continue;
        }
        const char *stop = find(at, end, ";{=");
        PtxSlice header = ptx_trim((PtxSlice){at, (uint32_t)(stop - at)});
        if (stop < end && *stop == '{') {
            at = add_function(m, header, stop, end);
            continue;
        }
        const bool function = ptx_search(header, ".func");
        stop = find(stop, end, ";");
        header.length = (uint32_t)(stop - at);
        at = stop < end ? stop + 1 : end;
        if (!function && !add_data(m, header, why)) return false;
    }
    return true;
}
