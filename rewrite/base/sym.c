// SPDX-License-Identifier: Apache-2.0
/* Hash table of interned names: open addressing, at most three quarters full.
 *
 * Names of models are numbered, and are met in that order. Those that differ in their last byte only
 * are given neighbouring slots, so that most look-ups in a table far larger than the caches find
 * their slot in them; and a slot holds the hash, so that only names that are equal, or nearly always
 * so, are looked at.
 */
#include "sym.h"

#include <string.h>

/* Eight bytes at a time: multiply, fold the high half into the low. Never part of any output. */
static uint32_t hash_stem(const char *text, size_t length) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = length * odd, word;
    for (; length >= sizeof word; length -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    word = 0;
    if (length) memcpy(&word, text, length);
    hash = (hash ^ word) * odd;
    hash ^= hash >> 29;
    hash *= odd;
    return (uint32_t)(hash >> 32);
}

/* The last byte decides the lowest and the highest bits alone: 16 neighbours. */
static uint32_t hash_bytes(const char *text, size_t length) {
    if (length == 0) return 0;
    uint32_t last = (unsigned char)text[length - 1];
    return (hash_stem(text, length - 1) << 4 | (last & 15)) ^ (last >> 4) << 28;
}

void sym_table_init(SymTable *table, Arena *arena) { *table = (SymTable){.arena = arena}; }

/* The slot that holds these bytes, or the free slot where they belong. capacity must not be 0. */
static SymSlot *slot_of(const SymTable *table, const char *text, size_t length, uint32_t hash) {
    size_t mask = table->capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        SymSlot *slot = &table->slots[i];
        if (!slot->number) return slot;
        if (slot->hash != hash) continue;
        Sym sym = table->names[slot->number - 1];
        if (sym->length != length) continue;
        if (length == 0 || memcmp(sym->text, text, length) == 0) return slot;
    }
}

static void slots_grow(SymTable *table, size_t capacity) {
    SymSlot *old = table->slots;
    size_t old_capacity = table->capacity;
    table->capacity = capacity;
    table->slots = ARENA_ARRAY(table->arena, SymSlot, capacity);
    for (size_t i = 0; i < old_capacity; i++) {
        if (!old[i].number) continue;
        size_t slot = old[i].hash & (capacity - 1); /* all are different: no comparing */
        while (table->slots[slot].number) slot = (slot + 1) & (capacity - 1);
        table->slots[slot] = old[i];
    }
    arena_release(table->arena, old, old_capacity * sizeof *old);
}

void sym_reserve(SymTable *table, size_t count) {
    if (count > UINT32_MAX - table->count) arena_exhausted(table->arena);
    count += table->count;
    size_t capacity = table->capacity ? table->capacity : 64;
    while (capacity / 4 * 3 < count) capacity *= 2;
    if (capacity > table->capacity) slots_grow(table, capacity);
    if (count <= table->room) return;
    size_t room = count < 2 * table->room ? 2 * table->room : count;
    table->names = arena_resize(table->arena, table->names, table->room * sizeof *table->names,
                                room * sizeof *table->names);
    table->room = room;
}

/* Adds a name that is not there, at its slot. */
static Sym add(SymTable *table, SymSlot *slot, const char *text, size_t length) {
    SymData *sym = arena_alloc(table->arena, sizeof *sym + length + 1);
    sym->length = (uint32_t)length;
    sym->hash = hash_bytes(text, length);
    if (length) memcpy(sym->text, text, length);
    table->names[table->count++] = sym;
    *slot = (SymSlot){.hash = sym->hash, .number = (uint32_t)table->count};
    return sym;
}

Sym sym_intern(SymTable *table, const char *text, size_t length) {
    if (length >= UINT32_MAX) arena_exhausted(table->arena);
    if (table->count == table->room || table->count >= table->capacity / 4 * 3)
        sym_reserve(table, 1);
    SymSlot *slot = slot_of(table, text, length, hash_bytes(text, length));
    return slot->number ? table->names[slot->number - 1] : add(table, slot, text, length);
}

Sym sym_intern_cstr(SymTable *table, const char *text) {
    return sym_intern(table, text, strlen(text));
}

Sym sym_find(const SymTable *table, const char *text, size_t length) {
    if (!table->capacity) return NULL;
    const SymSlot *slot = slot_of(table, text, length, hash_bytes(text, length));
    return slot->number ? table->names[slot->number - 1] : NULL;
}

/* Appends "_number" to the `length` bytes at name; returns the new length. */
static size_t put_suffix(char *name, size_t length, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    name[length++] = '_';
    while (count) name[length++] = digits[--count];
    return length;
}

Sym sym_fresh(SymTable *table, const char *stem) {
    enum { SUFFIX = 1 + 20 };
    size_t length = strlen(stem), count = table->count;
    Sym taken = sym_intern(table, stem, length);
    if (table->count > count) return taken;
    SymData *memory = (SymData *)taken; /* the table's own, const to everyone else */
    char *name = arena_alloc(table->arena, length + SUFFIX);
    memcpy(name, stem, length);
    for (;;) {
        size_t whole = put_suffix(name, length, ++memory->suffix);
        if (!sym_find(table, name, whole)) return sym_intern(table, name, whole);
    }
}

bool sym_equals(Sym sym, const char *text) {
    return sym && sym->length == strlen(text) && memcmp(sym->text, text, sym->length) == 0;
}
