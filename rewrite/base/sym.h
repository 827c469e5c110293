// SPDX-License-Identifier: Apache-2.0
/* Interned names: two equal strings of one table are the same pointer, so == compares.
 *
 * A Sym is counted, not NUL-limited: names from files may hold NULs and any bytes. `text` is also
 * NUL-terminated for printing. NULL stands for "absent", which is not the same as an empty name:
 * a file that says name="" is written back so.
 */
#ifndef DEMI_BASE_SYM_H
#define DEMI_BASE_SYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arena.h"

typedef struct SymData {
    uint32_t length; /* bytes, without the final NUL */
    uint32_t number; /* < the table's count: dense, for side tables; in the order of interning */
    char text[];
} SymData;
typedef const SymData *Sym;

enum { SYM_GROUP = 12 };

/* A cache line of the table. */
typedef struct SymGroup {
    uint8_t tags[SYM_GROUP]; /* of the names' hashes */
    uint8_t count;           /* names here */
    bool passed;             /* it was full, and names of its own are in the groups behind it */
    uint32_t numbers[SYM_GROUP];
} SymGroup;

/* The last number that sym_fresh gave to a stem. */
typedef struct SymSuffix {
    Sym stem;
    uint64_t number;
} SymSuffix;

typedef struct SymTable {
    Arena *arena; /* owns the names and the table */
    Sym *names;   /* [count], in the order of interning */
    size_t count, room;
    ArenaPool texts;  /* of the names */
    SymGroup *groups; /* [group_count] */
    size_t group_count;
    void *memory;        /* of groups, which are aligned in it */
    SymSuffix *suffixes; /* [suffix_capacity]: as slots, by stem */
    size_t suffix_count, suffix_capacity;
    uint64_t key[2]; /* of the hash: random, so that no file can choose names that collide */
} SymTable;

void sym_table_init(SymTable *table, Arena *arena);

/* Makes room for `count` names more, so that the table need not grow on the way there. */
void sym_reserve(SymTable *table, size_t count);

/* The one Sym of these bytes, made if need be. length must be below 2^32 - 1. */
Sym sym_intern(SymTable *table, const char *text, size_t length);
Sym sym_intern_cstr(SymTable *table, const char *text);

/* Bytes to be looked up soon: between sym_key and sym_intern_key, which need not be followed by the
 * other, the memory of the table is on its way. The bytes are the caller's. */
typedef struct SymKey {
    const char *text;
    size_t length;
    uint64_t hash;
} SymKey;
SymKey sym_key(const SymTable *table, const char *text, size_t length);
Sym sym_intern_key(SymTable *table, SymKey key);

/* The Sym of these bytes if it was ever interned, else NULL. */
Sym sym_find(const SymTable *table, const char *text, size_t length);

/* A name that was never interned in this table: `stem`, or `stem_1`, `stem_2`, …, with the lowest
 * number that is free and above those given before. n calls with one stem take O(n). */
Sym sym_fresh(SymTable *table, const char *stem);
Sym sym_fresh_key(SymTable *table, SymKey stem);

/* True where sym is absent or empty: both mean "no name" to ONNX. */
static inline bool sym_is_empty(Sym sym) {
    return !sym || sym->length == 0;
}

/* The text, or "" where absent. */
static inline const char *sym_text(Sym sym) {
    return sym ? sym->text : "";
}

/* Compares with a C string. Inline, so that the length of a literal is known. */
static inline bool sym_equals(Sym sym, const char *text) {
    size_t length = strlen(text);
    return sym && sym->length == length && memcmp(sym->text, text, length) == 0;
}

/* For hash tables keyed by Syms of one table: neighbors by number are neighbors in sixteens, so
 * that names met in their order find their slots in the caches. No file can choose names that
 * collide: of n names that do, it would have to hold n^2. */
static inline uint32_t sym_hash(Sym sym) {
    uint32_t block = (sym->number >> 4) * 0x9e3779b1u;
    return (block ^ block >> 15) << 4 | (sym->number & 15);
}

#endif
