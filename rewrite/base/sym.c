// SPDX-License-Identifier: Apache-2.0
/* Hash table of interned names: FNV-1a, open addressing, at most half full. */
#include "sym.h"

#include <stdio.h>
#include <string.h>

static uint32_t hash_bytes(const char *text, size_t length) {
    uint32_t hash = 2166136261u; /* FNV-1a, 32 bit */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

void sym_table_init(SymTable *table, Arena *arena) { *table = (SymTable){.arena = arena}; }

/* The slot that holds these bytes, or the free slot where they belong. capacity must not be 0. */
static Sym *slot_of(const SymTable *table, const char *text, size_t length, uint32_t hash) {
    size_t mask = table->capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        Sym sym = table->slots[i];
        if (!sym) return &table->slots[i];
        if (sym->hash != hash || sym->length != length) continue;
        if (length == 0 || memcmp(sym->text, text, length) == 0) return &table->slots[i];
    }
}

static void table_grow(SymTable *table) {
    SymTable old = *table;
    table->capacity = old.capacity ? old.capacity * 2 : 64;
    table->slots = ARENA_ARRAY(table->arena, Sym, table->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        Sym sym = old.slots[i];
        if (sym) *slot_of(table, sym->text, sym->length, sym->hash) = sym;
    }
}

Sym sym_intern(SymTable *table, const char *text, size_t length) {
    if (length >= UINT32_MAX) arena_exhausted(table->arena);
    if (table->count * 2 >= table->capacity) table_grow(table);
    uint32_t hash = hash_bytes(text, length);
    Sym *slot = slot_of(table, text, length, hash);
    if (*slot) return *slot;
    SymData *sym = arena_alloc(table->arena, sizeof *sym + length + 1);
    sym->length = (uint32_t)length;
    sym->hash = hash;
    if (length) memcpy(sym->text, text, length);
    table->count++;
    return *slot = sym;
}

Sym sym_intern_cstr(SymTable *table, const char *text) {
    return sym_intern(table, text, strlen(text));
}

Sym sym_find(const SymTable *table, const char *text, size_t length) {
    if (!table->capacity) return NULL;
    return *slot_of(table, text, length, hash_bytes(text, length));
}

Sym sym_fresh(SymTable *table, const char *stem) {
    enum { SUFFIX = 24 };
    size_t length = strlen(stem);
    Sym taken = sym_find(table, stem, length);
    if (!taken) return sym_intern(table, stem, length);
    SymData *memory = (SymData *)taken; /* the table's own, const to everyone else */
    char *name = arena_alloc(table->arena, length + SUFFIX);
    memcpy(name, stem, length);
    for (;;) {
        unsigned long long number = ++memory->suffix;
        int more = snprintf(name + length, SUFFIX, "_%llu", number);
        if (!sym_find(table, name, length + (size_t)more))
            return sym_intern(table, name, length + (size_t)more);
    }
}

bool sym_equals(Sym sym, const char *text) {
    return sym && sym->length == strlen(text) && memcmp(sym->text, text, sym->length) == 0;
}
